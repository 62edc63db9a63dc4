"""wal read, wal stats, compact, fsck, repair, demo."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import penstock
from penstock.cli.exit_codes import ExitCode
from penstock.directory.log_identity import LOCK_NAME
from tests.integration.test_cli_main import Cli
from tests.support.watched import Watched


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "data")


@pytest.fixture
def filled(cli: Cli) -> Cli:
    """Two WAL files of one shard: five records, then two."""
    with penstock.open(cli.data_dir, wal_shards=2) as log:
        log.append("t", [1, 2, 3, 4, 5], tag="x", node="n")
    with penstock.open(cli.data_dir, wal_shards=2) as log:
        log.append("t", [6, 7])
    return cli


def damage(cli: Cli) -> int:
    """Spoil the first record; where its frame begins."""
    frames = cli.ok("wal", "read", "--json").json_lines
    offset = next(frame["offset"] for frame in frames if frame["type"] == "append")
    cli.flip(cli.wal_files()[0], offset + 40)
    return int(offset)


# wal read


def test_wal_read_shows_every_frame_in_replay_order(filled: Cli) -> None:
    frames = filled.ok("wal", "read", "--json").json_lines

    appends = [frame for frame in frames if frame["type"] == "append"]
    assert [frame["seq"] for frame in appends] == [1, 2, 3, 4, 5, 6, 7]
    assert frames[0]["type"] == "topic_create"
    assert frames[0]["body"]["name"] == "t"
    assert frames[0]["body"]["config"]["durability"] == "disk"
    assert (frames[0]["file"], frames[0]["offset"]) == (1, 0)
    first = appends[0]
    assert (first["tag"], first["node"], first["topic_id"]) == ("x", "n", 1)
    assert (first["tag_bytes"], first["node_bytes"]) == (1, 1)
    places = [(frame["file"], frame["offset"]) for frame in frames]
    assert places == sorted(places)
    assert {file for file, _ in places} == {1, 2}


def test_wal_read_for_people(filled: Cli) -> None:
    shown = filled.ok("wal", "read", "--data").out.splitlines()

    assert 'topic_create     topic 1  {"name":"t","config":{}}' in shown[0]
    assert shown[-1].endswith('topic 1  seq 7  7 B  {"d":7}')


def test_wal_read_starts_at_an_offset_of_a_file(filled: Cli) -> None:
    everything = filled.ok("wal", "read", "--json").json_lines
    third = everything[3]

    in_first = filled.ok("wal", "read", "--json", "--from-offset", third["offset"]).json_lines
    within = filled.ok("wal", "read", "--json", "--from-offset", third["offset"] - 1).json_lines
    in_second = filled.ok("wal", "read", "--json", "--from-offset", "2:0").json_lines

    assert in_first == within == everything[3:]
    assert in_second == [frame for frame in everything if frame["file"] == 2]


def test_wal_read_stops_at_its_limit(filled: Cli) -> None:
    assert len(filled.ok("wal", "read", "--limit", 2).out.splitlines()) == 2


def test_the_wal_of_a_running_process_can_be_looked_at(filled: Cli) -> None:
    with filled.held() as pid:
        looked = filled.ok("wal", "read")
        summed = filled.ok("wal", "stats")

    for outcome in (looked, summed):
        assert outcome.out
        assert f"is in use by process {pid}" in outcome.err


def test_wal_read_shows_damage_and_goes_past_it(filled: Cli) -> None:
    offset = damage(filled)

    text = filled.run("wal", "read")
    lines = filled.run("wal", "read", "--json").json_lines

    assert text.code == ExitCode.DAMAGE
    assert f"-- damage in file 1, bytes {offset}.." in text.out
    places = [line["damage"] for line in lines if "damage" in line]
    assert [(place["file"], place["offset"]) for place in places] == [(1, offset)]
    assert places[0]["path"] == str(filled.wal_files()[0])
    assert places[0]["reason"] == "checksum differs"
    assert [line["seq"] for line in lines if line.get("type") == "append"] == [2, 3, 4, 5, 6, 7]


def test_zeros_in_the_middle_are_damage_too(filled: Cli) -> None:
    first = filled.wal_files()[0]
    size = first.stat().st_size
    with first.open("r+b") as file:
        file.seek(size // 2)
        file.write(bytes(100))

    assert filled.run("wal", "read").code == ExitCode.DAMAGE
    assert filled.run("wal", "stats").code == ExitCode.DAMAGE


def test_a_file_that_lost_its_end_is_damage(filled: Cli) -> None:
    filled.ok("append", "t", 8)
    frames = filled.ok("wal", "read", "--json", "--from-offset", "3:0").json_lines
    with filled.wal_files()[-1].open("r+b") as file:
        file.truncate(frames[-1]["offset"])

    outcome = filled.run("wal", "read")

    assert outcome.code == ExitCode.DAMAGE
    assert "the log ends before its known-durable end" in outcome.out


def test_a_batch_that_lost_its_end_is_damage(filled: Cli) -> None:
    frames = filled.ok("wal", "read", "--json", "--from-offset", "2:0").json_lines
    with filled.wal_files()[-1].open("r+b") as file:
        file.truncate(frames[-1]["offset"])

    outcome = filled.run("wal", "read")

    assert outcome.code == ExitCode.DAMAGE
    assert "a batch is incomplete" in outcome.out


def test_a_torn_tail_is_no_damage(filled: Cli) -> None:
    with filled.wal_files()[-1].open("ab") as file:
        file.write(b"\x99\x00\x00\x00half a frame")

    text = filled.ok("wal", "read").out
    stats = filled.ok("wal", "stats", "--json").json

    assert "-- torn tail in file 2" in text.splitlines()[-1]
    assert [len(shard["torn"]) for shard in stats["shards"]] == [1]


# wal stats


def test_wal_stats_sums_up_each_shard(filled: Cli) -> None:
    stats = filled.ok("wal", "stats", "--json").json

    (shard,) = stats["shards"]
    assert stats["records"] == shard["records"] == 7
    assert (shard["files"], shard["first_file"], shard["last_file"]) == (2, 1, 2)
    assert shard["bytes_used"] == sum(path.stat().st_size for path in filled.wal_files())
    assert shard["bytes_used"] <= shard["bytes_allocated"]
    assert shard["frames_by_type"]["append"] == 7
    assert shard["frames"] == sum(shard["frames_by_type"].values())
    assert (shard["durable_file"], shard["is_clean"]) == (2, True)
    assert shard["first_ts"] <= shard["last_ts"]
    assert shard["torn"] == shard["damage"] == []


def test_wal_stats_for_people(filled: Cli) -> None:
    shown = filled.ok("wal", "stats").out

    assert shown.startswith("shard-0")
    assert "  records      7\n" in shown
    assert "(closed in order)" in shown


# compact


def test_compact_moves_the_wal_into_segments(filled: Cli) -> None:
    told = filled.ok("compact").out

    assert told.startswith("compacted into snapshot ")
    assert "removed 2 WAL files" in told
    assert filled.wal_files() == []
    assert filled.ok("topics", "--json").json["segments"] == 1
    assert len(filled.ok("read", "t").out.splitlines()) == 7
    assert "the WAL is empty" in filled.ok("wal", "stats").out


def test_compact_answers_in_json(filled: Cli) -> None:
    answer = filled.ok("compact", "--json").json

    assert answer["segments"] == 1
    assert answer["wal_files_removed"] == 2
    assert answer["bytes_before"] > 0


# fsck, repair


def test_fsck_finds_a_sound_directory_clean(filled: Cli) -> None:
    told = filled.ok("fsck").out
    report = filled.ok("fsck", "--json").json

    assert told.startswith(f"{filled.data_dir}: clean (")
    assert report["is_clean"] is True
    assert report["problems"] == []
    assert report["records"] == 7


def test_fsck_takes_its_directory_as_an_argument(filled: Cli, tmp_path: Path) -> None:
    assert filled.ok("fsck", filled.data_dir).code == 0
    assert filled.run("fsck", tmp_path).code == ExitCode.USAGE


@pytest.mark.parametrize("words", [(), ("--skip-data",)])
def test_fsck_names_the_damaged_place(filled: Cli, words: tuple[str, ...]) -> None:
    damage(filled)

    outcome = filled.run("fsck", *words)
    report = filled.run("fsck", "--json", *words).json

    assert outcome.code == ExitCode.DAMAGE
    assert f"damage  {filled.wal_files()[0]} at byte " in outcome.out
    assert report["is_clean"] is False
    assert report["problems"][0]["kind"] == "damage"


def test_fsck_reads_sealed_segments_unless_told_not_to(filled: Cli) -> None:
    filled.ok("compact")
    (segment,) = filled.data_dir.glob("topics/*/seg-*.data")
    filled.flip(segment, segment.stat().st_size // 2)

    assert filled.run("fsck").code == ExitCode.DAMAGE
    assert filled.run("fsck", "--skip-data").code == 0


def test_readers_of_a_damaged_log_are_told_by_the_exit_code(filled: Cli) -> None:
    damage(filled)

    outcome = filled.run("read", "t")

    assert outcome.code == ExitCode.DAMAGE
    assert "penstock: damaged: " in outcome.err
    assert filled.run("topics").code == ExitCode.DAMAGE
    assert filled.run("append", "t", 8).code == ExitCode.DAMAGE


def test_repair_goes_past_damage_and_tells_what_it_did(filled: Cli) -> None:
    damage(filled)

    planned = filled.ok("repair", "--dry-run", "--json").json
    still = filled.run("fsck").code
    told = filled.ok("repair", "--yes").out

    assert planned["dry_run"] is True
    assert len(planned["actions"]) >= 1
    assert still == ExitCode.DAMAGE
    assert "the old bytes are in " in told
    assert filled.ok("fsck").out.startswith(f"{filled.data_dir}: clean")
    lines = filled.ok("read", "t", "--json").json_lines
    assert lines[0]["gap"]["reason"] == "damage"
    assert [line["data"] for line in lines[1:]] == [2, 3, 4, 5, 6, 7]


def test_repair_of_a_sound_directory_does_nothing(filled: Cli) -> None:
    assert filled.ok("repair", filled.data_dir, "--yes").out == (
        f"{filled.data_dir}: nothing to repair\n"
    )


# demo


def test_the_demo_runs_and_leaves_nothing_behind(cli: Cli, tmp_path: Path) -> None:
    cli.env["TMPDIR"] = str(tmp_path)

    told = cli.ok("demo").out

    assert "acknowledged payments 0 are missing" in told
    assert "-- gap 1..20000 (cap) --" in told
    assert "clean: " in told
    assert list(tmp_path.iterdir()) == []


# The demo's writer never says that a record was taken, so that nobody goes on.
HELD_WRITER = """
import sys, threading

class Held:
    def write(self, text):
        threading.Event().wait()

if "penstock.cli.demo_writer" in sys.orig_argv:
    sys.stdout = Held()
"""


def test_ctrl_c_in_the_demo_kills_its_writer_and_removes_its_files(tmp_path: Path) -> None:
    given, hook = tmp_path / "given", tmp_path / "hook"
    given.mkdir()
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(HELD_WRITER)

    with Watched(tmp_path, "demo", "--dir", given, first_path=hook) as command:
        # The lock names the process that has the log open.
        own = {"", str(command.process.pid)}
        while own.issuperset(path.read_text().strip() for path in given.glob(f"*/*/{LOCK_NAME}")):
            assert command.process.poll() is None, command.process.communicate()[1]
        os.killpg(command.process.pid, signal.SIGINT)

        assert command.ends() == ExitCode.INTERRUPTED
        assert "Traceback" not in command.process.communicate()[1]
        assert command.pids() == []
        assert command.left() == []
        assert command.strayed | command.seen == set()
    assert list(given.iterdir()) == []
