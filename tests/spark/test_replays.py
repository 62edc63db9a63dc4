"""R20: whatever is run again, each row is in the topic once."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.client.client import Client
from penstock.engine.engine import Log
from tests.spark.support import complete, opened
from tests.support import rig, spark_driver

# Forced replays: 50 in full, with those of killed drivers and failing tasks, and 3 else.
REPLAYS = 21 if rig.IS_FULL else 1  # of files, by a deleted commit file
OWN_REPLAYS = 21 if rig.IS_FULL else 2  # of a log, with its records moved between
KILLS = 4  # each has a failing attempt and a speculative one
MASTER = "local-cluster[2,1,512]" if rig.IS_FULL else "local[2,4]"  # 4: attempts of a task
DEADLINE_S = 400.0
PATHS = f"{rig.ROOT}{os.pathsep}{os.environ['PYTHONPATH']}"  # of processes that import the tests


def numbers(client: Client, topic: str) -> collections.Counter[int]:
    """How often each row is in a topic."""
    found: collections.Counter[int] = collections.Counter()
    after = 0
    while True:
        page = client.read(topic, after=after, limit=10_000)
        found.update(record.data["id"] for record in page.records)
        after = page.next_seq
        if page.caught_up:
            return found


def flaws(found: collections.Counter[int], expected: list[int]) -> str:
    """What is wrong with it; empty when nothing is."""
    twice = [number for number, count in found.items() if count > 1]
    missing = set(expected) - set(found)
    strange = set(found) - set(expected)
    if not twice and not missing and not strange:
        return ""
    return f"{len(twice)} twice, {len(missing)} missing, {len(strange)} strange"


class Copying:
    """A query that copies files, or a log, into a topic, epoch by epoch."""

    def __init__(
        self, spark: SparkSession, home: Path, url: str, topic: str, log: Log | None = None
    ) -> None:
        self.files = home / "files"
        self.files.mkdir(parents=True, exist_ok=True)
        self.log = log
        self.checkpoint = home / "checkpoint"
        self.expected: list[int] = []
        self._spark = spark
        self._options = {"url": url, "topic": topic, "checkpointLocation": str(self.checkpoint)}
        self._epochs = 0

    def add(self) -> None:
        if self.log is None:
            self.expected += spark_driver.write_files(self.files, self._epochs)
        else:
            self.expected += spark_driver.append_records(self.log, self._epochs)
        self._epochs += 1

    def run(self) -> None:
        """Until everything is copied."""
        if self.log is None:
            rows = spark_driver.files(self._spark, self.files)
        else:
            rows = spark_driver.records(self._spark, self.log.core.parts.layout.root)
        writing = rows.writeStream.format("penstock").options(**self._options)
        complete(writing.trigger(availableNow=True).start)

    def forget_commit(self) -> None:
        """The last epoch was never committed, as far as the checkpoint knows."""
        commits = self.checkpoint / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)

    def move_records(self) -> None:
        """Out of the WAL and into segments."""
        if self.log is not None:
            self.log.checkpoint(everything=True)


def replayed(copying: Copying, replays: int) -> None:
    """Each third time there is something new behind what comes again."""
    copying.add()
    copying.run()
    for number in range(replays):
        copying.forget_commit()
        copying.move_records()
        if number % 3 == 2:
            copying.add()
        copying.run()


def test_an_epoch_whose_commit_file_was_deleted_adds_nothing(
    spark: SparkSession, client: Client, url: str, topic: str, tmp_path: Path
) -> None:
    copying = Copying(spark, tmp_path, url, topic)

    replayed(copying, REPLAYS)

    assert not flaws(numbers(client, topic), copying.expected)


def test_an_epoch_of_a_log_adds_nothing_wherever_its_records_are_by_then(
    spark: SparkSession, client: Client, url: str, topic: str, tmp_path: Path
) -> None:
    with opened(tmp_path / "log") as log:
        copying = Copying(spark, tmp_path, url, topic, log)

        replayed(copying, OWN_REPLAYS)

    assert not flaws(numbers(client, topic), copying.expected)


def _driver(home: Path, files: Path, log: Log | None, url: str, topic: str) -> int:
    """Run a driver of its own until it is killed; its exit code."""
    told = {
        "master": MASTER,
        "home": str(home),
        "checkpoint": str(home / "checkpoint"),
        "files": str(files),
        "log": log.core.parts.layout.root if log is not None else "",
        "url": url,
        "topic": topic,
        "epoch": spark_driver.KILLED,
    }
    env = os.environ | {"PYTHONPATH": PATHS}
    command = [sys.executable, "-m", "tests.support.spark_driver", json.dumps(told)]
    with open(home / "driver.txt", "ab") as output:
        return subprocess.run(
            command,
            env=env,
            cwd=home,
            stdout=output,
            stderr=output,
            timeout=DEADLINE_S,
            check=False,
        ).returncode


@pytest.mark.crash  # its drivers take a minute and a half; `make test` replays epochs below
@pytest.mark.parametrize("round_", range(KILLS))
def test_a_failing_task_and_a_killed_driver_add_nothing(
    spark: SparkSession, client: Client, url: str, topic: str, tmp_path: Path, round_: int
) -> None:
    """The first epoch has a task that fails when most of its rows are written. In the next, on
    `local-cluster`, one hangs and is run a second time beside it; and the driver is killed between
    the sink's commit and the checkpoint's. Another one goes on. Rows come from a log, whose
    records are moved meanwhile, or from files."""
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(opened(tmp_path / "log")) if round_ % 2 == 0 else None
        copying = Copying(spark, tmp_path, url, topic, log)
        for _ in range(spark_driver.KILLED + 1):
            copying.add()

        killed = _driver(tmp_path, copying.files, log, url, topic)
        commits = {path.name for path in (tmp_path / "checkpoint" / "commits").iterdir()}
        before = numbers(client, topic)
        copying.move_records()
        copying.add()
        copying.run()

    said = (tmp_path / "driver.txt").read_text(errors="replace")
    assert killed != 0, said
    assert str(spark_driver.KILLED) not in commits, "the checkpoint has committed it"
    assert len(before) == (spark_driver.KILLED + 1) * spark_driver.ROWS * spark_driver.FILES, said
    assert not flaws(numbers(client, topic), copying.expected), said
