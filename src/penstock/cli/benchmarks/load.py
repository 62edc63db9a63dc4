"""The load generator: a process of its own that takes one job on stdin and answers on stdout."""

from __future__ import annotations

import asyncio
import gc
import os
import sys

import msgspec

from penstock.cli.benchmarks.load_answers import Refused
from penstock.cli.benchmarks.load_cpu import place
from penstock.cli.benchmarks.load_drive import drive
from penstock.cli.benchmarks.load_job import Drive, Job, Load
from penstock.cli.benchmarks.load_watch import watch


def perform(job: Job) -> Load:
    """Do one job; what goes wrong is part of the answer."""
    import uvloop  # where there is none, there is no server to measure either

    place(os.getpid(), job.cores)
    work = drive(job) if isinstance(job, Drive) else watch(job)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(work)
    except (Refused, OSError, TimeoutError, asyncio.CancelledError) as error:
        return Load(failure=str(error) or type(error).__name__)


def main() -> None:
    job: Job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    gc.freeze()
    sys.stdout.write(msgspec.json.encode(perform(job)).decode())


if __name__ == "__main__":
    main()
