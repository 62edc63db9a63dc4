"""`penstock bench` at a tiny size: every part runs, says what it measured, leaves nothing.

Nothing here is about how fast anything is.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.benchmarks.peers import PEERS
from penstock.cli.benchmarks.server import PARTS
from tests.integration.test_cli_main import Cli
from tests.support.postgres import needed, passable
from tests.support.rig import on_disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A directory that is no memory, which would be refused."""
    path = on_disk(tmp_path, "bench")
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_measures_our_server_and_leaves_nothing(part: str, disk: Path) -> None:
    for seconds in ("0.1", "3"):  # on a busy machine nobody may be answered in the shorter one
        told = ("--seconds", seconds, "--only", part, "--dir", disk, "--json")
        report = Cli(disk / "data").ok("bench", "server", *told).json
        if all(figure["value"] != 0 for figure in report["figures"]):
            break

    absent = [peer.missing.reason for peer in PEERS if not peer.path]
    for figure in report["figures"]:
        assert figure["value"] is not None or figure["note"] in absent, figure
        assert figure["value"] is None or figure["value"] > 0, figure
    assert any("penstock" in command for command in report["commands"])
    assert not list(disk.iterdir())


def test_the_output_for_people_has_the_machine_the_peers_and_the_goals(disk: Path) -> None:
    shown = (
        Cli(disk / "data")
        .ok("bench", "server", "--seconds", "0.1", "--only", "binary", "--dir", disk, "--no-pin")
        .out
    )

    assert "a write with sync takes" in shown
    assert "wherever the kernel puts them" in shown
    for peer in PEERS:
        assert re.search(rf"^{peer.program}: ", shown, re.MULTILINE)
    assert re.search(r"binary against JSON .* times +goal ≥ 2.5 +(ok|below)", shown, re.MULTILINE)


def test_a_part_that_does_not_exist_is_refused(disk: Path) -> None:
    outcome = Cli(disk / "data").run("bench", "server", "--only", "nothing", "--dir", disk)

    assert outcome.code == 2
    assert "post" in outcome.err


def test_queues_are_measured_and_nothing_is_left() -> None:
    with passable() as folder:
        words = "bench", "queue", "--seconds", "0.05", "--directory", folder, "--json"
        report = Cli(folder / "data").ok(*words).json
        left = list(folder.iterdir())

    taken = {figure["name"]: figure["value"] for figure in report["figures"]}
    assert len(taken) >= 4
    assert all(value is None or value > 0 for value in taken.values())
    assert taken["claim + ack in batches of 100, fsync, over HTTP"] is not None
    assert not left
    needed()  # for the last of it
    assert taken["  … over HTTP, against PostgreSQL"] is not None, report["figures"]
    assert taken["  … embedded, against PostgreSQL"] is not None, report["figures"]
