"""A producer in trouble: disks that fail, spools that are full, ends in the middle, forks."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.errors import Backpressure, Closed, SlotInUse, SpoolFailed, StorageError
from penstock.sender import delivery_loop as delivery_loops
from penstock.sender.async_sender import AsyncSender
from penstock.sender.sender import Sender
from penstock.testing import FakeClock
from penstock.testing.fs import MemoryFilesystem
from tests.support.serving import eventually
from tests.support.sink import DEADLINE_S, DURABLE, Sink, Visit, conf, free_port, take_all

NOWHERE = f"127.0.0.1:{free_port()}"
FOREVER_MS = 3_600_000
FULL = {"sf_max_segment_bytes": "64k", "sf_max_total_bytes": "128k"}


def small(addr: str, **keys: object) -> str:
    return conf(addr, **FULL | {"sf_append_deadline_millis": FOREVER_MS} | keys)


def fill(sender: Sender) -> None:
    """Until the next frame finds no room: both segments have room for three. The spool itself is
    not asked, as a segment that is being tried counts as room for a moment."""
    for _ in range(6):
        sender.append("t", "x" * 20_000)
        sender.flush()


# Rows that were taken are taken once; rows that were refused are not.


def test_a_row_is_not_refused_after_it_was_taken() -> None:
    with Sink() as sink, Sender(conf(sink, auto_flush="on", auto_flush_rows=3)) as sender:
        append = sender._spool.append
        errors = [SpoolFailed("/spool", reason="No space left on device")]

        def unlucky(parts: Sequence[bytes]) -> int:
            if errors:
                raise errors.pop()
            return append(parts)

        sender._spool.append = unlucky  # type: ignore[method-assign]
        for number in range(3):
            sender.append("t", number)  # with the third they are flushed, and that fails
        assert not errors
        sender.append("t", 3)

        assert sender.drain(DEADLINE_S)
        assert sink.rows() == [b"0", b"1", b"2", b"3"]


def test_what_is_wrong_with_the_disk_is_told_before_more_is_taken() -> None:
    fs = MemoryFilesystem()
    text = conf(NOWHERE, sf_dir="/spool", auto_flush="on", auto_flush_rows=3)
    with Sender(text + "close_flush_timeout_millis=0;", fs=fs) as sender:
        for number in range(2):
            sender.append("t", number)
        fs.capacity_bytes = 1
        sender.append_batch("t", [2])
        for call in (
            lambda: sender.append("t", "no"),
            lambda: sender.append("t", "no", "tag"),
            lambda: sender.append_batch("t", ["no"]),
            sender.flush,
        ):
            with pytest.raises(StorageError, match="No space"):
                call()
        fs.capacity_bytes = None
        sender.append("t", 3)
    with Sink() as sink, Sender(conf(sink, sf_dir="/spool"), fs=fs) as other:
        assert other.drain(DEADLINE_S)
        assert sink.rows() == [b"0", b"1", b"2", b"3"]


def test_a_frame_never_has_more_rows_than_a_server_takes() -> None:
    """While the spool is full, rows wait in the draft."""
    sender = Sender(small(NOWHERE, sf_append_deadline_millis=1, close_flush_timeout_millis=0))
    fill(sender)
    taken = 0
    with pytest.raises(Backpressure):  # noqa: PT012
        while True:
            sender.append("rows", 1)
            taken += 1
    assert 0 < taken <= 10_000
    with pytest.raises(Backpressure, match=f"{taken} rows did not fit"):
        sender.close()


# Ends.


def test_rows_that_come_during_a_close_are_refused_or_kept(tmp_path: Path) -> None:
    sender = Sender(conf(NOWHERE, sf_dir=tmp_path, close_flush_timeout_millis=300))
    taken = 0
    is_refused = threading.Event()

    def produce() -> None:
        nonlocal taken
        try:
            while True:
                sender.append("t", taken)
                taken += 1
                if taken % 50 == 0:
                    is_refused.wait(0.001)
        except Closed:
            is_refused.set()

    producer = threading.Thread(target=produce)
    producer.start()
    eventually(lambda: taken > 100, "some rows", DEADLINE_S)
    sender.close()
    assert is_refused.wait(DEADLINE_S)
    producer.join()

    with Sink() as sink, Sender(conf(sink, sf_dir=tmp_path)) as other:
        assert other.drain(DEADLINE_S)
        assert sink.rows() == [b"%d" % number for number in range(taken)]


def test_a_full_spool_does_not_keep_a_drain_longer_than_it_may() -> None:
    sender = Sender(small(NOWHERE, close_flush_timeout_millis=0))
    fill(sender)
    sender.append("t", "x" * 20_000)
    assert not sender.drain(0.05)
    assert not sender.drain(0)

    with pytest.raises(Backpressure, match="1 rows did not fit the spool and are LOST"):
        sender.close()
    sender.close()


def test_a_close_gives_the_last_rows_the_time_it_has() -> None:
    def late(visit: Visit) -> None:
        visit.keep(visit.take())
        may_go_on.wait(DEADLINE_S)
        visit.ok()
        take_all(visit)

    may_go_on = threading.Event()
    with Sink(late) as sink:
        sender = Sender(small(sink.addr, close_flush_timeout_millis=FOREVER_MS))
        fill(sender)
        sender.append("t", "last")
        closing = threading.Thread(target=sender.close)
        closing.start()
        may_go_on.set()
        closing.join(DEADLINE_S)

        assert sink.rows()[-1] == b'"last"'


def test_one_that_waits_for_room_keeps_nobody_else() -> None:
    sender = Sender(small(NOWHERE, close_flush_timeout_millis=0))
    fill(sender)
    sender.append("full", "x" * 20_000)

    def flush() -> None:
        with pytest.raises(Closed):
            sender.flush()

    waiting = threading.Thread(target=flush, daemon=True)
    waiting.start()
    eventually(
        lambda: sender.status().counters.backpressure_stalls, "a thread that waits", DEADLINE_S
    )

    sender.append("other", 1)
    assert sender.status().counters.rows_appended >= 2
    with pytest.raises(Backpressure):
        sender.close()
    waiting.join(DEADLINE_S)
    assert not waiting.is_alive()


def test_the_timer_hears_what_comes_while_the_spool_is_kept() -> None:
    with Sink() as sink, Sender(conf(sink, auto_flush="on", auto_flush_interval=20)) as sender:
        maintain, is_first = sender._spool.maintain, True

        def interrupted() -> float | None:
            nonlocal is_first
            if is_first:
                is_first = False
                sender.append("t", 1)
            return maintain()

        sender._spool.maintain = interrupted  # type: ignore[method-assign]
        sender._spool.request_maintenance()
        sink.wait_for(lambda: sink.rows() == [b"1"])


# Processes.


def test_a_forked_process_leaves_the_sender_alone(tmp_path: Path) -> None:
    sender = Sender(conf(NOWHERE, sf_dir=tmp_path, close_flush_timeout_millis=0))
    sender.append("t", 0)
    sender.flush()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            for call in (lambda: sender.append("t", "child"), sender.flush, sender.drain):
                try:
                    call()
                except Closed as error:
                    if f"belongs to process {os.getppid()}" not in str(error):
                        os._exit(3)
                else:
                    os._exit(2)
            sender.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    for number in range(1, 5):
        sender.append("t", number)
        sender.flush()
    sender.close()

    with Sink() as sink, Sender(conf(sink, sf_dir=tmp_path)) as other:
        assert other.drain(DEADLINE_S)
        assert sink.rows() == [b"0", b"1", b"2", b"3", b"4"]


# Servers.


def test_a_server_that_takes_one_connection_and_leaves_is_a_first_connection() -> None:
    for _ in range(10):
        with Sink(lambda visit: None) as sink:
            Sender(conf(sink, initial_connect_retry="off", close_flush_timeout_millis=0)).close()


def test_a_server_that_falls_silent_is_left_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.sender.ping_timer.SILENCE_S", 1.0)
    is_over = threading.Event()
    with Sink(lambda visit: is_over.wait(DEADLINE_S)) as mute, Sink() as sink:
        with Sender(conf(f"{mute.addr},{sink.addr}")) as sender:
            mute.wait_for(lambda: mute.visits)
            sender.append("t", 1)
            assert sender.drain(DEADLINE_S)
            sink.wait_for(lambda: sender.status().host == sink.addr)
        is_over.set()
    assert sink.rows() == [b"1"]


def test_an_outage_goes_on_while_connections_bring_nothing() -> None:
    def leave(visit: Visit) -> None:
        visit.take()
        visit.close(1013)

    with Sink(leave) as sink:
        sender = Sender(small(sink.addr, close_flush_timeout_millis=0))
        sender.append("t", 1)
        sender.flush()
        sink.wait_for(lambda: sink.requests >= 4)
        first = eventually(lambda: sender._delivery_loop.outage, "a rest", DEADLINE_S)
        sink.wait_for(lambda: sink.requests >= 6)
        later = eventually(
            lambda: (one := sender._delivery_loop.outage) is not None and one.attempts > 2 and one,
            "it",
            DEADLINE_S,
        )
        assert later.since_ms == first.since_ms
        sender.close()


def test_files_that_cannot_be_opened_now_can_be_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many of them, as a rule."""
    bells = itertools.chain([OSError(errno.EMFILE, "Too many open files")], itertools.repeat(None))
    real = delivery_loops.connections.WakePipe

    def rare() -> object:
        error = next(bells)
        if error is not None:
            raise error
        return real()

    monkeypatch.setattr(delivery_loops.connections, "WakePipe", rare)
    with Sink() as sink, Sender(conf(sink)) as sender:
        read, errors = sender._spool.read, [OSError(errno.EMFILE, "Too many open files")]

        def unlucky(fsn: int, max_bytes: int) -> object:
            if errors:
                raise errors.pop()
            return read(fsn, max_bytes)

        sender._spool.read = unlucky  # type: ignore[method-assign,assignment]
        sender.append("t", 1)
        assert sender.drain(DEADLINE_S)
        assert sender.halted is None
        assert sink.rows() == [b"1"]


