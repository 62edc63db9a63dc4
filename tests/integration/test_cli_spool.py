"""penstock spool: list, inspect, export, skip. What sends is in test_cli_spool_sending.py."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from penstock.cli.exit_codes import ExitCode
from penstock.sender.segment import name_of
from penstock.sender.sender import Sender
from tests.integration.test_cli_main import Cli

NOWHERE = "ws::addr=127.0.0.1:1;close_flush_timeout_millis=0;"
SEGMENT = name_of(1)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "data")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A slot that was left behind: five frames of one topic, one of another."""
    place = tmp_path / "spool"
    place.mkdir()
    with Sender(f"{NOWHERE}sf_dir={place};sender_id=till-1;") as sender:
        for number in range(5):
            sender.append("sales", {"n": number}, tag="eu")
            sender.flush()
        sender.append_batch("clicks", [1, 2, 3])
    return place


@pytest.fixture
def holed(tmp_path: Path) -> Path:
    """A slot of several segments, of which the second is gone."""
    folder = tmp_path / "holes"
    folder.mkdir()
    with Sender(f"{NOWHERE}sf_dir={folder};sender_id=a;sf_max_segment_bytes=64k;") as sender:
        for _ in range(8):
            sender.append("t", "x" * 30_000)
            sender.flush()
    (folder / "a" / name_of(2)).unlink()
    return folder / "a"


def harm_frame(slot: Path, text: bytes) -> None:
    """Flip a byte of the frame that holds this text."""
    segment = slot / SEGMENT
    data = bytearray(segment.read_bytes())
    data[data.index(text)] ^= 0xFF
    segment.write_bytes(data)


