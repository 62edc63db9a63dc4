"""The syncs of class `disk`: on a thread of their own, while the shard goes on writing."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

import pytest

from penstock import limits
from penstock.errors import LogFailed
from penstock.storage.wal import durable_mark
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.storage.wal.shard import Shard
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.fs import MemoryFile
from tests.support.serving import eventually
from tests.unit.storage.wal.support import WAL, Writer, frame, leave_woken_waiter, shard_on


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


class NotedLock:
    """A lock that tells when somebody has to wait for it."""

    def __init__(self, on_wait: Callable[[], None] = lambda: None) -> None:
        self._lock = threading.Lock()
        self._on_wait = on_wait
        self.waited = threading.Event()

    def __enter__(self) -> None:
        if self._lock.locked():
            self._on_wait()
            self.waited.set()
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


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

    def waits() -> None:
        events.append("waits")
        something.set()

    def written(commit: PendingCommit) -> None:
        events.append("written")
        something.set()
        done.set()

    with shard_on(fs, clock=clock, threaded=True) as shard:
        shard._ticks._round_lock = NotedLock(waits)  # type: ignore[assignment]
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


# What an error, an interrupt or a crowd must not break.


def test_a_rotation_and_a_tick_learn_of_one_failed_sync(
    fs: MemoryFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system tells one of two syncs of a file, and nobody later."""
    held, clock = HeldSync(monkeypatch), FakeClock()
    failed = threading.Event()
    clock.advance(1)

    with shard_on(
        fs, clock=clock, threaded=True, file_bytes=4096, on_failure=lambda error: failed.set()
    ) as shard:
        lock = NotedLock()
        shard._wal._file_sync_lock = lock  # type: ignore[assignment]
        writer = Writer(shard)
        writer.write(1, durable=False)
        begin_tick(held, clock)
        fs.fail("sync", nth=1)
        large = PendingCommit(
            frame(2, b'"%b"' % (b"x" * 5000)), writer.publisher, False, 1, 2, lambda commit: None
        )
        shard.submit(large)
        shard.push()
        assert lock.waited.wait(60.0)  # the rotation, for the tick's sync of the same file
        held.released.set()
        assert failed.wait(60.0)

    mark = durable_mark.read(fs, WAL)
    assert mark is not None
    assert mark.is_failed
    assert fs.synced_after_failure == 0


