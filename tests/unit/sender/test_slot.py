"""A sender's directory: one holder, and notes that survive."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from penstock.errors import InvalidArgument, SlotInUse
from penstock.sender.slot import Rejection, Slot, check_sender_id, orphans
from penstock.storage.fs import OsFilesystem
from penstock.testing import MemoryFilesystem, PowerLost

PATH = "/sf/edge"
INCARNATION = bytes(range(16))
WHY = Rejection("PARSE_ERROR", 5, "nonsense")


@pytest.fixture
def fs() -> MemoryFilesystem:
    return MemoryFilesystem()


def test_the_second_holder_is_told_who_the_first_is(tmp_path: Path) -> None:
    path = str(tmp_path / "edge")
    slot = Slot.open(OsFilesystem(), path)

    with pytest.raises(SlotInUse) as caught:
        Slot.open(OsFilesystem(), path)

    assert caught.value.pid == os.getpid()
    assert path in str(caught.value)
    slot.release()
    Slot.open(OsFilesystem(), path).release()


@pytest.mark.parametrize("wrong", ["", "a b", "../x", "a" * 200, "ä", "a\n"])
def test_a_sender_id_is_a_plain_name(wrong: str) -> None:
    with pytest.raises(InvalidArgument):
        check_sender_id(wrong)


def test_notes_for_drainers(fs: MemoryFilesystem) -> None:
    slot = Slot.open(fs, PATH)
    assert (slot.failed(), slot.last_error()) == (None, None)

    slot.mark_failed("a hole at 7")
    slot.record_error("refused")

    slot = Slot.open(fs.kill(), PATH)
    assert (slot.failed(), slot.last_error()) == ("a hole at 7", "refused")
    slot.clear_failed()
    slot.clear_failed()
    slot.record_error(None)
    assert (slot.failed(), slot.last_error()) == (None, None)


def test_orphans_hold_segments_and_were_not_given_up(fs: MemoryFilesystem) -> None:
    for sender_id in ("own", "full", "drained", "failed", "not a slot"):
        fs.make_dirs(f"/sf/{sender_id}")
        if sender_id != "drained":
            fs.replace(f"/sf/{sender_id}/sf-0000000000000001.seg", b"")
    fs.replace("/sf/failed/.failed", b"why")
    fs.replace("/sf/file", b"")

    assert orphans(fs, "/sf", own_id="own") == ["full"]
    assert orphans(fs, "/nowhere", own_id="own") == []


def test_a_folder_that_cannot_be_listed_hides_no_other(
    fs: MemoryFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sender_id in ("closed", "open"):
        fs.make_dirs(f"/sf/{sender_id}")
        fs.replace(f"/sf/{sender_id}/sf-0000000000000001.seg", b"")
    listing = fs.list

    def refusing(path: str) -> list[str]:
        if path == "/sf/closed":
            raise PermissionError(path)
        return listing(path)

    monkeypatch.setattr(fs, "list", refusing)
    heard: list[str] = []

    found = orphans(fs, "/sf", own_id="own", on_error=lambda name, error: heard.append(name))

    assert (found, heard) == (["open"], ["closed"])
    assert orphans(fs, "/sf", own_id="own") == ["open"]


def test_a_note_that_cannot_be_written_is_left_out(fs: MemoryFilesystem) -> None:
    slot = Slot.open(fs, PATH)
    fs.fail("create", path=".last_error", error=errno.ENOSPC)

    slot.record_error("refused")

    assert slot.last_error() is None


def test_a_dead_letter_is_whole_or_not_there(fs: MemoryFilesystem) -> None:
    Slot.open(fs, PATH)
    outcomes = set()
    for stop in range(30):
        state = fs.copy()
        state.stop_before(state.operations + stop)
        slot = Slot.open(state, PATH)
        try:
            slot.write_dead_letter(7, INCARNATION, b"frame", WHY, now_ms=5)
        except PowerLost:
            pass
        else:
            outcomes.add("returned")
        state.on_operation = None
        state._is_lost = False
        for left in state.crash_states():
            slot = Slot.open(left, PATH)
            notes = slot.dead_letters()
            outcomes.add(len(notes))
            assert len(notes) == 1 or "returned" not in outcomes
            if notes:
                assert slot.dead_letter(7, INCARNATION) == b"frame"
    assert outcomes == {0, 1, "returned"}


def test_a_dead_letter_tells_why_and_may_be_written_twice(fs: MemoryFilesystem) -> None:
    slot = Slot.open(fs, PATH)
    for _ in range(2):
        slot.write_dead_letter(7, INCARNATION, b"frame", WHY, now_ms=5)

    assert slot.dead_letters() == [
        {
            "fsn": 7,
            "incarnation": INCARNATION.hex(),
            "category": "PARSE_ERROR",
            "status": 5,
            "message": "nonsense",
            "time_ms": 5,
        }
    ]


def test_dead_letters_are_counted_once_each(fs: MemoryFilesystem) -> None:
    slot = Slot.open(fs, PATH)
    assert slot.count_dead_letters() == (0, 0)

    are_new = [
        slot.write_dead_letter(fsn, INCARNATION, b"frame", WHY, now_ms=5) for fsn in (7, 7, 8)
    ]

    assert are_new == [True, False, True]
    assert slot.count_dead_letters() == (2, 2 * len(b"frame"))


@pytest.mark.parametrize("note", [b"{broken", b"[]", b'{"status": "x"}', b""])
def test_a_note_that_cannot_be_read_says_so_and_hides_no_other(
    fs: MemoryFilesystem, note: bytes
) -> None:
    slot = Slot.open(fs, PATH)
    for fsn in (7, 8):
        slot.write_dead_letter(fsn, INCARNATION, b"frame", WHY, now_ms=5)
    fs.replace(f"{PATH}/dead-letter/{7:020d}-{INCARNATION.hex()}.json", note)

    bad, good = slot.dead_letters()

    assert (bad["fsn"], bad["incarnation"]) == (7, INCARNATION.hex())
    assert (bad["category"], good["category"]) == ("unknown", "PARSE_ERROR")
    assert "cannot be read" in bad["message"]
    assert slot.dead_letter(7, INCARNATION) == b"frame"


def test_a_dead_letter_that_was_sent_again_goes(fs: MemoryFilesystem) -> None:
    slot = Slot.open(fs, PATH)
    for fsn in (7, 8):
        slot.write_dead_letter(fsn, INCARNATION, b"frame", WHY, now_ms=5)

    for _ in range(2):
        slot.remove_dead_letter(7, INCARNATION)

    assert [note["fsn"] for note in slot.dead_letters()] == [8]
    assert len(fs.list(f"{PATH}/dead-letter")) == 2


def test_what_is_quarantined_is_told_with_and_without_a_report(fs: MemoryFilesystem) -> None:
    slot = Slot.open(fs, PATH)
    slot.quarantine("a", b"first", {"offset": 3})
    fs.replace(f"{PATH}/quarantine/b.json", b"{broken")
    fs.replace(f"{PATH}/quarantine/c.bytes", b"12")
    fs.replace(f"{PATH}/x.seg", b"data")
    slot.quarantine_file(f"{PATH}/x.seg")
    fs.replace(f"{PATH}/y.seg.damaged~", b"")

    told = {one.get("file"): one.get("reason") for one in slot.quarantined()}

    assert told == {
        None: None,
        "b.json": "this report cannot be read",
        "c.bytes": "these bytes have no report",
        "x.seg.damaged": "the whole file was quarantined",
        "y.seg.damaged~": "the whole file was quarantined",
    }


def test_damaged_bytes_are_kept_once_with_their_report(fs: MemoryFilesystem) -> None:
    slot = Slot.open(fs, PATH)
    for data in (b"first", b"second"):
        slot.quarantine("seg-1", data, {"offset": 3})

    assert slot.quarantined() == [{"offset": 3}]
    assert fs.read(f"{PATH}/quarantine/seg-1.bytes") == b"first"


def test_a_whole_file_is_moved_aside_beside_an_older_one(fs: MemoryFilesystem) -> None:
    slot = Slot.open(fs, PATH)
    for data in (b"one", b"two"):
        fs.replace(f"{PATH}/x.seg", data)
        slot.quarantine_file(f"{PATH}/x.seg")

    assert fs.list(f"{PATH}/quarantine") == ["x.seg.damaged", "x.seg.damaged~"]
    assert not fs.exists(f"{PATH}/x.seg")


def test_without_space_for_a_folder_a_file_is_only_renamed(fs: MemoryFilesystem) -> None:
    slot = Slot.open(fs, PATH)
    fs.replace(f"{PATH}/x.seg", b"data")
    fs.fail("mkdir")

    slot.quarantine_file(f"{PATH}/x.seg")

    assert fs.list(PATH) == [".lock", "x.seg.damaged"]