def fingerprint(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# What waits.


def test_the_slots_of_a_folder_are_listed(cli: Cli, folder: Path) -> None:
    shown = cli.ok("spool", "list", folder)
    heads, row = (line.split() for line in shown.out.splitlines())

    assert heads[:6] == ["slot", "frames", "bytes", "acked", "newest", "oldest"]
    assert heads[6:] == ["dead", "lost", "quarantined", "state"]
    assert (row[:2], row[4:6]) == (["till-1", "6"], ["none", "5"])
    assert f"penstock spool drain {folder}/till-1 --to 'ws::addr=host:4000;'" in shown.err
    assert cli.ok("spool", "list", folder, "--json").json["published_fsn"] == 5


def test_a_slot_is_shown_frame_by_frame(cli: Cli, folder: Path) -> None:
    shown = cli.ok("spool", "inspect", folder / "till-1", "--frames", "--json").json

    assert [one["fsn"] for one in shown["frames"]] == list(range(6))
    assert shown["frames"][5] == {"fsn": 5, "topic": "clicks", "rows": 3, "bytes": 57}
    assert shown["slot"]["holder_pid"] is None
    assert "6 frames" in cli.ok("spool", "inspect", folder / "till-1").out


def test_rows_are_exported_and_stay(cli: Cli, folder: Path) -> None:
    lines = cli.ok("spool", "export", folder / "till-1").out.splitlines()

    assert len(lines) == 8
    assert lines[0] == '{"fsn":0,"topic":"sales","data":{"n":0},"tag":"eu"}'
    assert cli.ok("spool", "list", folder, "--json").json["frames"] == 6


def test_a_slot_that_lost_its_dotfiles_is_seen(cli: Cli, folder: Path) -> None:
    for name in (".lock", ".ack-watermark"):
        (folder / "till-1" / name).unlink(missing_ok=True)

    assert cli.ok("spool", "list", folder, "--json").json["frames"] == 6


def test_the_holder_is_named_and_not_disturbed(cli: Cli, folder: Path) -> None:
    with Sender(f"{NOWHERE}sf_dir={folder};sender_id=till-1;") as sender:
        sender.append("sales", 1)
        sender.flush()
        shown = cli.ok("spool", "list", folder)
        skipped = cli.run("spool", "skip", folder / "till-1", "--yes")

    assert f"open in pid {os.getpid()}" in shown.out
    assert "drain" not in shown.err
    assert skipped.code == ExitCode.IN_USE


# The wrong folder.


@pytest.mark.parametrize("verb", ["inspect", "export", "skip", "drain", "redrive"])
def test_a_folder_that_is_no_slot_is_refused_and_left_alone(
    cli: Cli, folder: Path, tmp_path: Path, verb: str
) -> None:
    extra = {"skip": ["--yes"], "drain": ["--to", NOWHERE], "redrive": ["--to", NOWHERE]}
    empty = tmp_path / "empty"
    empty.mkdir()
    before = fingerprint(tmp_path)

    of_slots = cli.run("spool", verb, folder, *extra.get(verb, []))
    of_nothing = cli.run("spool", verb, empty, *extra.get(verb, []))

    assert (of_slots.code, of_nothing.code) == (2, 2)
    assert "is an sf_dir, not a slot: expected one of its slots: till-1" in of_slots.err
    assert "is not a slot: expected a folder SF_DIR/SENDER_ID" in of_nothing.err
    assert fingerprint(tmp_path) == before
    assert not list(empty.iterdir())


def test_a_slot_is_no_folder_of_slots(cli: Cli, folder: Path) -> None:
    done = cli.run("spool", "list", folder / "till-1")

    assert done.code == 2
    assert f"is a slot, not a folder of slots: list {folder}" in done.err


def test_a_folder_without_slots_is_empty_and_a_wrong_one_an_error(cli: Cli, tmp_path: Path) -> None:
    assert cli.ok("spool", "list", tmp_path).out == ""
    assert cli.run("spool", "list", tmp_path / "nowhere").code == 2
    assert cli.run("spool", "inspect", tmp_path / "nowhere").code == 2


# Damage.


def test_frames_that_are_lost_are_shown_with_their_place(cli: Cli, folder: Path) -> None:
    slot = folder / "till-1"
    harm_frame(slot, b'{"n":2}')

    listed = cli.run("spool", "list", folder)
    shown = cli.run("spool", "inspect", slot)
    parts = cli.run("spool", "inspect", slot, "--json")
    exported = cli.run("spool", "export", slot)

    assert [one.code for one in (listed, shown, parts, exported)] == [ExitCode.DAMAGE] * 4
    heads, row = listed.out.splitlines()
    assert row[: heads.index("lost") + 4].endswith(" 1")
    assert f"LOST: {SEGMENT}, " in shown.out
    (lost,) = parts.json["lost"]
    assert (lost["file"], lost["first_fsn"], lost["last_fsn"]) == (SEGMENT, 2, 2)
    assert len(exported.out.splitlines()) == 7
    assert "1 frame could not be read" in exported.err


def test_what_is_quarantined_is_shown(cli: Cli, folder: Path) -> None:
    slot = folder / "till-1"
    harm_frame(slot, b'{"n":2}')
    Sender(f"{NOWHERE}sf_dir={folder};sender_id=till-1;").close()

    shown = cli.run("spool", "inspect", slot)

    assert f"quarantined: {SEGMENT}, " in shown.out
    assert "frame 2: these bytes are not a frame" in shown.out
    heads, row = cli.run("spool", "list", folder).out.splitlines()
    assert row[: heads.index("quarantined") + 11].endswith(" 1")


def test_a_slot_that_cannot_be_read_hides_no_other(cli: Cli, folder: Path) -> None:
    shutil.copytree(folder / "till-1", folder / "till-2")
    (folder / "till-1" / SEGMENT).unlink()
    (folder / "till-1" / SEGMENT).mkdir()  # which even root cannot read as a file

    done = cli.run("spool", "list", folder)
    parts = cli.run("spool", "list", folder, "--json").json_lines

    assert done.code == ExitCode.STORAGE
    assert "unreadable: Is a directory" in done.out
    assert "till-2       6" in done.out
    assert parts[0]["problem"] == "unreadable: Is a directory"
    assert parts[1]["frames"] == 6


def test_a_later_format_is_called_that(cli: Cli, holed: Path) -> None:
    from google_crc32c import value

    path = holed / name_of(3)
    data = bytearray(path.read_bytes())
    for at in (0, 64):
        data[at + 4] = 9
        data[at + 60 : at + 64] = value(bytes(data[at : at + 60])).to_bytes(4, "little")
    path.write_bytes(data)

    shown = cli.run("spool", "inspect", holed, "--json")

    assert shown.code == ExitCode.STORAGE
    assert "segment format 9" in shown.json["slot"]["problem"]
    assert "missing" not in shown.json["slot"]["problem"]
    assert cli.run("spool", "skip", holed, "--hole", "--yes").code == ExitCode.STORAGE


@pytest.mark.parametrize("note", ["{broken", "{}", "[1]", '{"fsn":"x"}'])
def test_a_note_that_cannot_be_read_hides_no_dead_letter(cli: Cli, folder: Path, note: str) -> None:
    slot = folder / "till-1"
    cli.ok("spool", "skip", slot, "--yes")
    (path,) = (slot / "dead-letter").glob("*.json")
    path.write_text(note)

    assert cli.ok("spool", "list", folder, "--json").json["dead_letters"] == 1
    (letter,) = cli.ok("spool", "inspect", slot, "--json").json["dead_letters"]
    exported = cli.ok("spool", "export", slot, "--dead-letters").out

    assert (letter["fsn"], letter["category"]) == (0, "unknown")
    assert '"data":{"n":0}' in exported


def test_a_dead_letter_that_is_damaged_is_counted(cli: Cli, folder: Path) -> None:
    slot = folder / "till-1"
    cli.ok("spool", "skip", slot, "--through", 1, "--yes")
    next((slot / "dead-letter").glob("*.frame")).write_bytes(b"junk")

    done = cli.run("spool", "export", slot, "--dead-letters")

    assert done.code == ExitCode.DAMAGE
    assert len(done.out.splitlines()) == 1
    assert "1 frame could not be read" in done.err


# Skipping.


def test_what_is_skipped_is_a_dead_letter(cli: Cli, folder: Path) -> None:
    slot = folder / "till-1"

    done = cli.ok("spool", "skip", slot, "--through", 1, "--yes", "--json").json

    assert done["skipped"] == [0, 1]
    assert cli.ok("spool", "list", folder, "--json").json["frames"] == 4
    assert len(cli.ok("spool", "export", slot, "--dead-letters").out.splitlines()) == 2


def test_whoever_is_asked_is_told_what_goes(cli: Cli, folder: Path) -> None:
    slot = folder / "till-1"

    one = cli.run("spool", "skip", slot)
    all_ = cli.run("spool", "skip", slot, "--through", 5)

    assert (one.code, all_.code) == (2, 2)
    assert "pass --yes to move frame 0 (1 row for sales) to the dead-letter folder" in one.err
    assert "6 frames 0 to 5 (8 rows for sales, clicks)" in all_.err
    assert cli.ok("spool", "list", folder, "--json").json["frames"] == 6


@pytest.mark.parametrize("through", [-5, 0, 6])
def test_a_wrong_end_is_found_before_anything_is_asked(
    cli: Cli, folder: Path, through: int
) -> None:
    slot = folder / "till-1"
    cli.ok("spool", "skip", slot, "--yes")

    done = cli.run("spool", "skip", slot, "--through", through)

    assert done.code == 2
    assert f"--through {through}: " in done.err


def test_an_empty_slot_has_nothing_to_skip(cli: Cli, folder: Path) -> None:
    slot = folder / "till-1"
    cli.ok("spool", "skip", slot, "--through", 5, "--yes")

    assert cli.ok("spool", "skip", slot).out == "no frames wait in this slot\n"
    assert cli.ok("spool", "skip", slot, "--hole").out == "no frames are missing\n"


def test_the_advice_for_a_hole_works(cli: Cli, holed: Path) -> None:
    shown = cli.run("spool", "inspect", holed, "--json")
    assert shown.code == ExitCode.DAMAGE
    problem = shown.json["slot"]["problem"]
    advice = problem.partition("`penstock ")[2].partition("`")[0].split()
    assert advice == ["spool", "skip", "--hole", str(holed)]
    for words in (["skip", holed], ["drain", holed, "--to", NOWHERE]):
        refused = cli.run("spool", *words)
        assert (refused.code, "skip --hole" in refused.err) == (ExitCode.DAMAGE, True)
    assert cli.run("spool", "skip", holed, "--hole", "--through", 3, "--yes").code == 2

    done = cli.ok(*advice, "--yes")

    assert "2 frames lost to damage" in done.out
    after = cli.run("spool", "inspect", holed, "--json").json
    assert (after["slot"]["problem"], after["slot"]["frames_lost"]) == (None, 2)


def test_a_damaged_head_is_moved_aside(cli: Cli, holed: Path) -> None:
    (holed / name_of(3)).write_bytes(b"x" * 128 + (holed / name_of(3)).read_bytes()[128:])

    shown = cli.run("spool", "inspect", holed)
    assert "replace this file by an intact copy" in shown.out
    assert "missing files back" not in shown.out
    cli.ok("spool", "skip", holed, "--hole", "--yes")

    assert "the whole file was quarantined" in cli.run("spool", "inspect", holed).out


def test_a_given_up_slot_may_be_tried_again_after_a_skip(cli: Cli, holed: Path) -> None:
    (holed / ".failed").write_text("a hole")

    assert "drainers may try" in cli.ok("spool", "skip", holed, "--hole", "--yes").out

    assert not (holed / ".failed").exists()


def test_a_long_state_is_cut_in_a_table_and_whole_elsewhere(cli: Cli, holed: Path) -> None:
    line = cli.run("spool", "list", holed.parent).out.splitlines()[1]

    assert line.endswith("…")
    assert "broken: " in line
    shown = cli.run("spool", "inspect", holed).out
    assert shown.count("are missing") == 1
