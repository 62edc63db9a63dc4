"""How a sender ends: on a full disk, twice, in a signal handler, in a process that was forked off;
and what happens to whoever calls it while it is in trouble."""

from __future__ import annotations

import logging
import os
import signal
import threading
from pathlib import Path
from types import FrameType

import pytest

from penstock.errors import Backpressure, Closed, SenderBusy, SenderHalted, SpoolFailed
from penstock.sender import log_throttle
from penstock.sender import sender as senders
from penstock.sender.sender import Sender
from penstock.sender.slot import Slot
from penstock.storage.fs import OsFilesystem
from penstock.testing import FakeClock
from penstock.testing.fs import MemoryFilesystem
from tests.support.sink import (
    DEADLINE_S,
    OK,
    PARSE,
    Sink,
    Ticking,
    Visit,
    conf,
    free_port,
    take_all,
)

NOWHERE = f"127.0.0.1:{free_port()}"
PATIENT_MS = 600_000
FULL = {"sf_max_segment_bytes": "64k", "sf_max_total_bytes": "128k"}


# A full disk.


def test_a_close_waits_for_the_room_that_acknowledgements_make() -> None:
    fs = MemoryFilesystem(capacity_bytes=220_000)
    go_on = threading.Event()

    def patient(visit: Visit) -> None:
        assert go_on.wait(DEADLINE_S)
        take_all(visit)

    with Sink(patient) as sink:
        keys = {
            "sf_dir": "/spool",
            "sf_max_segment_bytes": "64k",
            "close_flush_timeout_millis": PATIENT_MS,
        }
        sender = Sender(conf(sink, **keys), fs=fs)
        taken = 0
        with pytest.raises(SpoolFailed, match="No space"):  # noqa: PT012
            while True:
                sender.append("t", "x" * 30_000)
                taken += 1
                sender.flush()

        closing = threading.Thread(target=sender.close)
        closing.start()
        go_on.set()
        closing.join(DEADLINE_S)

        assert not closing.is_alive()
        assert [len(row) for row in sink.rows()] == [30_002] * taken


def test_the_first_failure_of_a_close_is_the_one_that_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fs = MemoryFilesystem()
    sender = Sender(conf(NOWHERE, sf_dir="/spool", close_flush_timeout_millis=0), fs=fs)
    sender.append("t", 1)
    fs.capacity_bytes = 0

    def failing() -> bool:
        raise SpoolFailed("/spool", reason="something else")

    monkeypatch.setattr(sender._spool, "close", failing)
    with pytest.raises(SpoolFailed, match=r"No space.*1 rows did not fit the spool and are LOST"):
        sender.close()


def test_a_close_waits_for_room_longer_than_an_append_may() -> None:
    go_on = threading.Event()

    def patient(visit: Visit) -> None:
        assert go_on.wait(DEADLINE_S)
        take_all(visit)

    keys = FULL | {"sf_append_deadline_millis": 1, "close_flush_timeout_millis": PATIENT_MS}
    with Sink(patient) as sink:
        sender = Sender(conf(sink, **keys))
        taken = 0
        with pytest.raises(Backpressure):  # noqa: PT012
            while True:
                sender.append("t", "x" * 30_000)
                taken += 1
                sender.flush()
        closing = threading.Thread(target=sender.close)
        closing.start()
        sink.wait_for(lambda: sender._stalls > 3)  # it has tried again
        go_on.set()
        closing.join(DEADLINE_S)

        assert not closing.is_alive()
        assert len(sink.rows()) == taken


def test_rows_that_are_lost_because_sending_halts_amid_a_close_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    go_on = threading.Event()

    def refuse(visit: Visit) -> None:
        visit.take()
        assert go_on.wait(DEADLINE_S)
        visit.reply((PARSE, 0, "what is this?"), close=1000)

    keys = FULL | {"sf_append_deadline_millis": 1, "close_flush_timeout_millis": 2000}
    with Sink(refuse) as sink:
        sender = Sender(conf(sink, **keys))
        with pytest.raises(Backpressure):  # noqa: PT012
            while True:
                sender.append("t", "x" * 30_000)
                sender.flush()
        timer = threading.Timer(0, go_on.set)
        timer.start()
        lost = "1 rows did not fit the spool and are LOST"
        with pytest.raises((Backpressure, SenderHalted), match=lost):
            sender.close()

    assert "closed with 1 rows that did not fit the spool: they are LOST" in caplog.text