def test_a_failed_sync_is_not_tried_again_when_its_caller_was_interrupted(
    fs: MemoryFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupts = iter([KeyboardInterrupt])
    close_for_writing = Shard._break

    def interrupted(shard: Shard, what: str, error: OSError) -> None:
        for interrupt in interrupts:
            raise interrupt
        close_for_writing(shard, what, error)

    with shard_on(fs, clock=FakeClock(), threaded=True) as shard:
        writer = Writer(shard)
        writer.write(1)
        monkeypatch.setattr(Shard, "_break", interrupted)
        fs.fail("sync", nth=1)
        commit = writer.submit(2)
        with pytest.raises(KeyboardInterrupt):
            shard.drive(commit)
        with pytest.raises(LogFailed):
            commit.wait(60.0)

    assert fs.synced_after_failure == 0
    assert writer.published == [1]


def test_a_soft_write_beside_a_callers_sync_is_synced_on_a_tick(
    fs: MemoryFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, clock = HeldSync(monkeypatch), FakeClock()
    clock.advance(1)

    with shard_on(fs, clock=clock, threaded=True) as shard:
        writer = Writer(shard)
        writer.write(1)
        held.is_armed = True
        caller = threading.Thread(target=lambda: writer.write(2))
        caller.start()
        assert held.begun.wait(60.0)
        writer.write(3, durable=False, ordering_key=2)
        held.released.set()
        caller.join(60.0)
        writer.write(4, durable=False, ordering_key=2)
        never = threading.Event()
        for _ in range(6000):
            clock.advance(50)
            if not shard.loss_window_ms():
                break
            never.wait(0.01)
        loss_ms = shard.loss_window_ms()

    assert loss_ms == 0


def test_an_interrupted_sync_leaves_no_commit_of_another_thread_behind(
    fs: MemoryFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, released = threading.Event(), threading.Event()
    interrupts = iter([KeyboardInterrupt])
    sync = MemoryFile.sync
    is_armed = False

    def interrupted(file: MemoryFile) -> None:
        if is_armed:
            for interrupt in interrupts:
                begun.set()
                assert released.wait(60.0)
                raise interrupt
        sync(file)

    monkeypatch.setattr(MemoryFile, "sync", interrupted)
    with shard_on(fs, clock=FakeClock(), threaded=True) as shard:  # time stands: there is no tick
        writer = Writer(shard)
        writer.write(1)
        is_armed = True
        commit = writer.submit(2)

        def drive() -> None:
            assert begun.wait(60.0)
            shard.drive(commit)
            while shard._is_awake:  # the shard's thread, which finds nothing to do for it
                pass
            released.set()

        other = threading.Thread(target=drive)
        other.start()
        with pytest.raises(KeyboardInterrupt):
            shard.sync_all()
        commit.wait(60.0)
        other.join(60.0)

    assert writer.published == [1, 2]


def test_writers_that_never_pause_do_not_put_off_a_tick(fs: MemoryFilesystem) -> None:
    clock = FakeClock()
    clock.advance(1)
    ended = threading.Event()
    written = 0

    with shard_on(fs, clock=clock, threaded=True) as shard:
        writer = Writer(shard)

        def again(commit: PendingCommit) -> None:
            nonlocal written
            written += 1
            clock.advance(1)
            if shard.stats.syncs or written == 50_000:
                ended.set()
            else:
                push_soft(writer, 1, again)

        push_soft(writer, 1, again)
        assert ended.wait(60.0)

    assert written < 50_000


def test_closing_after_a_failure_elsewhere_answers_everyone(
    fs: MemoryFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, clock = HeldSync(monkeypatch), FakeClock()
    answers: list[PendingCommit] = []
    clock.advance(1)

    with shard_on(fs, clock=clock, threaded=True) as shard:
        writer = Writer(shard)
        writer.write(1, durable=False)
        begin_tick(held, clock)
        waiting = PendingCommit(frame(2), writer.publisher, True, 5, 2, answers.append)
        shard.submit(waiting)
        writer.write(3, durable=False, ordering_key=7)  # and with it the one before
        shard.failed = LogFailed.of("fdatasync", OSError(errno.EIO, "bad disk"), "another shard")
        closer = threading.Thread(target=shard.close)
        closer.start()
        held.released.set()
        closer.join(60.0)

    assert answers == [waiting]
    assert isinstance(waiting.error, LogFailed)


def test_the_thread_does_not_wait_for_a_callers_sync(
    fs: MemoryFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes for others meanwhile, and sleeps when there is nothing to write."""
    held = HeldSync(monkeypatch)
    done = threading.Event()

    with shard_on(fs, clock=FakeClock(), threaded=True) as shard:  # time stands: there is no tick
        writer = Writer(shard)
        writer.write(1)
        held.is_armed = True
        caller = threading.Thread(target=lambda: writer.write(2))
        caller.start()
        assert held.begun.wait(60.0)
        commit = PendingCommit(frame(3), writer.publisher, False, 2, 3, lambda commit: done.set())
        shard.submit(commit)
        shard.push()
        is_answered = done.wait(60.0)
        waiters = shard._wake._waiters  # type: ignore[attr-defined]
        eventually(lambda: waiters, "a thread that sleeps")
        held.released.set()
        caller.join(60.0)

    assert is_answered
    assert writer.published == [1, 3, 2]


# What an interrupt on a caller's thread leaves behind.


@pytest.mark.parametrize("verb", ["push", "close"])
def test_a_nudge_that_was_interrupted_takes_no_later_one(fs: MemoryFilesystem, verb: str) -> None:
    done = threading.Event()
    closed = threading.Event()
    with shard_on(fs, clock=FakeClock(), threaded=True) as shard:
        writer = Writer(shard)
        writer.write(1)
        waiters = shard._wake._waiters  # type: ignore[attr-defined]
        eventually(lambda: waiters, "a thread that sleeps")
        leave_woken_waiter(shard._wake)

        if verb == "push":
            push_soft(writer, 2, lambda commit: done.set())
            assert done.wait(60.0)
        else:
            threading.Thread(target=lambda: (shard.close(), closed.set()), daemon=True).start()
            assert closed.wait(60.0)


def test_a_caller_enters_no_condition(
    fs: MemoryFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C may come between acquiring a condition and entering its block: it would stay taken."""
    entered: list[object] = []
    enter = threading.Condition.__enter__

    def note(condition: threading.Condition) -> bool:
        if threading.current_thread() is threading.main_thread():
            entered.append(condition)
        return enter(condition)

    with shard_on(fs, clock=FakeClock(), threaded=True) as shard:
        writer = Writer(shard)
        monkeypatch.setattr(threading.Condition, "__enter__", note)
        for seq in range(1, 4):
            writer.write(seq, durable=seq % 2 == 0)
        shard.push()
        shard.sync_all()
        shard.close()

    assert shard._wake not in entered


def test_callers_that_wait_for_a_sync_at_the_same_time_share_it(
    fs: MemoryFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = MemoryFile.sync
    waiting: list[None] = []
    with shard_on(fs, clock=FakeClock()) as shard:
        writer = Writer(shard)

        def sync_and_write(file: MemoryFile) -> None:
            """There is always something left that is not synced."""
            sync(file)
            writer.write("meanwhile", durable=False)

        lock = NotedLock(lambda: waiting.append(None))
        monkeypatch.setattr(shard, "_sync_turn", lock)
        writer.write(1, durable=False)
        callers = [threading.Thread(target=shard.sync_all) for _ in range(8)]
        with monkeypatch.context() as patch:
            patch.setattr(MemoryFile, "sync", sync_and_write)
            with lock:
                for caller in callers:
                    caller.start()
                eventually(lambda: len(waiting) == len(callers), "all of them wait")
                writer.write(2, durable=False)
            for caller in callers:
                caller.join(60.0)

        assert shard.stats.syncs == 1


def test_a_sync_that_is_under_way_is_not_enough_for_a_caller_that_comes_later(
    fs: MemoryFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldSync(monkeypatch)
    with shard_on(fs, clock=FakeClock()) as shard:
        writer = Writer(shard)
        writer.write(1, durable=False)
        held.is_armed = True
        early = threading.Thread(target=shard.sync_all)
        early.start()
        assert held.begun.wait(60.0)
        writer.write(2, durable=False)
        late = threading.Thread(target=shard.sync_all)
        late.start()
        held.released.set()
        for caller in (early, late):
            caller.join(60.0)

        assert shard.stats.syncs == 2


def test_a_caller_whose_records_are_synced_does_not_wait_for_the_next_sync(
    fs: MemoryFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[None] = []
    held = HeldSync(monkeypatch)
    lock = NotedLock(lambda: waiting.append(None))
    with shard_on(fs, clock=FakeClock()) as shard:
        writer = Writer(shard)
        writer.write(1, durable=False)
        monkeypatch.setattr(shard, "_sync_turn", lock)
        callers = [threading.Thread(target=shard.sync_all) for _ in range(4)]
        with lock:
            for caller in callers:
                caller.start()
            eventually(lambda: len(waiting) == len(callers), "all of them wait")
        eventually(lambda: shard.stats.syncs == 1, "the first of them has synced")
        held.is_armed = True
        writer.write(2, durable=False)
        next_caller = threading.Thread(target=shard.sync_all)
        next_caller.start()
        assert held.begun.wait(60.0)

        for caller in callers:
            caller.join(60.0)
        assert not any(caller.is_alive() for caller in callers)
        held.released.set()
        next_caller.join(60.0)
