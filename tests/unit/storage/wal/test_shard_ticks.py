"""The syncs of class `disk`: on a thread of their own, while the shard goes on writing."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from penstock import limits
from penstock.errors import LogFailed
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.fs import MemoryFile
from tests.unit.storage.wal.support import Writer, frame, shard_on


@pytest.fixture
def fs() -> MemoryFilesystem:
    return MemoryFilesystem()


def test_the_thread_syncs_a_soft_write_within_a_tick(fs: MemoryFilesystem) -> None:
    synced = threading.Event()
    clock = FakeClock()
    clock.advance(1)

    with shard_on(fs, clock=clock, threaded=True) as shard:
        Writer(shard).write(1, durable=False)
        fs.on_operation = lambda index, kind, path: synced.set() if kind == "sync" else None
        for _ in range(600):  # the thread may not be waiting yet when the clock is moved
            clock.advance(50)
            if synced.wait(0.1):
                break

    assert synced.is_set()


class HeldSync:
    """The first sync of the tick waits until it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = threading.Event()
        self.released = threading.Event()
        self.is_armed = False
        sync = MemoryFile.sync

        def hold(file: MemoryFile) -> None:
            if self.is_armed:
                self.is_armed = False
                self.begun.set()
                assert self.released.wait(60.0)
            sync(file)

        monkeypatch.setattr(MemoryFile, "sync", hold)


def push_soft(writer: Writer, name: int, done: Callable[[PendingCommit], None]) -> None:
    """Submit a commit of class `disk` as servers do: answered by callback, driven by the thread."""
    commit = PendingCommit(frame(name), writer.publisher, False, 1, name, done)
    writer.shard.submit(commit)
    writer.shard.push()


def begin_tick(held: HeldSync, clock: FakeClock) -> None:
    """Move the clock until the sync of a tick has begun."""
    held.is_armed = True
    for _ in range(600):  # the thread may not be waiting yet when the clock is moved
        clock.advance(50)
        if held.begun.wait(0.1):
            return
    raise AssertionError("no tick")


def test_writing_goes_on_while_a_tick_syncs(
    fs: MemoryFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, clock = HeldSync(monkeypatch), FakeClock()
    done = threading.Event()
    clock.advance(1)

    with shard_on(fs, clock=clock, threaded=True) as shard:
        writer = Writer(shard)
        writer.write(1, durable=False)
        begin_tick(held, clock)
        push_soft(writer, 2, lambda commit: done.set())
        is_answered = done.wait(60.0)
        held.released.set()

    assert is_answered
    assert writer.published == [1, 2]


def test_writing_waits_for_a_tick_when_it_is_far_ahead_of_its_sync(
    fs: MemoryFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "AHEAD_OF_SYNC_BYTES_MAX", 0)
    held, clock = HeldSync(monkeypatch), FakeClock()
    events: list[str] = []
    something = threading.Event()
    done = threading.Event()
    clock.advance(1)

    class NotedLock:
        """The shard's sync lock. Notes who has to wait for it."""

        def __init__(self) -> None:
            self._lock = threading.Lock()
            self.locked = self._lock.locked

        def __enter__(self) -> None:
            if self._lock.locked():
                events.append("waits")
                something.set()
            self._lock.acquire()

        def __exit__(self, *error: object) -> None:
            self._lock.release()

    def written(commit: PendingCommit) -> None:
        events.append("written")
        something.set()
        done.set()

    with shard_on(fs, clock=clock, threaded=True) as shard:
        shard._sync_lock = NotedLock()  # type: ignore[assignment]
        writer = Writer(shard)
        writer.write(1, durable=False)
        begin_tick(held, clock)
        push_soft(writer, 2, written)
        assert something.wait(60.0)
        held.released.set()
        assert done.wait(60.0)

    assert events == ["waits", "written"]


def test_a_sync_that_fails_on_a_tick_closes_the_shard(fs: MemoryFilesystem) -> None:
    clock = FakeClock()
    failed = threading.Event()
    clock.advance(1)

    with shard_on(fs, clock=clock, threaded=True, on_failure=lambda error: failed.set()) as shard:
        writer = Writer(shard)
        writer.write(1, durable=False)
        fs.fail("sync", nth=1)
        for _ in range(600):
            clock.advance(50)
            if failed.wait(0.1):
                break
        with pytest.raises(LogFailed):
            writer.submit(2)

    assert fs.synced_after_failure == 0


def test_a_tick_syncs_on_the_shards_thread_when_there_is_no_other(
    fs: MemoryFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    synced = threading.Event()
    clock.advance(1)

    with shard_on(fs, clock=clock, threaded=True) as shard:
        Writer(shard).write(1, durable=False)
        monkeypatch.setattr(threading.Thread, "start", refuse)
        fs.on_operation = lambda index, kind, path: synced.set() if kind == "sync" else None
        for _ in range(600):
            clock.advance(50)
            if synced.wait(0.1):
                break
        monkeypatch.undo()

    assert synced.is_set()
    assert shard.failed is None


def refuse(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