# Twice.


def test_a_second_close_returns_when_the_slot_is_free(tmp_path: Path) -> None:
    go_on = threading.Event()

    def patient(visit: Visit) -> None:
        visit.take()
        assert go_on.wait(DEADLINE_S)
        visit.reply((OK, 0))
        visit.until_gone()

    with Sink(patient) as sink:
        sender = Sender(conf(sink, sf_dir=tmp_path, close_flush_timeout_millis=PATIENT_MS))
        sender.append("t", 1)
        sender.flush()
        first = threading.Thread(target=sender.close)
        first.start()
        sink.wait_for(lambda: sender._is_closing and sink.visits and sink.visits[0].taken)
        is_free: list[bool] = []

        def again() -> None:
            sender.close()
            Slot.open(OsFilesystem(), str(tmp_path / "default")).release()
            is_free.append(True)

        second = threading.Thread(target=again)
        second.start()
        assert not is_free
        go_on.set()
        second.join(DEADLINE_S)
        first.join(DEADLINE_S)

    assert is_free


# Signals.


def test_a_signal_handler_that_closes_amid_a_call_is_told_what_to_do_and_hangs_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sender = Sender(conf(NOWHERE, close_flush_timeout_millis=0))

    def handler(number: int, frame: FrameType | None) -> None:
        sender.close()

    before = signal.signal(signal.SIGUSR1, handler)
    append = sender._spool.append

    def interrupted(parts: list[bytes]) -> int:
        signal.raise_signal(signal.SIGUSR1)
        return append(parts)

    monkeypatch.setattr(sender._spool, "append", interrupted)
    try:
        sender.append("t", 1)
        with pytest.raises(SenderBusy, match="signal handler"):
            sender.flush()
    finally:
        signal.signal(signal.SIGUSR1, before)
        monkeypatch.undo()
    assert sender.flush() == 0  # nothing was changed
    sender.close()


# Forks.


def test_a_child_keeps_no_slot_when_its_parent_is_gone(tmp_path: Path) -> None:
    """A producer that is killed while a worker of its lives on."""
    told, tell = os.pipe()
    may_end, let_end = os.pipe()
    parent = os.fork()
    if not parent:
        sender = Sender(conf(NOWHERE, sf_dir=tmp_path))
        worker = os.fork()
        if not worker:
            os.close(let_end)
            try:
                sender.status()
            except Closed:
                os.write(tell, b"1")
            os.read(may_end, 1)
            os._exit(0)
        os.close(let_end)
        os.waitpid(worker, 0)
        os._exit(0)
    os.close(may_end)
    try:
        assert os.read(told, 1) == b"1"
        os.kill(parent, signal.SIGKILL)
        os.waitpid(parent, 0)

        Slot.open(OsFilesystem(), str(tmp_path / "default")).release()
    finally:
        for number in (told, tell, let_end):
            os.close(number)


# Beginnings.


