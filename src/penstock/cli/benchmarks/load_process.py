"""Runs a job in a load generator of its own, so that it shares no interpreter with anybody."""

from __future__ import annotations

import subprocess
import sys

import msgspec

from penstock.cli.benchmarks.load_job import Job, Load

_GENERATOR = "penstock.cli.benchmarks.load"
_PATIENCE_S = 60


def run_job(job: Job) -> Load:
    """The generator's answer; a failure is one too."""
    done = subprocess.run(
        [sys.executable, "-m", _GENERATOR],
        input=msgspec.json.encode(job),
        capture_output=True,
        timeout=job.seconds + _PATIENCE_S,
        check=False,
    )
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        return Load(failure=f"the load generator failed: {''.join(last)}")
    return msgspec.json.decode(done.stdout, type=Load)
