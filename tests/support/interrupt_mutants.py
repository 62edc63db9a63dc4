"""The log with one critical section broken at a time, to see that the interrupt rigs notice.

This file is not left out of the places that a rig interrupts: a mutant stands for the log.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

from penstock.atomic_steps import Step, perform
from penstock.engine.log_failure import LogFailure
from penstock.entries import RecordsAppended
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.storage.wal.shard import Shard
from penstock.topics.registry import Registry
from penstock.topics.topic import Topic

Patch = tuple[object, str, Callable[..., Any]]  # where, name, what instead


def _staged_in_two_steps() -> list[Patch]:
    """A commit is queued, and then the seqs that it uses are taken."""
    submit = Shard.submit

    def in_two_steps(self: Shard, commit: PendingCommit, steps: Iterable[Step] = ()) -> None:
        submit(self, commit)
        for function, *arguments in steps:
            function(*arguments)

    return [(Shard, "submit", in_two_steps)]


def _half_published() -> list[Patch]:
    """Records are counted before they are there, and nobody rolls that back."""
    add_records = Topic.add_records

    def in_two_steps(self: Topic, entry: RecordsAppended, *rest: Any) -> bool:
        self.live += entry.count
        _place()
        self.live -= entry.count
        return add_records(self, entry, *rest)

    def forgets(self: Topic) -> None:
        self.undo = None

    return [
        (Topic, "add_records", in_two_steps),
        (Topic, "guard", forgets),
        (Topic, "roll_back", forgets),
    ]


def _unqueued_before_written() -> list[Patch]:
    """A commit leaves the queue, and then it is written."""
    write = Shard._write

    def hurries(self: Shard, commits: list[PendingCommit], size: int) -> None:
        queued = list(self._queue)
        self._queue.clear()
        self._queue.extend(queued)
        write(self, commits, size)

    return [(Shard, "_write", hurries)]


def _lock_leaked() -> list[Patch]:
    """A lock is taken outside a `with`."""
    drive = Shard.drive

    def leaks(self: Shard, commit: PendingCommit) -> None:
        if self._write_lock.acquire(blocking=False):
            self._write_lock.release()
        drive(self, commit)

    return [(Shard, "drive", leaks)]


def _goes_on_half_changed() -> list[Patch]:
    """A log without threads goes on with what an interrupted verb left in memory."""

    def ignores(self: LogFailure, cause: BaseException) -> None: ...

    return [(LogFailure, "fail_interrupted", ignores)]


def _deleted_in_two_steps() -> list[Patch]:
    """Records are marked dead, and then they are no longer counted."""
    deleting = Registry.deleting

    def in_two_steps(self: Registry, *entry_and_position: Any) -> tuple[list[Step], int] | None:
        change = deleting(self, *entry_and_position)
        if change is None:
            return None
        steps, removed = change
        middle = len(steps) // 2
        perform(steps[:middle])
        _place()
        return steps[middle:], removed

    return [(Registry, "deleting", in_two_steps)]


def _place() -> None:
    """A function begins: an exception from outside may come here."""


MUTANTS: dict[str, Callable[[], list[Patch]]] = {
    "staged-in-two-steps": _staged_in_two_steps,
    "half-published": _half_published,
    "unqueued-before-written": _unqueued_before_written,
    "lock-leaked": _lock_leaked,
    "goes-on-half-changed": _goes_on_half_changed,
    "deleted-in-two-steps": _deleted_in_two_steps,
}
CASE = {  # interrupted instead of a plain append
    "goes-on-half-changed": "delete-tag-disk",
    "deleted-in-two-steps": "ack-fsync",
}


@contextlib.contextmanager
def mutated(name: str) -> Iterator[None]:
    """Break this process for a while; an empty name leaves it as it is."""
    with contextlib.ExitStack() as stack:
        for where, attribute, instead in MUTANTS[name]() if name else ():
            stack.enter_context(mock.patch.object(where, attribute, instead))
        yield
