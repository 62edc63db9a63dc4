"""What a producer holds: rows in, frames out, by themselves or when asked, from many threads."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import Closed, InvalidArgument, RecordTooLarge, SlotInUse
from penstock.sender.connect_string import parse, settings_of
from penstock.sender.orphans import Orphans
from penstock.sender.sender import Sender
from penstock.testing import FakeClock
from tests.support.serving import eventually
from tests.support.sink import DEADLINE_S, Sink, conf, free_port

NOWHERE = f"127.0.0.1:{free_port()}"
FORGET = {"close_flush_timeout_millis": 0}


def alone(**keys: object) -> Sender:
    """A sender without a server."""
    return Sender(conf(NOWHERE, **FORGET | keys))


def test_rows_of_one_flush_share_a_frame_for_each_topic() -> None:
    with Sink() as sink, Sender(conf(sink)) as sender:
        for number in range(3):
            sender.append("a", number)
            sender.append("b", {"n": number})
        assert sender.published_fsn == -1
        assert sender.flush() == 1

        assert sender.drain(DEADLINE_S)
        assert [(frame.topic, frame.rows) for frame in sink.kept] == [
            ("a", [b"0", b"1", b"2"]),
            ("b", [b'{"n":0}', b'{"n":1}', b'{"n":2}']),
        ]
        assert sender.flush() == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda sender: sender.append("", 1),
        lambda sender: sender.append("a b", 1),
        lambda sender: sender.append("_own", 1),
        lambda sender: sender.append(7, 1),
        lambda sender: sender.append("t", object()),
        lambda sender: sender.append("t", b"{oops"),
        lambda sender: sender.append("t", 1, tag=""),
        lambda sender: sender.append_batch("t", "text"),
        lambda sender: sender.append_batch("t", [1, b"{oops"]),
        lambda sender: sender.append_batch("a b", [1]),
    ],
)
def test_a_row_that_is_wrong_is_not_taken(call: Any) -> None:
    with Sink() as sink, Sender(conf(sink)) as sender:
        sender.append("t", "before")
        with pytest.raises(InvalidArgument):
            call(sender)
        sender.append("t", "after")

        assert sender.drain(DEADLINE_S)
        assert sink.rows() == [b'"before"', b'"after"']


# Frames that fit.


@pytest.mark.parametrize("auto", ["auto_flush=off", "auto_flush_bytes=off;auto_flush_rows=off"])
def test_rows_are_cut_into_frames_that_fit_a_segment(auto: str) -> None:
    text = conf(NOWHERE, **FORGET, sf_max_segment_bytes="64k").replace("auto_flush=off", auto)
    with Sender(text) as sender:
        for number in range(30):
            sender.append("t", f"{number}" + "x" * 9000)
        sender.append_batch("t", ["x" * 9000] * 30)

        assert sender.flush() >= 8


def test_many_large_rows_at_once_are_cut_into_frames() -> None:
    rows = [b'"%05d' % number + b"x" * 100_000 + b'"' for number in range(60)]
    with Sink() as sink, Sender(conf(sink)) as sender:
        sender.append_batch("t", rows)

        assert sender.drain(DEADLINE_S)
        assert sink.rows() == rows
        assert max(len(frame.payload) for frame in sink.kept) < 2 << 20


def test_the_smallest_segments_carry_rows(tmp_path: Path) -> None:
    rows = [b'"%05d' % number + b"x" * 1000 + b'"' for number in range(200)]
    with Sink() as sink, Sender(conf(sink, sf_dir=tmp_path, sf_max_segment_bytes="4k")) as sender:
        for row in rows:
            sender.append("t", row)

        assert sender.drain(DEADLINE_S)
        assert sink.rows() == rows


def test_a_row_that_fits_no_frame_is_refused_and_stops_nobody() -> None:
    with Sink() as sink, Sender(conf(sink, sf_max_segment_bytes="64k")) as sender:
        sender.append("t", "before")
        with pytest.raises(RecordTooLarge):
            sender.append("t", "x" * 70_000)
        with pytest.raises(RecordTooLarge):
            sender.append_batch("t", [1, "x" * 70_000])

        assert sender.drain(DEADLINE_S)
        assert sink.rows() == [b'"before"']


def test_the_largest_row_fits() -> None:
    with Sink() as sink, Sender(conf(sink)) as sender:
        row = b'"' + b"x" * ((1 << 20) - 2) + b'"'
        sender.append("t", row)
        sender.append("t", row)

        assert sender.drain(DEADLINE_S)
        assert sink.rows() == [row, row]


# By themselves.


def test_rows_flush_when_there_are_enough() -> None:
    with alone(auto_flush="on", auto_flush_rows=3, auto_flush_interval="off") as sender:
        sender.append("t", 1)
        sender.append("t", 2)
        assert sender.published_fsn == -1
        sender.append("t", 3)
        assert sender.published_fsn == 0
        sender.append_batch("t", [1, 2, 3, 4])
        assert sender.published_fsn == 1


def test_rows_flush_when_they_are_large_enough() -> None:
    keys = {"auto_flush_rows": "off", "auto_flush_interval": "off", "auto_flush_bytes": 1000}
    with alone(auto_flush="on", **keys) as sender:
        sender.append("t", "x" * 500)
        assert sender.published_fsn == -1
        sender.append("t", "x" * 500)
        assert sender.published_fsn == 0


def test_rows_flush_when_they_have_waited_long_enough() -> None:
    """Nobody calls: a real timer does. Each row starts it once."""
    clock = FakeClock()
    keys = FORGET | {"auto_flush": "on", "auto_flush_interval": 1000}
    with Sink() as sink, Sender(conf(sink, **keys), clock=clock) as sender:
        for number in range(3):
            sender.append("t", number)
            clock.advance(900)
            sender.append("u", number)
            assert sender.published_fsn == 2 * number - 1
            while sender.published_fsn < 2 * number + 1:
                clock.advance(10)
                threading.Event().wait(0.001)
            sink.wait_for(lambda: len(sink.rows()) == 2 * number + 2)  # noqa: B023 - waits here


def test_rows_flush_by_the_clock_of_the_machine() -> None:
    with Sink() as sink, Sender(conf(sink, auto_flush="on", auto_flush_interval=10)) as sender:
        sender.append("t", 1)

        sink.wait_for(lambda: sink.rows() == [b"1"])


def test_without_an_automatism_nothing_flushes() -> None:
    with alone() as sender:
        sender.append_batch("t", list(range(5000)))

        assert sender.published_fsn == -1


# Threads.


def test_many_threads_lose_nothing_and_keep_their_order() -> None:
    def produce(sender: Sender, name: int) -> None:
        for number in range(200):
            sender.append("t", [name, number])
            if number % (name + 3) == 0:
                sender.flush()

    keys = {"auto_flush": "on", "auto_flush_rows": 50, "auto_flush_interval": 1}
    with Sink() as sink, Sender(conf(sink, **keys)) as sender:
        threads = [threading.Thread(target=produce, args=(sender, name)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sender.drain(DEADLINE_S)

        rows = sink.rows()
        assert len(rows) == 1600
        for name in range(8):
            own = [row for row in rows if row.startswith(b"[%d," % name)]
            assert own == [b"[%d,%d]" % (name, number) for number in range(200)]
        assert sender.status().counters.rows_appended == 1600


def test_no_thread_is_left_behind() -> None:
    before = set(threading.enumerate())
    with alone() as sender:
        sender.append("t", 1)

    eventually(lambda: set(threading.enumerate()) <= before, "the end of all threads", DEADLINE_S)


# Ends.


def test_a_closed_sender_takes_nothing() -> None:
    sender = alone()
    sender.close()

    for call in (
        lambda: sender.append("t", 1),
        lambda: sender.append_batch("t", [1]),
        lambda: sender.flush(),
        lambda: sender.drain(),
    ):
        with pytest.raises(Closed):
            call()


def test_a_slot_has_one_sender_and_frees_it_with_its_close(tmp_path: Path) -> None:
    with alone(sf_dir=tmp_path):
        with pytest.raises(SlotInUse):
            alone(sf_dir=tmp_path)
        alone(sf_dir=tmp_path, sender_id="other").close()
    alone(sf_dir=tmp_path).close()


def test_a_slot_is_free_after_a_close_whatever_a_silent_host_does(tmp_path: Path) -> None:
    """A call to it may take its time; the sender's end does not wait for that."""
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes a connection, says nothing
        addr = f"127.0.0.1:{silent.getsockname()[1]}"
        sender = Sender(conf(addr, sf_dir=tmp_path, auth_timeout_ms=30_000, **FORGET))
        caller, _ = silent.accept()
        with caller:
            sender.append("t", 1)
            sender.close()
            with Sink() as sink, Sender(conf(sink, sf_dir=tmp_path)) as other:
                assert other.drain(DEADLINE_S)
                assert sink.rows() == [b"1"]
    sender._delivery_loop._thread.join(DEADLINE_S)  # what it logs belongs to this test


