"""penstock spool: list, inspect, export, skip, drain."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.sender.segment import name_of
from penstock.sender.sender import Sender
from tests.integration.test_cli_main import Cli
from tests.support.serving import Server

NOWHERE = "ws::addr=127.0.0.1:1;close_flush_timeout_millis=0;"


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


def test_the_slots_of_a_folder_are_listed(cli: Cli, folder: Path) -> None:
    heads, row = (line.split() for line in cli.ok("spool", "list", folder).out.splitlines())

    assert heads == ["slot", "frames", "bytes", "acked", "newest", "oldest", "dead", "state"]
    assert row[:2] == ["till-1", "6"]
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


def test_what_is_skipped_is_a_dead_letter(cli: Cli, folder: Path) -> None:
    slot = folder / "till-1"

    assert cli.ok("spool", "skip", slot, "--through", 1, "--yes", "--json").json["skipped"] == [
        0,
        1,
    ]

    assert cli.ok("spool", "list", folder, "--json").json["frames"] == 4
    assert len(cli.ok("spool", "export", slot, "--dead-letters").out.splitlines()) == 2


def test_a_hole_is_a_problem_until_it_is_skipped(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "holes"
    folder.mkdir()
    with Sender(f"{NOWHERE}sf_dir={folder};sender_id=a;sf_max_segment_bytes=64k;") as sender:
        for _ in range(8):
            sender.append("t", "x" * 30_000)
            sender.flush()
    (folder / "a" / name_of(2)).unlink()

    assert "missing" in cli.ok("spool", "inspect", folder / "a", "--json").json["slot"]["problem"]
    cli.ok("spool", "skip", folder / "a", "--hole", "--yes")

    assert cli.ok("spool", "inspect", folder / "a", "--json").json["slot"]["problem"] is None


def test_a_slot_is_drained_into_a_server(cli: Cli, folder: Path, tmp_path: Path) -> None:
    server = Server(tmp_path / "server")
    server.start()
    try:
        host, port = server.address
        to = f"ws::addr={host}:{port};"
        done = cli.ok("spool", "drain", folder / "till-1", "--to", to, "--json").json
        with penstock.connect(f"http://{host}:{port}") as client:
            sales = [record.data["n"] for record in client.read("sales").records]
            clicks = [record.data for record in client.read("clicks").records]
    finally:
        server.close()

    assert (done["sent"], done["left"]) == (6, 0)
    assert (sales, clicks) == ([0, 1, 2, 3, 4], [1, 2, 3])
    assert cli.ok("spool", "list", folder, "--json").json["frames"] == 0


def test_a_slot_that_cannot_be_drained_says_so(cli: Cli, folder: Path) -> None:
    done = cli.run(
        "spool", "drain", folder / "till-1", "--to", "ws::addr=127.0.0.1:1;", "--timeout", 0.3
    )

    assert done.code == 6
    assert "not drained" in done.err


def test_a_folder_without_slots_is_empty_and_a_wrong_one_an_error(cli: Cli, tmp_path: Path) -> None:
    assert cli.ok("spool", "list", tmp_path).out == ""
    assert cli.run("spool", "list", tmp_path / "nowhere").code == 2
    assert cli.run("spool", "inspect", tmp_path / "nowhere").code == 2