def test_syncs_are_asked_for_no_more_often_than_was_said() -> None:
    def slow(visit: Visit) -> None:
        for _ in range(3):
            visit.keep(visit.take())
            visit.ok()
        visits.append(visit)
        may_go_on.wait(DEADLINE_S)
        visit.reply((DURABLE, 2))
        visit.until_gone()

    visits: list[Visit] = []
    may_go_on = threading.Event()
    keys = {"request_durable_ack": "on", "durable_ack_keepalive_interval_millis": 0}
    with Sink(slow, headers={"X-Penstock-Durable-Ack": "enabled"}) as sink:
        with Sender(conf(sink, **keys), clock=FakeClock()) as sender:  # nor because time passes
            for number in range(3):
                sender.append("t", number)
                sender.flush()
            sink.wait_for(lambda: visits)
            may_go_on.set()
            assert sender.drain(DEADLINE_S)
        assert visits[0].pings == 0


# Loops.


def test_a_cancelled_opening_lets_go_of_the_slot(tmp_path: Path) -> None:
    port = free_port()

    async def give_up() -> None:
        text = conf(f"127.0.0.1:{port}", sf_dir=tmp_path, initial_connect_retry="sync")
        opening = asyncio.ensure_future(AsyncSender(text).open())
        await asyncio.to_thread(eventually, lambda: any(tmp_path.iterdir()), "it", DEADLINE_S)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        with Sink(port=port):  # now it could be opened
            await asyncio.to_thread(eventually, lambda: is_free(tmp_path), "the slot", DEADLINE_S)

    asyncio.run(asyncio.wait_for(give_up(), 2 * DEADLINE_S))


def is_free(slots: Path) -> bool:
    try:
        Sender(conf(NOWHERE, sf_dir=slots, close_flush_timeout_millis=0)).close()
    except SlotInUse:
        return False
    return True
