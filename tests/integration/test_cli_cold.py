"""penstock cold, as a user types it."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.cli.exit_codes import ExitCode
from tests.integration.test_cli_main import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "data")


@pytest.fixture
def filled(cli: Cli) -> Cli:
    """Six segments of ten records."""
    with penstock.open(cli.data_dir, segment_max_events=10, background=False) as log:
        for start in range(0, 60, 10):
            log.append("t", list(range(start, start + 10)))
        log.checkpoint(everything=True)
    return cli


def test_segments_are_moved_and_read_from_there(filled: Cli, tmp_path: Path) -> None:
    cold = tmp_path / "cold"
    before = filled.ok("read", "t", "--json").out

    shown = filled.ok("cold", "move", "--to", cold).out.splitlines()

    assert shown[0].startswith("moved 2 segments (")
    assert shown[0].endswith(f") to {cold}")
    assert shown[1].startswith("the cold tier has 2 of 6 segments, ")
    assert filled.ok("read", "t", "--json").out == before
    assert sorted(path.name for path in cold.iterdir()) == [
        "meta",
        "penstock.json",
        "tier.json",
        "topics",
    ]


def test_status_tells_what_is_where(filled: Cli, tmp_path: Path) -> None:
    assert filled.ok("cold", "status").out.splitlines()[0].startswith("no cold tier")
    filled.ok("cold", "move", "--to", tmp_path / "cold", "--keep", 1)

    told = filled.ok("cold", "status", "--json").json_lines[0]
    people = filled.ok("cold", "status").out.splitlines()

    assert told["cold"] == str(tmp_path / "cold")
    (topic,) = told["topics"]
    assert topic.pop("cold_bytes") > 0
    assert topic == {
        "topic": "t",
        "segments": 6,
        "cold_segments": 5,
        "records": 60,
        "cold_to_seq": 50,
    }
    assert people[0] == f"cold tier: {tmp_path / 'cold'}"
    assert people[1].split() == ["topic", "segments", "cold", "bytes", "to_seq", "records"]


def test_a_second_move_has_nothing_to_do(filled: Cli, tmp_path: Path) -> None:
    filled.ok("cold", "move", "--to", tmp_path / "cold")

    told = filled.ok("cold", "move", "--json").json_lines[0]

    assert (told["segments_moved"], told["cold_segments"]) == (0, 2)


def test_without_a_tier_it_says_what_to_give(filled: Cli) -> None:
    outcome = filled.run("cold", "move")

    assert outcome.code == ExitCode.USAGE
    assert "no cold tier: open it with cold_dir" in outcome.err


def test_a_tier_that_is_away_is_told(filled: Cli, tmp_path: Path) -> None:
    filled.ok("cold", "move", "--to", tmp_path / "cold")
    (tmp_path / "cold").rename(tmp_path / "elsewhere")

    read = filled.run("read", "t")
    filled.ok("append", "t", "1")
    found = filled.run("fsck")

    assert read.code == ExitCode.STORAGE
    assert "there is no cold tier here; mount it" in read.err
    assert found.code == ExitCode.DAMAGE
    assert found.out.count("there is no cold tier here") == 1


def test_fsck_reads_both_tiers(filled: Cli, tmp_path: Path) -> None:
    filled.ok("cold", "move", "--to", tmp_path / "cold")
    assert filled.ok("fsck", "--json").json_lines[0]["is_clean"]

    data = next((tmp_path / "cold").glob("topics/*/seg-*1.data"))
    filled.flip(data, 60)

    found = filled.run("fsck")
    assert found.code == ExitCode.DAMAGE
    assert str(data) in found.out
