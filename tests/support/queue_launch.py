"""As `launch`, for queues: servers with a clock that can be set, their mutants, and workers.

`RIG_CLOCK` names a file of eight bytes, by how many milliseconds the time of the day is wrong; it
is read anew whenever a server asks for the time. The monotonic clock stays as it is.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import time

from penstock.cli.main import main as serve
from penstock.clock import SystemClock
from tests.support import launch, queue_mutants, queue_worker, server_mutants, spawn

OFFSET = struct.Struct("<q")


def _set_clock(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    shared = mmap.mmap(descriptor, OFFSET.size, prot=mmap.PROT_READ)

    def now_ms(self: SystemClock) -> int:
        return time.time_ns() // 1_000_000 + int(OFFSET.unpack_from(shared)[0])

    setattr(SystemClock, "now_ms", now_ms)  # noqa: B010 - mypy knows it as a method


def main() -> None:
    if sys.argv[1] == "work":
        queue_worker.main(sys.argv[2])
        return
    if path := os.environ.get("RIG_CLOCK"):
        _set_clock(path)
    serve()


if __name__ == "__main__":
    server_mutants.MUTANTS.update(queue_mutants.MUTANTS)
    launch.main = main
    spawn.preload()
    launch._take_orders()
