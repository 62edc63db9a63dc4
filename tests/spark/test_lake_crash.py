"""A run that ends anywhere is continued by the next one: neither loss nor duplicate."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.errors import DirectoryInUse
from penstock.lake import layout
from penstock.spark import pack
from penstock.storage.fs import OsFilesystem
from tests.spark.lakes import ORDERS, PROJECT, Bed, of_log
from tests.spark.test_cluster import bare_python
from tests.support import spark_java
from tests.support.serving import eventually
from tests.support.spark_cluster import cluster

RULES = "[lake]\nkeep_versions = 1\nbatch_records = 9\n[compaction]\nfiles_min = 2\n"
GOLD = '[gold.sums]\nsql = "sums.sql"\n'
SQL = "SELECT name, count(*) AS n FROM orders GROUP BY name"
CLUSTER = {
    **spark_java.DRIVER,
    **spark_java.EXECUTOR,
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
DEADLINE_S = 600.0
PARTS = 4  # each with a quarter of the places where a run can end
CHANGES = ("create", "rename", "unlink", "sync_dir", "make_dirs", "open", "lock")


class Crash(BaseException):
    """The end of the process, as far as its files are concerned."""


class Mortal:
    """A file system whose user ends at the n-th call that can change or sync something."""

    def __init__(self, ends_at: int = -1) -> None:
        self._fs: Any = OsFilesystem()
        self._ends_at = ends_at
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._fs, name)
        return self._counted(name, found) if name in CHANGES else found

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **more: Any) -> Any:
            if len(self.calls) == self._ends_at:
                raise Crash
            self.calls.append(name)
            return call(*args, **more)

        return called


def prepared(spark: SparkSession, root: Path) -> Bed:
    """A lake that is behind: with records to read, a gap, deletes and small files."""
    bed = Bed(spark, root, PROJECT + ORDERS + RULES + GOLD)
    (root / "sums.sql").write_text(SQL, encoding="utf-8")
    with bed.log() as log:
        log.create("capped", cap_records=3)
        log.append("orders", [{"id": n, "name": "a"} for n in range(6)], tag="x")
        log.append("capped", [1, 2])
    bed.run()
    with bed.log() as log:
        log.append("orders", [{"id": n, "name": "b"} for n in range(6)])
        log.append("orders", [{"id": "bad"}])
        log.append("capped", [3, 4, 5, 6, 7, 8])
        log.delete("orders", tag="x", before_seq=4)
    return bed


def copied(bed: Bed, name: str) -> Bed:
    root = bed.root.parent / name
    shutil.copytree(bed.root, root)
    return Bed(bed.spark, root, "")


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_run_that_ends_anywhere_is_continued_by_the_next(
    spark: SparkSession, tmp_path: Path, part: int
) -> None:
    bed = prepared(spark, tmp_path / "lake")
    whole, fs = copied(bed, "whole"), Mortal()
    whole.run(fs)  # type: ignore[arg-type]
    expected = whole.everything()
    calls = len(fs.calls)
    assert len(expected["bronze.records"]) == 8 + 7 + 3
    assert len(expected["bronze.gaps"]) == 1
    assert len(expected["orders.rows"]) == 12 - 3

    for point in range(part, calls, PARTS):
        trial = copied(bed, f"ends-at-{point}")
        with pytest.raises(Crash):
            trial.run(Mortal(point))  # type: ignore[arg-type]
        before = trial.everything()

        trial.run()

        assert trial.everything() == expected, (point, fs.calls[point])
        assert all(_is_subset(before, expected, name) for name in ("bronze.records", "bronze.gaps"))
        assert not list(trial.root.rglob("*.tmp"))
        assert not list(trial.root.rglob("_staging"))
        shutil.rmtree(trial.root)


def _is_subset(some: dict[str, Any], whole: dict[str, Any], name: str) -> bool:
    """What readers saw after the end was right, as far as it went."""
    return all(row in whole[name] for row in some.get(name, []))


def command(
    bed: Bed, *more: str, master: str = "local[1]", env: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "penstock.cli.main", "pipeline", *more]
    return subprocess.Popen(
        [*line, "--master", master, "--memory", "512m"],
        cwd=bed.root,
        env=os.environ | (env or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_a_killed_process_is_survived_by_what_it_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """SIGKILL between two commits of one run; meanwhile nobody else may run."""
    bed = Bed(spark, tmp_path / "lake", PROJECT + ORDERS + "[lake]\nbatch_records = 2\n")
    bed.append("orders", *({"id": n} for n in range(2000)))  # more than it gets through
    process = command(bed, "run", "--json")
    try:
        eventually(lambda: len(bed.table().versions()) > 1, "two commits", DEADLINE_S)
        with pytest.raises(DirectoryInUse) as caught, layout.locked(OsFilesystem(), bed.project):
            pass
        assert caught.value.pid == process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    read = len(bed.records())
    assert 2 <= read < 2000
    bed.write(PROJECT + ORDERS)

    report = bed.run()

    assert report.records == 2000 - read
    assert [row[2] for row in bed.records()] == list(range(1, 2001))
    assert sorted(bed.silver("seq", "id")) == [(n + 1, n) for n in range(2000)]


def test_a_cluster_makes_the_same_lake_and_a_worker_that_dies_costs_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A real master and two workers. Penstock is not installed there, and goes along."""
    bed = Bed(spark, tmp_path / "lake", PROJECT + ORDERS + "[lake]\nbatch_records = 500\n" + GOLD)
    (bed.root / "sums.sql").write_text(SQL, encoding="utf-8")
    with bed.log() as log:
        log.append("orders", [{"id": n, "name": f"n{n % 3}"} for n in range(2000)])
        log.append("orders", [{"id": "bad"}])
        log.checkpoint(everything=True)
    more = ["--py-files", str(pack(tmp_path / "penstock.zip"))]
    for key, value in CLUSTER.items():
        more += ["--conf", f"{key}={value}"]
    env = {"PYSPARK_PYTHON": str(bare_python(tmp_path / "python")), "SPARK_LOCAL_IP": "127.0.0.1"}

    with cluster(tmp_path) as nodes:
        process = command(bed, "run", "--json", *more, master=nodes.master, env=env)
        try:
            eventually(
                lambda: bed.table().versions() or process.poll() is not None, "a commit", DEADLINE_S
            )
            nodes.workers[0].kill()
            out, err = process.communicate(timeout=DEADLINE_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()

    assert process.returncode == 0, out + err
    report = json.loads(out)
    assert (report["records"], report["rows"], report["quarantined"]) == (2001, 2000, 1)
    with bed.log() as log:
        assert bed.records() == of_log(log)
    assert bed.silver("seq", "id") == sorted(((n + 1, n) for n in range(2000)), key=repr)
    assert sorted(row["n"] for row in bed.part("sums", "rows")) == [666, 667, 667]
    assert bed.verify().differences == []