def test_a_sender_that_could_not_start_leaves_its_slot_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = conf(NOWHERE, sf_dir=tmp_path, close_flush_timeout_millis=0)

    def failing(self: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(senders.DeliveryLoop, "start", failing)
    with pytest.raises(RuntimeError, match="new thread"):
        Sender(text)
    monkeypatch.undo()

    Sender(text).close()


# Trouble that lasts.


class Shipping(logging.Handler):
    """Sends what is logged through the sender it is about."""

    def __init__(self, sender: Sender) -> None:
        super().__init__()
        self._sender = sender
        self.is_reached = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.is_reached.set()
        self._sender.append("log", record.getMessage())


def test_nothing_is_logged_while_others_are_kept_out() -> None:
    """A handler that sends rows would wait for its own sender."""
    fs = MemoryFilesystem()
    text = conf(
        NOWHERE,
        sf_dir="/spool",
        auto_flush="on",
        auto_flush_rows=2,
        auto_flush_interval=1,
        close_flush_timeout_millis=0,
    )
    clock = FakeClock()
    sender = Sender(text, fs=fs, clock=clock)
    shipping = Shipping(sender)
    log = logging.getLogger("penstock.sender")
    sender.append("t", 1)
    fs.capacity_bytes = 0
    log.addHandler(shipping)
    try:
        sender.append("t", 2)
        clock.advance(1)

        assert shipping.is_reached.wait(DEADLINE_S)
        assert sender._lock.acquire(timeout=DEADLINE_S)
        sender._lock.release()
    finally:
        log.removeHandler(shipping)
        fs.capacity_bytes = None
        sender.close()


def test_a_full_disk_is_told_seldom(caplog: pytest.LogCaptureFixture) -> None:
    def complaints() -> list[str]:
        return [one for one in caplog.messages if "rows stay in memory" in one]

    fs, clock = MemoryFilesystem(), FakeClock()
    text = conf(
        NOWHERE,
        sf_dir="/spool",
        auto_flush="on",
        auto_flush_interval=100,
        close_flush_timeout_millis=0,
    )
    with Sender(text, fs=fs, clock=clock) as sender, Sink() as idle:
        fs.capacity_bytes = 0
        sender.append("t", 1)
        started_s = clock.monotonic()
        with Ticking(clock, 100):
            idle.wait_for(lambda: clock.monotonic() - started_s > 600 and len(complaints()) >= 2)
        elapsed_s = clock.monotonic() - started_s
        fs.capacity_bytes = None

    told = complaints()
    assert 2 <= len(told) <= 10 + elapsed_s / 300
    assert "No space left" in told[0]


def test_an_outage_is_told_seldom_and_so_is_its_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def lines(what: str) -> list[str]:
        return [one for one in caplog.messages if "slot 'till-1'" in one and what in one]

    def outages() -> list[str]:
        return lines("no connection since")

    clock, port = FakeClock(), free_port()
    text = conf(
        f"127.0.0.1:{port}", sf_dir=tmp_path, sender_id="till-1", reconnect_max_backoff_millis=5000
    )
    with Sender(text, clock=clock) as sender:
        sender.append("t", 1)
        sender.flush()
        started_s = clock.monotonic()
        with Sink() as idle, Ticking(clock, 1000):
            idle.wait_for(lambda: clock.monotonic() - started_s > 3600 and len(outages()) >= 8)
            idle.wait_for(lambda: sender.status().calls_unanswered > 100)
            away = sender.status()
        with Sink(port=port), Ticking(clock, 1000):
            assert sender.drain(1_000_000)
            back = sender.status()
        elapsed_s = clock.monotonic() - started_s

    assert 8 <= len(outages()) <= 10 + elapsed_s / 300
    assert "unacknowledged frames: 1," in outages()[5]
    (end,) = lines("again after")
    assert f"127.0.0.1:{port}" in end
    assert away.server_away_ms > 3_000_000
    assert away.calls_unanswered > 100
    assert "refused" in away.trouble
    assert (back.server_away_ms, back.calls_unanswered, back.trouble) == (0, 0, "")
    assert away.spool_bytes_max == 10 << 30


def test_a_server_that_takes_connections_and_nothing_else_is_an_outage_that_is_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_throttle, "_FIRST_S", 3600.0)

    def tired(visit: Visit) -> None:
        visit.take()
        visit.reply(close=1013)

    with (
        Sink(tired, tired, tired, tired, take_all) as sink,
        Sender(conf(sink, sender_id="till-2")) as sender,
    ):
        sender.append("t", 1)
        assert sender.drain(DEADLINE_S)

    lines = [one for one in caplog.messages if one.startswith("slot 'till-2'")]
    assert len([one for one in lines if "no connection since" in one]) == 1
    assert len([one for one in lines if "again after" in one]) == 1


# Bounds.


def test_rows_of_ever_new_topics_are_bounded_too() -> None:
    text = conf(NOWHERE, **FULL, sf_append_deadline_millis=1, close_flush_timeout_millis=0)
    sender = Sender(text)

    with pytest.raises(Backpressure):  # noqa: PT012
        for number in range(100_000):
            sender.append(f"t{number}", "x" * 50_000)
    waiting = sum(draft.size for draft in sender._pending.values())

    assert waiting == sender._waiting_bytes
    assert 7 << 20 < waiting <= 9 << 20
    with pytest.raises(Backpressure, match="LOST"):
        sender.close()


def test_a_batch_that_is_taken_in_part_says_how_much() -> None:
    text = conf(NOWHERE, **FULL, sf_append_deadline_millis=1, close_flush_timeout_millis=0)
    sender = Sender(text)

    with pytest.raises(Backpressure) as caught:
        sender.append_batch("t", ["x" * 20_000] * 30)
    taken = caught.value.rows_taken

    assert 0 < taken < 30
    assert sender.status().counters.rows_appended == taken
    with pytest.raises(Backpressure):
        sender.close()
