"""Shards over a disk in memory, and frames to feed them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from penstock.atomic_steps import Step, perform
from penstock.clock import Clock
from penstock.codec import kernel
from penstock.codec.entry import decode_entry, encode_entry
from penstock.codec.frame import FrameType, decode_frame
from penstock.entries import BatchStarted
from penstock.errors import LogFailed
from penstock.storage.wal import files, recovery
from penstock.storage.wal.pending_commit import PendingCommit, closed_gate
from penstock.storage.wal.recovery import WalFileScan, WalFindings
from penstock.storage.wal.shard import Shard
from penstock.testing import FakeClock, MemoryFilesystem

WAL = "/data/wal"
TS = 1_760_000_000_000


def frame(seq: int, data: bytes = b"1", topic_id: int = 1) -> bytes:
    return kernel.encode_appends(topic_id, seq, TS, 0, [data], None, None, None, None, None)[0]


def batch(first: int, count: int) -> bytes:
    texts = [b"1"] * count
    frames = kernel.encode_appends(1, first, TS, 0, texts, None, None, None, None, None)[0]
    return encode_entry(BatchStarted(1, first, count, b"", TS), TS) + frames


def open_shard(
    fs: MemoryFilesystem,
    clock: Clock | None = None,
    *,
    file_bytes: int = 64 * 1024,
    threaded: bool = False,
    next_index: int = 1,
    durable_end: tuple[int, int] = (0, 0),
    on_failure: Callable[[LogFailed], None] = lambda error: None,
) -> Shard:
    return Shard(
        fs,
        clock or FakeClock(),
        WAL,
        files.FileNumbers(next_index),
        file_bytes=file_bytes,
        sync_tick_ms=50,
        threaded=threaded,
        durable_end=durable_end,
        boot_id=fs.boot_id(),
        on_failure=on_failure,
    )


@contextmanager
def shard_on(fs: MemoryFilesystem, **options: Any) -> Iterator[Shard]:
    shard = open_shard(fs, **options)
    try:
        yield shard
    finally:
        shard.close()


class Writer:
    """Makes commits and notes the order in which they are published."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.published: list[object] = []
        self.runs: list[int] = []  # how many were published at a time
        self.publisher = self._note  # one object, as a publisher has it

    def _note(self, run: list[PendingCommit], finish: list[Step], is_own: bool) -> bool:
        self.published += [commit.subject for commit in run]
        self.runs.append(len(run))
        perform(finish)
        return True

    def submit(
        self,
        name: object,
        frames: bytes | None = None,
        *,
        durable: bool = True,
        ordering_key: int = 1,
    ) -> PendingCommit:
        seq = name if isinstance(name, int) else 1
        commit = PendingCommit(
            frame(seq) if frames is None else frames,
            self.publisher,
            durable,
            ordering_key,
            name,
            gate=closed_gate(),
        )
        self.shard.submit(commit)
        return commit

    def write(
        self,
        name: object,
        frames: bytes | None = None,
        *,
        durable: bool = True,
        ordering_key: int = 1,
    ) -> PendingCommit:
        """Submit, drive and wait."""
        commit = self.submit(name, frames, durable=durable, ordering_key=ordering_key)
        self.shard.drive(commit)
        commit.wait(60.0)
        return commit


def examine(fs: MemoryFilesystem) -> tuple[list[WalFileScan], WalFindings]:
    """Everything recovery says of the log on this disk."""
    steps = list(recovery.examine(fs, WAL, {}))
    verdict = steps.pop()
    assert isinstance(verdict, WalFindings)
    return [step for step in steps if isinstance(step, WalFileScan)], verdict


def seqs(scans: list[WalFileScan]) -> list[int]:
    """Seqs of the records found, in replay order."""
    return [
        item[2] + at
        for scan in scans
        for item in scan.items
        if item[0] == FrameType.APPEND
        for at in range(item[6])
    ]


def entries(content: bytes) -> list[object]:
    """The meaning of every frame of a file; appends as their seq."""
    found: list[object] = []
    at = 0
    while any(content[at : at + 4]):
        one, at = decode_frame(content, at)
        found.append(one.seq if one.type == FrameType.APPEND else decode_entry(one))
    return found


def wal_paths(fs: MemoryFilesystem) -> list[str]:
    return [file.path for file in files.discover(fs, WAL)]


def leave_woken_waiter(condition: threading.Condition) -> None:
    """As after a `notify` that an exception from outside has interrupted: the first waiter is woken
    and gone, and still in the list."""
    waiters = condition._waiters  # type: ignore[attr-defined]
    with condition:
        waiters.appendleft(closed_gate())
