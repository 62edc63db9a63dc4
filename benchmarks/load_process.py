"""Runs a job in a load generator process of its own."""

from __future__ import annotations

import subprocess
import sys

import msgspec

from benchmarks.load_job import Job, Load
from benchmarks.repository import with_benchmarks

_GENERATOR = "benchmarks.load"
_EXTRA_TIME_S = 60


def run_job(job: Job) -> Load:
    """The result of the job. A failure is a result, too."""
    done = subprocess.run(
        [sys.executable, "-m", _GENERATOR],
        input=msgspec.json.encode(job),
        env=with_benchmarks(),
        capture_output=True,
        timeout=job.seconds + _EXTRA_TIME_S,
        check=False,
    )
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        return Load(failure=f"the load generator failed: {''.join(last)}")
    return msgspec.json.decode(done.stdout, type=Load)
