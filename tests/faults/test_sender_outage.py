"""R17, away: a server that is absent, slow, elsewhere or gone before it answered."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

import pytest

from penstock.errors import Backpressure, ConnectionFailed, SenderHalted
from penstock.sender.sender import Sender
from penstock.testing import FakeClock
from tests.support.serving import eventually
from tests.support.sink import (
    DEADLINE_S,
    DURABLE,
    OK,
    Sink,
    Ticking,
    Visit,
    conf,
    free_port,
    take_all,
)

SMALL = {"sf_max_segment_bytes": "64k", "sf_max_total_bytes": "128k"}
BIG_ROW = "x" * 20_000  # three to a segment
modes = pytest.mark.parametrize("is_disk", [True, False], ids=["disk", "memory"])


def place(tmp_path: Path, is_disk: bool) -> dict[str, object]:
    return {"sf_dir": tmp_path} if is_disk else {}


def send(sender: Sender, *rows: object) -> None:
    """A frame for each row."""
    for row in rows:
        sender.append("t", row)
        sender.flush()


def fill(sender: Sender) -> int:
    """Flush until there is no more room; how many rows have found some. The clock stands, so a
    flush that has to wait would wait for ever: room is looked at first."""
    count = 0
    while sender._spool.wait_for_room(0, len(BIG_ROW) + 200):
        send(sender, f"{count:05d}{BIG_ROW}")
        count += 1
    return count


def silent(visit: Visit) -> None:
    visit.until_gone()


# An absent server.


@modes
def test_ten_minutes_without_a_server_lose_nothing_and_are_told_as_such(
    tmp_path: Path, is_disk: bool
) -> None:
    clock = FakeClock()
    port = free_port()
    address = f"127.0.0.1:{port}"
    keys = SMALL | place(tmp_path, is_disk) | {"close_flush_timeout_millis": 0}
    keys |= {"reconnect_max_backoff_millis": 60_000, "sf_append_deadline_millis": 600_000}
    with Sender(conf(address, **keys), clock=clock) as sender:
        began_ms = clock.now_ms()
        count = fill(sender)
        assert count >= 4
        with Ticking(clock, 500):
            eventually(lambda: clock.now_ms() - began_ms > 600_000, "ten minutes")
            sender.append("t", "last")
            sender.append("t", BIG_ROW)
            with pytest.raises(Backpressure) as caught:
                sender.flush()

        since = time.strftime("%H:%M:%S", time.localtime(began_ms / 1000))
        told = str(caught.value)
        assert f"no connection since {since}" in told
        assert int(told.split(since)[1].split()[1]) > 5, told
        assert "attempts" in told
        assert caught.value.is_server_away
        assert sender.status().spool_bytes <= 128 * 1024
        assert sender.status().oldest_unacked_ms >= 600_000
        assert sender.status().counters.backpressure_stalls >= 1

        with Sink(port=port) as sink, Ticking(clock, 100):
            assert sender.drain()
        rows = sink.rows()
        assert [row[1:6] for row in rows[:count]] == [b"%05d" % number for number in range(count)]
        assert b'"last"' in rows[count:]
        assert sender.status().oldest_unacked_ms == 0


@modes
def test_rows_that_found_no_room_are_kept_and_come_later(tmp_path: Path, is_disk: bool) -> None:
    port = free_port()
    keys = SMALL | place(tmp_path, is_disk) | {"sf_append_deadline_millis": 1}
    with Sender(conf(f"127.0.0.1:{port}", **keys)) as sender:
        count = fill(sender)
        sender.append("t", BIG_ROW)
        for _ in range(3):
            with pytest.raises(Backpressure, match="no connection since"):
                sender.flush()

        with Sink(port=port) as sink:
            sink.wait_for(lambda: sender.acked_fsn == count - 1)
            eventually(lambda: sender._spool.wait_for_room(0, len(BIG_ROW) + 200), "room")
            assert sender.drain(DEADLINE_S)
        assert len(sink.rows()) == count + 1


def test_a_slow_server_is_told_from_an_absent_one() -> None:
    with (
        Sink(silent) as sink,
        Sender(conf(sink, **SMALL, sf_append_deadline_millis=1)) as sender,
    ):
        sink.wait_for(lambda: sender.status().is_connected)
        fill(sender)
        sender.append("t", BIG_ROW)

        with pytest.raises(Backpressure, match=f"{sink.addr} is slower than this sender") as caught:
            sender.flush()

        assert not caught.value.is_server_away
        assert "no connection" not in str(caught.value)
        with pytest.raises(Backpressure):  # a row that was taken is not lost without a word
            sender.close()


def test_who_waits_for_room_gets_it_although_the_timer_of_rows_is_due() -> None:
    """The thread that makes room is the one that flushes rows in time."""
    clock = FakeClock()
    gate = threading.Event()

    def slow(visit: Visit) -> None:
        for _ in range(1000):
            visit.keep(visit.take())
            gate.wait(DEADLINE_S)
            visit.ok()

    keys = SMALL | {"auto_flush": "on", "auto_flush_bytes": "off", "auto_flush_interval": 1000}
    with Sink(slow) as sink, Sender(conf(sink, **keys), clock=clock) as sender:
        fill(sender)
        sender.append("t", BIG_ROW)
        producer = threading.Thread(target=sender.flush)
        producer.start()
        eventually(lambda: sender.status().counters.backpressure_stalls, "a stall")
        clock.advance(1500)
        threading.Event().wait(0.1)
        gate.set()

        producer.join(DEADLINE_S)
        assert not producer.is_alive()
        clock.advance(60_000)


def test_rows_that_found_no_room_by_themselves_are_tried_again_by_themselves() -> None:
    """Nobody calls: the timer does."""
    gate = threading.Event()

    def slow(visit: Visit) -> None:
        while True:
            visit.keep(visit.take())
            gate.wait(DEADLINE_S)
            visit.ok()

    keys = SMALL | {"auto_flush": "on", "auto_flush_rows": 2, "auto_flush_interval": 50}
    with Sink(slow) as sink, Sender(conf(sink, **keys)) as sender:
        count = fill(sender)
        sender.append_batch("t", [BIG_ROW, BIG_ROW])
        gate.set()

        sink.wait_for(lambda: len(sink.rows()) == count + 2, "rows of a batch without room")


# Ends.


def test_a_server_that_dies_before_it_answers_gets_the_frames_again() -> None:
    def dies(visit: Visit) -> None:
        for _ in range(3):
            visit.keep(visit.take())

    with Sink(dies, dies, take_all) as sink, Sender(conf(sink)) as sender:
        send(sender, *range(5))

        assert sender.drain(DEADLINE_S)
        assert sink.rows() == [b"%d" % number for number in range(5)]
        assert [visit.first_fsn for visit in sink.visits] == [0, 0, 0]
        assert sender.status().counters.frames_replayed >= 3
        assert len({frame.incarnation for visit in sink.visits for frame in visit.taken}) == 1


def test_what_was_answered_is_not_sent_again(tmp_path: Path) -> None:
    def takes_three(visit: Visit) -> None:
        for _ in range(3):
            visit.keep(visit.take())
        visit.ok()
        visit.take()

    with Sink(takes_three, take_all) as sink:
        with Sender(conf(sink, sf_dir=tmp_path)) as sender:
            send(sender, *range(6))
            assert sender.drain(DEADLINE_S)

        assert [visit.first_fsn for visit in sink.visits] == [0, 3]
        assert len(sink.rows()) == 6


@modes
def test_the_next_sender_goes_on_where_the_last_one_ended(tmp_path: Path, is_disk: bool) -> None:
    """On disk. Memory is forgotten, and that is said."""
    keys = place(tmp_path, is_disk) | {"close_flush_timeout_millis": 0}
    address = f"127.0.0.1:{free_port()}"
    with Sender(conf(address, **keys)) as sender:
        send(sender, 0, 1)
        sender.append("t", 2)

    with Sink() as sink, Sender(conf(sink, **keys)) as sender:
        send(sender, 3)
        assert sender.drain(DEADLINE_S)

    rows = [b"0", b"1", b"2", b"3"] if is_disk else [b"3"]
    assert sink.rows() == rows
    assert len({frame.incarnation for frame in sink.kept}) == (2 if is_disk else 1)


@pytest.mark.parametrize("timeout_ms", [0, -1, 30])
@modes
def test_a_close_without_answers_says_what_becomes_of_the_rest(
    tmp_path: Path, is_disk: bool, timeout_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "penstock.sender")
    keys = place(tmp_path, is_disk) | {"close_flush_timeout_millis": timeout_ms}
    with Sink(silent) as sink:
        sender = Sender(conf(sink, **keys))
        send(sender, 0, 1)

        sender.close()
        sender.close()

        told = "stay in the spool" if is_disk else "are LOST"
        assert f"2 frames unacknowledged: they {told}" in caplog.text
        if is_disk:
            with Sender(conf(sink, **keys)) as again:
                assert (again.published_fsn, again.acked_fsn) == (1, -1)


def test_a_close_waits_for_the_answers() -> None:
    def late(visit: Visit) -> None:
        for _ in range(3):
            visit.keep(visit.take())
        threading.Event().wait(0.2)
        visit.ok()
        visit.until_gone()

    with Sink(late) as sink:
        sender = Sender(conf(sink, close_flush_timeout_millis=1000 * int(DEADLINE_S)))
        send(sender, 0, 1, 2)
        sender.close()

        assert sender.acked_fsn == 2


# Several hosts.


def test_a_sender_goes_to_the_host_that_is_there() -> None:
    with Sink() as sink:
        addresses = [f"127.0.0.1:{free_port()}", sink.addr]
        with Sender(conf(*addresses)) as sender:
            send(sender, 0)

            assert sender.drain(DEADLINE_S)
            assert sender.status().host == sink.addr


def test_a_sender_goes_on_with_the_next_host_and_nothing_is_lost() -> None:
    with Sink() as first, Sink() as second, Sender(conf(first, second)) as sender:
        send(sender, 0)
        first.wait_for(lambda: sender.acked_fsn == 0)
        first.close()
        send(sender, 1, 2)

        assert sender.drain(DEADLINE_S)
        assert first.rows() + second.rows() == [b"0", b"1", b"2"]
        assert sender.status().host == second.addr


def test_a_host_that_is_not_the_one_sends_the_sender_on() -> None:
    with (
        Sink(status=421, headers={"X-QuestDB-Role": "REPLICA"}) as replica,
        Sink() as primary,
        Sender(conf(replica, primary)) as sender,
    ):
        send(sender, 0)

        assert sender.drain(DEADLINE_S)
        assert primary.rows() == [b"0"]


def test_who_does_not_want_to_wait_is_told_after_each_host_was_tried() -> None:
    with Sink(status=503) as one, Sink(status=503) as two:
        with pytest.raises(ConnectionFailed):
            Sender(conf(one, two, initial_connect_retry="off"))
        assert (one.requests, two.requests) == (1, 1)


def test_a_first_connection_is_waited_for_no_longer_than_said() -> None:
    keys = {"initial_connect_retry": "sync", "reconnect_max_duration_millis": 30}
    with pytest.raises(ConnectionFailed):
        Sender(conf(f"127.0.0.1:{free_port()}", **keys))


# Durable acknowledgements.


ENABLED = {"x-penstock-durable-ack": "enabled"}


def test_durable_answers_that_are_not_offered_are_refused_loudly() -> None:
    with Sink() as sink, Sender(conf(sink, request_durable_ack="on")) as sender:
        sink.wait_for(lambda: sender.halted)

        with pytest.raises(SenderHalted, match="durable"):
            sender.append("t", 1)
    with Sink() as sink, pytest.raises(SenderHalted, match="durable"):
        Sender(conf(sink, request_durable_ack="on", initial_connect_retry="sync"))


def test_one_host_that_offers_durable_answers_is_enough() -> None:
    with (
        Sink() as plain,
        Sink(lambda visit: durably(visit), headers=ENABLED) as durable,
        Sender(conf(plain, durable, request_durable_ack="on")) as sender,
    ):
        send(sender, 0)

        assert sender.drain(DEADLINE_S)
        assert sender.status().host == durable.addr


def durably(visit: Visit) -> None:
    while True:
        visit.keep(visit.take())
        visit.reply((OK, len(visit.taken) - 1), (DURABLE, len(visit.taken) - 1))


def test_an_answer_alone_lets_nothing_go_when_syncs_are_asked_for() -> None:
    """And while one is awaited the server is kept awake with pings."""
    asked = threading.Event()
    gate = threading.Event()

    def hesitant(visit: Visit) -> None:
        assert visit.headers["x-penstock-durable-ack"] == "on"
        for _ in range(2):
            visit.keep(visit.take())
        visit.ok()
        visit.wait_for_ping()
        asked.set()
        gate.wait(DEADLINE_S)
        visit.reply((DURABLE, 0))
        visit.until_gone()

    keys = {"request_durable_ack": "on", "durable_ack_keepalive_interval_millis": 5}
    with (
        Sink(hesitant, headers=ENABLED) as sink,
        Sender(conf(sink, **keys, close_flush_timeout_millis=0)) as sender,
    ):
        send(sender, 0, 1)
        assert asked.wait(DEADLINE_S)
        assert sender.acked_fsn == -1
        gate.set()

        sink.wait_for(lambda: sender.acked_fsn == 0)
        assert not sender.drain(0.05)


def test_a_sync_does_not_let_go_what_was_not_answered() -> None:
    def hasty(visit: Visit) -> None:
        visit.take()
        visit.take()
        visit.reply((OK, 0), (DURABLE, 1))
        visit.until_gone()

    keys = {"request_durable_ack": "on", "close_flush_timeout_millis": 0}
    with Sink(hasty, headers=ENABLED) as sink, Sender(conf(sink, **keys)) as sender:
        send(sender, 0, 1)

        sink.wait_for(lambda: sender.acked_fsn == 0)
        assert not sender.drain(0.05)


# Damage.


def test_a_frame_that_is_lost_behind_others_does_not_stop_the_rest(tmp_path: Path) -> None:
    """It counts as done with when those before it are, and has not been sent then: so much is
    under way that the sender waits."""

    def all_at_once(visit: Visit) -> None:
        for _ in range(9):
            visit.keep(visit.take())
        visit.ok()
        take_all(visit)

    address = f"127.0.0.1:{free_port()}"
    keys = {"sf_dir": tmp_path, "close_flush_timeout_millis": 0}
    with Sender(conf(address, **keys)) as sender:
        send(sender, *["x" * 1_000_000] * 9, "lost", "found")
    lose(tmp_path / "default", b"lost")

    with Sink(all_at_once) as sink, Sender(conf(sink, sf_dir=tmp_path)) as sender:
        assert sender.damage
        assert sender.drain(DEADLINE_S)
        send(sender, "new")
        assert sender.drain(DEADLINE_S)
        assert sink.rows()[9:] == [b'"found"', b'"new"']


def lose(slot: Path, text: bytes) -> None:
    """Damage the frame with this text."""
    for segment in slot.glob("*.seg"):
        data = bytearray(segment.read_bytes())
        if (at := data.find(text)) >= 0:
            data[at] ^= 1
            segment.write_bytes(data)
            return
    raise AssertionError(f"no frame has {text!r}")