def test_topics_that_are_named_once_are_forgotten() -> None:
    with alone() as sender:
        sender.append("kept", 0)
        for number in range(1000):
            sender.append(f"t{number}", 1)
            if number % 100 == 99:
                sender.flush()
            if number == 50:
                sender.append("kept", 1)
        assert len(sender._pending) < 400
        sender.append("t1", 2)
        assert sender.flush() == 1001  # with `kept` once


def test_flushed_frames_are_those_of_this_run(tmp_path: Path) -> None:
    with alone(sf_dir=tmp_path) as sender:
        sender.append("t", 1)
        sender.flush()
        assert sender.status().counters.frames_flushed == 1
    with alone(sf_dir=tmp_path) as sender:
        assert sender.status().counters.frames_flushed == 0
        sender.append("t", 2)
        assert sender.flush() == 1
        assert sender.status().counters.frames_flushed == 1


def test_a_connect_string_that_is_wrong_takes_no_slot(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument):
        Sender(f"ws::addr=h:1;sf_dir={tmp_path};nope=1;")

    assert not list(tmp_path.iterdir())


def test_a_drain_without_a_server_comes_back_in_time() -> None:
    with alone() as sender:
        sender.append("t", 1)

        assert not sender.drain(0)
        assert not sender.drain(0.01)
        assert (sender.published_fsn, sender.acked_fsn) == (0, -1)


def test_trouble_with_the_slots_of_others_does_not_end_maintenance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: Orphans) -> float | None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(Orphans, "check", broken)
    with Sink() as sink, Sender(conf(sink, auto_flush="on", auto_flush_interval=20)) as sender:
        sink.wait_for(lambda: "the check for orphaned slots failed" in caplog.text)
        sender.append("t", "by the timer")

        sink.wait_for(lambda: sink.rows() == [b'"by the timer"'])


def test_a_relative_folder_is_the_one_it_was_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    settings = settings_of(parse("ws::addr=h;sf_dir=spool;"))

    assert settings.sf_dir == str(tmp_path / "spool")
    assert settings_of(parse("ws::addr=h;")).sf_dir is None
