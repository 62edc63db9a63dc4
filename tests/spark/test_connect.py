"""Spark Connect: a server of it on this machine, and a client that has no Java of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import penstock
from penstock.client.client import Client
from tests.support import rig

DEADLINE_S = 600.0
RECORDS = 5_000


def test_a_client_of_connect_reads_writes_and_streams(
    client: Client, url: str, topic: str, tmp_path: Path
) -> None:
    with penstock.open(tmp_path / "data") as log:
        log.create("from", durability="disk")
        some = [penstock.Record(data={"n": n}, tag=f"k{n % 3}") for n in range(RECORDS)]
        log.append("from", some)
    told = {
        "path": str(tmp_path / "data"),
        "topic": "from",
        "url": url,
        "batch": f"{topic}-batch",
        "stream": f"{topic}-stream",
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    env = os.environ | {"PYTHONPATH": f"{rig.ROOT}{os.pathsep}{os.environ['PYTHONPATH']}"}

    done = subprocess.run(
        [sys.executable, "-m", "tests.support.spark_connect_job", json.dumps(told)],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )

    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen == {
        "session": "pyspark.sql.connect.session",
        "count": RECORDS,
        "sum": RECORDS * (RECORDS - 1) // 2,
        "refused": True,
    }
    assert client.topic(told["batch"]).count == RECORDS
    assert client.topic(told["stream"]).count == RECORDS  # and not more, though it was run twice
