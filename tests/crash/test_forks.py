"""A forked child's copy of a log is dead: whatever the child does, the parent loses nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import penstock
from penstock.errors import PenstockError
from tests.support import rig

RUNS = 200 if rig.IS_FULL else 4
RUN_S = 600
UNGUARDED_RUN_S = 60


def one_run(path: Path, seed: int, mutant: str = "") -> str:
    """What went wrong, or nothing."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.fork_rig", str(path), str(seed), mutant],
            cwd=rig.ROOT,
            env=os.environ | {"PYTHONPATH": f"{rig.ROOT / 'src'}{os.pathsep}{rig.ROOT}"},
            capture_output=True,
            text=True,
            timeout=UNGUARDED_RUN_S if mutant else RUN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "it hangs"
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if len(lines) != 1 or done.returncode not in (0, -9):
        return f"exit {done.returncode}: {done.stdout}{done.stderr}"
    said = json.loads(lines[0])
    if any(said["codes"]):
        return f"a child ended with {max(said['codes'])}: {done.stderr}"
    return lost(path, said["acked"])


def lost(path: Path, acked: dict[str, list[tuple[int, str]]]) -> str:
    try:
        with penstock.open(path) as log:
            if {info.name for info in log.topics()} != set(acked):
                return f"other topics: {log.topics()}"
            for topic, wanted in acked.items():
                found = {record.seq: record.data for record in everything(log, topic)}
                for seq, value in wanted:
                    if found.get(seq) != value:
                        return f"{topic} {seq}: {found.get(seq)!r} instead of {value!r}"
                if len(found) > len(wanted) + 1:  # one may be on its way at the end
                    return f"{topic}: {len(found)} records, {len(wanted)} acknowledged"
    except PenstockError as error:
        return f"it does not open: {error!r}"
    return ""


def everything(log: penstock.Log, topic: str) -> list[penstock.Record]:
    records: list[penstock.Record] = []
    while True:
        page = log.read(topic, after=records[-1].seq if records else 0)
        records += page.records
        if page.caught_up:
            return records


def test_children_that_end_in_any_way_cost_the_parent_nothing(tmp_path: Path) -> None:
    home = rig.on_disk(tmp_path, "forks")
    for number, seed in enumerate(rig.new_seeds(RUNS)):
        wrong = one_run(home / str(number), seed)
        assert not wrong, f"seed {seed}: {wrong}"


def test_a_log_without_the_guards_is_caught(tmp_path: Path) -> None:
    home = rig.on_disk(tmp_path, "forks")
    for number, seed in enumerate(rig.new_seeds(20)):
        wrong = one_run(home / str(number), seed, "unguarded")
        if wrong:
            rig.say(f"fork without guards: caught in run {number + 1}, {wrong[-150:]}")
            return
    raise AssertionError("it survived")
