"""A slot as an read_only_slot sees it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from penstock.sender import slot_inspection
from penstock.sender.opening import open_spool
from penstock.sender.segment import name_of
from penstock.sender.settings import SpoolSettings
from penstock.sender.slot import Rejection
from penstock.sender.spool import Spool
from penstock.storage.fs import OsFile, OsFilesystem
from penstock.testing import MemoryFilesystem
from penstock.testing.clock import FakeClock
from penstock.wire.binary_batch import pack_records
from penstock.wire.sender_protocol import contents_of, pack_record, parcel_head

SLOT = "/sf/edge"


def opened(fs: MemoryFilesystem) -> Spool:
    settings = SpoolSettings(sf_dir="/sf", sender_id="edge", segment_bytes=4096)
    return open_spool(settings, fs=fs, clock=FakeClock())


def fill(spool: Spool, count: int) -> None:
    for number in range(count):
        spool.append([parcel_head("t", 1), pack_records([b"%d" % number], b"a", b"")])


def test_it_tells_what_waits_without_touching_anything() -> None:
    fs = MemoryFilesystem()
    spool = opened(fs)
    fill(spool, 5)
    spool.ack(1)
    spool.reject(2, Rejection("schema_mismatch", 3, "no"))
    before = fs.list(SLOT)

    found = slot_inspection.inspect(fs, SLOT)

    assert (found.sender_id, found.frames) == ("edge", 2)
    assert (found.acked_fsn, found.published_fsn) == (2, 4)
    assert (found.frames_lost, found.dead_letters, found.problem) == (0, 1, None)
    assert found.oldest_ms > 0
    assert fs.list(SLOT) == before
    spool.close()


def test_the_frames_that_wait_come_in_order_and_tell_their_rows() -> None:
    fs = MemoryFilesystem()
    spool = opened(fs)
    fill(spool, 4)
    spool.ack(0)
    spool.close()

    frames = [(fsn, payload or b"") for fsn, payload in slot_inspection.frames(fs, SLOT)]

    assert [fsn for fsn, _ in frames] == [1, 2, 3]
    assert contents_of(frames[0][1]) == ("t", 1)
    (row,) = slot_inspection.rows(*frames[0])
    assert (row.fsn, row.topic, bytes(row.data), row.tag, row.node) == (1, "t", b"1", "a", None)


def test_rows_have_their_meta_and_node() -> None:
    payload = parcel_head("t", 1) + pack_record(1, 2, 0, 1) + b"n" + b"{}" + b"7"

    (row,) = slot_inspection.rows(3, payload)

    assert (bytes(row.meta or b""), row.node, row.tag) == (b"{}", "n", None)


def test_what_is_no_parcel_has_no_topic() -> None:
    assert contents_of(b"junk") == ("", 0)


def test_a_missing_segment_is_a_problem_and_not_a_crash() -> None:
    fs = MemoryFilesystem()
    spool = opened(fs)
    for _ in range(12):
        spool.append([bytes(1000)])
    spool.close()
    fs.unlink(f"{SLOT}/{name_of(2)}")

    found = slot_inspection.inspect(fs, SLOT)

    assert found.problem is not None
    assert "missing" in found.problem


def test_the_holder_is_whoever_has_the_lock() -> None:
    fs = MemoryFilesystem()
    spool = opened(fs)

    assert slot_inspection.holder(fs, SLOT) is not None

    spool.close()
    assert slot_inspection.holder(fs, SLOT) is None
    assert slot_inspection.holder(fs, "/sf/nobody") is None


class ReadOnly(OsFilesystem):
    """As a read-only mount, or the right to read alone, would have it."""

    def lock(self, path: str) -> NoReturn:
        raise PermissionError(path)

    def create(self, path: str) -> NoReturn:
        raise PermissionError(path)

    def open(self, path: str, *, writable: bool = False) -> OsFile:
        assert not writable
        return super().open(path)


def test_the_right_to_read_is_enough(tmp_path: Path) -> None:
    settings = SpoolSettings(sf_dir=str(tmp_path), sender_id="edge", segment_bytes=4096)
    spool = open_spool(settings)
    fill(spool, 3)
    spool.reject(0, Rejection("schema_mismatch", 3, "no"))

    found = slot_inspection.inspect(ReadOnly(), str(tmp_path / "edge"))

    assert (found.frames, found.dead_letters, found.holder_pid) == (2, 1, os.getpid())
    assert len(list(slot_inspection.frames(ReadOnly(), found.path))) == 2
    spool.close()
    assert slot_inspection.holder(ReadOnly(), found.path) is None


def test_a_folder_is_a_slot_by_what_a_sender_leaves_there() -> None:
    fs = MemoryFilesystem()
    for name, sign in {
        "a": ".lock",
        "b": ".ack-watermark",
        "c": name_of(1),
        "d": "dead-letter/x.json",
        "e": "notes.txt",
    }.items():
        fs.make_dirs(f"/sf/{name}/{sign}".rpartition("/")[0])
        fs.replace(f"/sf/{name}/{sign}", b"")

    assert [slot_inspection.is_slot(fs, f"/sf/{name}") for name in "abcde"] == [True] * 4 + [False]
    assert not slot_inspection.is_slot(fs, "/sf")


def test_what_is_lost_is_told_with_its_place() -> None:
    fs = MemoryFilesystem()
    spool = opened(fs)
    fill(spool, 5)
    spool.ack(0)
    spool.close()
    at = list(slot_inspection.survey(fs, SLOT).facts[0].scan.frames)[2].offset
    fs.corrupt(f"{SLOT}/{name_of(1)}", at + 25)

    found = slot_inspection.survey(fs, SLOT)

    (lost,) = found.losses
    assert (lost["file"], lost["first_fsn"], lost["last_fsn"]) == (name_of(1), 2, 2)
    assert (found.frames, found.frames_lost) == (3, 1)


class Busy(MemoryFilesystem):
    """Something happens in the slot just before its segments are listed."""

    happening = staticmethod(lambda: None)

    def list(self, path: str) -> list[str]:
        names = super().list(path)
        if path == SLOT:
            self.happening()
        return names


def test_frames_that_come_while_one_looks_are_not_missed() -> None:
    fs = Busy()
    spool = opened(fs)
    fill(spool, 2)

    def go_on() -> None:
        fill(spool, 200)  # in segments that are not listed yet
        spool.ack(3)

    fs.happening = go_on

    found = slot_inspection.survey(fs, SLOT)

    assert (found.problem, found.damage) == (None, [])
    fs.happening = lambda: None
    spool.close()


def test_frames_that_go_while_one_looks_are_not_missed() -> None:
    fs = Busy()
    spool = opened(fs)
    fill(spool, 300)

    def go_on() -> None:
        spool.ack(250)
        spool.maintain()

    fs.happening = go_on

    found = slot_inspection.survey(fs, SLOT)

    assert (found.problem, found.damage) == (None, [])
    assert found.acked == 250
    fs.happening = lambda: None
    spool.close()
