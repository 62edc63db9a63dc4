"""The load generator: a process that reads one job from stdin and writes the result to stdout."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Coroutine
from typing import Any

import msgspec

from benchmarks.load_answers import Refused
from benchmarks.load_cpu import place
from benchmarks.load_drive import drive
from benchmarks.load_job import Drive, EachTopic, Job, Load, Pour, Watch
from benchmarks.load_pour import pour
from benchmarks.load_topics import each_topic
from benchmarks.load_watch import watch


def perform(job: Job) -> Load:
    """Do one job. An error is part of the result."""
    import uvloop  # where there is none, there is no server to measure either

    place(os.getpid(), job.cores)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_work(job))
    except (Refused, OSError, TimeoutError, asyncio.CancelledError) as error:
        return Load(failure=str(error) or type(error).__name__)


def _work(job: Job) -> Coroutine[Any, Any, Load]:
    match job:
        case Drive():
            return drive(job)
        case Watch():
            return watch(job)
        case EachTopic():
            return each_topic(job)
        case Pour():
            return pour(job)


def main() -> None:
    job: Job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    gc.freeze()
    sys.stdout.write(msgspec.json.encode(perform(job)).decode())


if __name__ == "__main__":
    main()
