"""A process that writes while it forks children, which end in every way a child can end.

    python -m tests.support.fork_rig DIRECTORY SEED [unguarded]

Prints as JSON what was acknowledged and what the children did wrong. `unguarded` is the mutant: it
takes the guards away that make a child's copy of the log dead.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import penstock
from penstock import Log, Settings, forks
from penstock.engine.core import LogCore
from penstock.errors import Closed
from penstock.storage.fs import OsFile, OsFilesystem

TOPICS = {"fsynced": "fsync", "written": "disk"}
CHILDREN = 24
CHILD_S = 120  # a child that takes so long hangs, and is ended by SIGALRM
UNGUARDED_CHILD_S = 5  # some do: locks of threads that are not there

Child = Callable[[Log], object]


# What children do. One that returns goes on to leave the parent's `with`.


def _nothing(log: Log) -> None:
    """Leave by the end of the block."""


def _close(log: Log) -> None:
    log.close()


def _exit(log: Log) -> None:
    sys.exit(0)


def _collect(log: Log) -> None:
    gc.collect()


def _use(log: Log) -> None:
    uses: list[Callable[[], Any]] = [
        lambda: log.append("written", ["of a child"]),
        lambda: log.append("new", ["of a child"]),
        lambda: log.create("made-by-a-child"),
        lambda: log.read("written"),
        lambda: log.delete("written", before_seq=10),
        log.sync,
        log.checkpoint,
        log.compact,
        log.topics,
    ]
    for use in uses:
        try:
            use()
        except Closed as error:
            if str(os.getppid()) not in str(error):
                raise AssertionError(f"the owner is not named: {error}") from None
        else:
            raise AssertionError("a verb of a forked log did something")


ENDS: list[Child] = [_nothing, _close, _exit, _collect, _use]


# The parent.


def _unguard() -> None:
    parent = os.getpid()
    setattr(forks, "pid", lambda: parent)  # noqa: B010 - every process is the owner
    setattr(LogCore, "leave_to_parent", lambda self: None)  # noqa: B010
    setattr(OsFile, "leave_to_parent", lambda self: None)  # noqa: B010
    setattr(OsFilesystem, "_check_owner", lambda self: None)  # noqa: B010


class Writers:
    """Threads that append while the main thread forks."""

    def __init__(self, log: Log) -> None:
        self.acked: dict[str, list[tuple[int, str]]] = {topic: [] for topic in TOPICS}
        self._log = log
        self._stop = threading.Event()
        self._written = threading.Semaphore(0)
        self._threads = [
            threading.Thread(target=self._run, args=(topic,), daemon=True) for topic in TOPICS
        ]
        for thread in self._threads:
            thread.start()

    def wait_for(self, count: int) -> None:
        for _ in range(count):
            self._written.acquire()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, topic: str) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            value = f"{topic}-{number}"
            try:
                done = self._log.append(topic, [value])
            except penstock.PenstockError:
                self._written.release(1_000_000)
                return
            self.acked[topic].append((done.first_seq, value))
            self._written.release()


def _fork(log: Log, end: Child) -> None:
    """Returns in the parent, and in a child that leaves by the block."""
    pid = os.fork()
    if pid == 0:
        end(log)
        raise _Leave
    _PIDS.append(pid)


class _Leave(BaseException):
    """A child goes out through the parent's `with`."""


_PIDS: list[int] = []


def main(path: str, seed: int, mutant: str) -> None:
    choose = random.Random(seed)
    settings = Settings(
        wal_shards=2, wal_file_bytes=32 << 10, checkpoint_wal_bytes=16 << 10, upkeep_interval_ms=5
    )
    if mutant == "unguarded":
        _unguard()
    alarm_s = UNGUARDED_CHILD_S if mutant else CHILD_S
    os.register_at_fork(after_in_child=lambda: signal.alarm(alarm_s) and None)
    try:
        with penstock.open(path, settings=settings) as log:
            for topic, durability in TOPICS.items():
                log.create(topic, durability=durability)
            writers = Writers(log)
            context = multiprocessing.get_context("fork")
            workers = []
            for _ in range(CHILDREN):
                writers.wait_for(choose.randrange(1, 40))
                if choose.random() < 0.2:
                    workers.append(context.Process(target=choose.choice(ENDS), args=(log,)))
                    workers[-1].start()
                else:
                    _fork(log, choose.choice(ENDS))
            codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in _PIDS]
            for worker in workers:
                worker.join()
                codes.append(worker.exitcode or 0)
            writers.wait_for(100)  # the parent goes on
            writers.stop()
            sys.stdout.write(json.dumps({"acked": writers.acked, "codes": codes}) + "\n")
            sys.stdout.flush()
            if choose.random() < 0.5:
                os.kill(os.getpid(), signal.SIGKILL)
    except _Leave:
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "")
