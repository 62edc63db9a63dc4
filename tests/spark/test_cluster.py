"""A real master and two workers on loopback, one of which is killed in the middle of a job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import penstock
from penstock.client.client import Client
from penstock.spark import pack
from tests.support import rig
from tests.support.serving import eventually
from tests.support.spark_cluster import cluster

RECORDS = 60_000
DEADLINE_S = 300.0
EXPECTED = [(f"k{n % 4}", n) for n in range(RECORDS)]


def fill(path: Path) -> None:
    """A data directory with records."""
    with penstock.open(path) as log:
        log.create("from", durability="disk")
        for first in range(0, RECORDS, 10_000):
            some = EXPECTED[first : first + 10_000]
            log.append("from", [penstock.Record(data={"n": n}, tag=tag) for tag, n in some])


def bare_python(path: Path) -> Path:
    """An interpreter with every library, and without Penstock."""
    libraries = sysconfig.get_path("purelib")
    path.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec {sys.executable} -S "$@"\n'
    )
    path.chmod(0o755)
    return path


def copied(client: Client, topic: str) -> list[tuple[str | None, int]]:
    found = []
    after = 0
    while True:
        page = client.read(topic, after=after, limit=10_000)
        found += [(record.tag, record.data["n"]) for record in page.records]
        after = page.next_seq
        if page.caught_up:
            return sorted(found, key=lambda one: one[1])


def test_a_speculative_task_and_a_worker_that_dies_cost_nothing(
    client: Client, url: str, topic: str, tmp_path: Path
) -> None:
    """The source reads a data directory, the sink writes to a server; Penstock itself goes to the
    executors by `--py-files`, and is not installed there."""
    fill(tmp_path / "data")
    began, go = tmp_path / "began", tmp_path / "go"
    told = {
        "python": str(bare_python(tmp_path / "python")),
        "py_files": [str(pack(tmp_path / "penstock.zip"))],
        "home": str(tmp_path),
        "path": str(tmp_path / "data"),
        "topic": "from",
        "url": url,
        "first": f"{topic}-1",
        "second": f"{topic}-2",
        "began": str(began),
        "go": str(go),
    }
    env = os.environ | {"PYTHONPATH": f"{rig.ROOT}{os.pathsep}{os.environ['PYTHONPATH']}"}

    with cluster(tmp_path) as nodes, open(tmp_path / "job.txt", "wb") as output:
        told["master"] = nodes.master
        command = [sys.executable, "-m", "tests.support.spark_job", json.dumps(told)]
        job = subprocess.Popen(command, env=env, cwd=tmp_path, stdout=output, stderr=output)
        try:
            eventually(
                lambda: began.exists() or job.poll() is not None, "the job's middle", DEADLINE_S
            )
            if began.exists():
                session = int(eventually(began.read_text, "a session id").split()[0])
                (worker,) = [one for one in nodes.workers if one.process.pid == session]
                worker.kill()
            go.touch()
            code = job.wait(DEADLINE_S)
        finally:
            job.kill()
            job.wait()
    said = (tmp_path / "job.txt").read_text(errors="replace")

    assert began.exists(), said
    assert code == 0, said
    assert copied(client, f"{topic}-1") == EXPECTED
    assert copied(client, f"{topic}-2") == EXPECTED
