"""Power cuts and failing syncs on a disk in memory: every operation of a short piece of work is a
place to cut, and each cut is tried in several ways. Stops at the first violation."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import penstock
from penstock import Log, PenstockError, Settings
from penstock.testing import FakeClock, Fault, MemoryFilesystem
from tests.support.oracle import TOPICS, WINDOW, Message, Oracle, payloads

PATH = "/data"
STATES_PER_CUT = 10
SETTINGS = Settings(
    background=False,
    wal_shards=1,
    wal_file_bytes=4096,
    checkpoint_wal_bytes=4096,
    segment_max_events=6,
)


@dataclass(slots=True)
class Outcome:
    """How many crash states were tried, and what was wrong with the last one."""

    states: int = 0
    violations: tuple[str, ...] = ()


class Work:
    """The work, on one thread, saying what it does as the oracle wants to hear it."""

    def __init__(self, fs: MemoryFilesystem) -> None:
        self.said: list[Message] = []
        self.may_go_on: Callable[[], bool] = lambda: True
        self._fs = fs
        self._log: Log | None = None
        self._pending: dict[str, tuple[str, int]] = {}  # uid -> operation, count: unanswered
        self._numbers = itertools.count()

    def run(self) -> None:
        """Everything, or up to the first answer after which it may not go on."""
        for step in self._steps():
            step()
            if not self.may_go_on():
                return

    def _steps(self) -> Iterator[Callable[[], object]]:
        log = self._log = penstock.open(PATH, settings=SETTINGS, fs=self._fs, clock=FakeClock())
        for topic, config in TOPICS.items():
            yield partial(self._create, log, topic, config)
        for turn in range(4):
            yield partial(self._append, log, "orders", 1, tag="w-red")
            yield partial(self._append, log, "orders", 3, tag="w-blue")
            yield partial(self._append, log, "clicks", 2)
            yield partial(self._append, log, WINDOW, 2)
            yield partial(self._append, log, "payments", 1, key=True)
            yield partial(self._delete, log, "orders", "w-blue")
            yield log.compact if turn % 2 else log.upkeep
        yield partial(self._append, log, "payments", 2)

    def seen(self) -> list[Message]:
        """Answers that nobody gave yet, but a reader of an fsync topic has already seen."""
        found: list[Message] = []
        if self._log is None or not self._pending:
            return found
        for info in self._log.topics():
            if info.config.durability == "fsync":
                after = max(0, info.head_seq - 10)
                for record in self._log.read(info.name, after).records:
                    uid, _, index = record.data["id"].rpartition("/")
                    if uid in self._pending and index == "0":
                        operation, count = self._pending[uid]
                        found.append(("appended", operation, record.seq, record.seq + count - 1))
        return found

    def _create(self, log: Log, topic: str, config: dict[str, Any]) -> None:
        log.create(topic, **config)
        self.said.append(("created", topic))

    def _append(
        self, log: Log, topic: str, count: int, *, tag: str | None = None, key: bool = False
    ) -> None:
        operation = f"w.{next(self._numbers)}"
        uid = f"1.{operation}"
        idempotency_key = f"key-{uid}" if key else None
        self.said.append(("append", operation, topic, uid, count, tag, idempotency_key))
        self._pending[uid] = operation, count
        done = log.append(topic, payloads(uid, count), tag=tag, idempotency_key=idempotency_key)
        del self._pending[uid]
        self.said.append(("appended", operation, done.first_seq, done.last_seq))

    def _delete(self, log: Log, topic: str, tag: str) -> None:
        operation = f"w.{next(self._numbers)}"
        self.said.append(("delete", operation, topic, tag))
        done = log.delete(topic, tag=tag)
        self.said.append(("deleted", operation, done.deleted))


def judge(fs: MemoryFilesystem, said: list[Message]) -> tuple[str, ...]:
    """What the oracle says of the log on this disk."""
    oracle = Oracle()
    oracle.hear(said)
    try:
        with penstock.open(PATH, settings=SETTINGS, fs=fs, clock=FakeClock()) as log:
            oracle.judge(log, power_cut=True)
            oracle.retry(log)
    except Exception as error:  # noqa: BLE001 - a log that cannot be read is what we look for
        oracle.violations.append(f"the log cannot be read: {error!r}")
    return tuple(oracle.violations)


def cut_everywhere() -> Outcome:
    """Cut the power before every single operation of the work."""
    fs = MemoryFilesystem()
    work = Work(fs)
    moments: list[tuple[MemoryFilesystem, list[Message]]] = []

    def remember(index: int, kind: str, path: str) -> None:
        moments.append((fs.copy(), [*work.said, *work.seen()]))

    fs.on_operation = remember
    work.run()
    return _judge_all(
        (state, said) for disk, said in moments for state in disk.crash_states(STATES_PER_CUT)
    )


def fail_every_sync() -> Outcome:
    """Let each sync of the work fail in turn, then kill the process, or cut the power."""
    return _judge_all(_after_failed_syncs())


def _after_failed_syncs() -> Iterator[tuple[MemoryFilesystem, list[Message]]]:
    for nth in itertools.count(1):
        fs = MemoryFilesystem()
        work = Work(fs)
        fault = fs.fail("sync", nth=nth)
        # Later a checkpoint would write again, from memory, what the disk has lost.
        work.may_go_on = partial(_has_not_fired, fault)
        with contextlib.suppress(PenstockError, OSError):  # closed for writing, as it should be
            work.run()
        if not fault.fired:
            return
        for state in fs.copy().crash_states(STATES_PER_CUT):
            yield state, work.said
        yield fs.kill(), work.said


def _has_not_fired(fault: Fault) -> bool:
    return not fault.fired


def _judge_all(found: Iterator[tuple[MemoryFilesystem, list[Message]]]) -> Outcome:
    outcome = Outcome()
    for fs, said in found:
        outcome.states += 1
        outcome.violations = judge(fs, said)
        if outcome.violations:
            return outcome
    return outcome
