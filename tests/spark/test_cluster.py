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
DEADLINE_S = 240.0


def test_a_worker_that_dies_in_the_middle_costs_nothing(
    client: Client, url: str, topic: str, tmp_path: Path
) -> None:
    """The source reads a data directory, the sink writes to a server; Penstock itself goes to the
    executors by `--py-files`, and is not installed there."""
    path = tmp_path / "data"
    with penstock.open(path) as log:
        log.create("from", durability="disk")
        for first in range(0, RECORDS, 10_000):
            batch = [
                penstock.Record(data={"n": n}, tag=f"k{n % 4}")
                for n in range(first, first + 10_000)
            ]
            log.append("from", batch)
    python = tmp_path / "python"  # with every library but without Penstock
    libraries = sysconfig.get_path("purelib")
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec {sys.executable} -S "$@"\n'
    )
    python.chmod(0o755)
    began, go = tmp_path / "began", tmp_path / "go"

    with cluster(tmp_path) as nodes, open(tmp_path / "job.txt", "wb") as output:
        told = {
            "master": nodes.master,
            "python": str(python),
            "py_files": [str(pack(tmp_path / "penstock.zip"))],
            "home": str(tmp_path),
            "path": str(path),
            "topic": "from",
            "url": url,
            "copy": topic,
            "began": str(began),
            "go": str(go),
        }
        env = os.environ | {"PYTHONPATH": f"{rig.ROOT}{os.pathsep}{os.environ['PYTHONPATH']}"}
        job = subprocess.Popen(
            [sys.executable, "-m", "tests.support.spark_job", json.dumps(told)],
            env=env,
            cwd=tmp_path,
            stdout=output,
            stderr=output,
        )
        try:
            eventually(
                lambda: began.exists() or job.poll() is not None, "the job's middle", DEADLINE_S
            )
            nodes.workers[0].kill()
            go.touch()
            code = job.wait(DEADLINE_S)
        finally:
            job.kill()
            job.wait()
    said = (tmp_path / "job.txt").read_text(errors="replace")

    assert began.exists(), said
    assert code == 0, said
    found = []
    after = 0
    while True:
        page = client.read(topic, after=after, limit=10_000)
        found += [(record.tag, record.data["n"]) for record in page.records]
        after = page.next_seq
        if page.caught_up:
            break
    assert sorted(found, key=lambda one: one[1]) == [(f"k{n % 4}", n) for n in range(RECORDS)]
