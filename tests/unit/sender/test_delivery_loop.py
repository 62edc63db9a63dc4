"""The thread between a spool and a server, on its own. Outages and refusals are in
tests/faults/test_sender_*.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.clock import SystemClock
from penstock.limits import KIB
from penstock.sender import log_throttle
from penstock.sender.connect_string import parse
from penstock.sender.delivery_loop import DeliveryLoop
from penstock.sender.error_inbox import ErrorInbox
from penstock.sender.error_policy import SenderError
from penstock.sender.opening import open_spool
from penstock.sender.settings import SpoolSettings
from penstock.sender.spool import Spool
from penstock.wire.sender_protocol import pack_record, parcel_head
from tests.support.serving import eventually
from tests.support.sink import DEADLINE_S, WRITE, Sink, Visit, conf, free_port, take_all


def append(spool: Spool, *rows: bytes) -> None:
    for row in rows:
        spool.append([parcel_head("t", 1), pack_record(len(row), 0, 0, 0), row])


@pytest.fixture
def spool() -> Spool:
    return open_spool(SpoolSettings())


def courier_of(spool: Spool, text: str, *, has_one_round: bool = False) -> DeliveryLoop:
    delivery_loop = DeliveryLoop(
        spool,
        parse(text),
        SystemClock(),
        ErrorInbox(16, None),
        lambda: 0.5,
        has_one_round=has_one_round,
    )
    delivery_loop.start()
    return delivery_loop


def test_frames_are_sent_as_they_come_and_let_go_when_answered(spool: Spool) -> None:
    with Sink() as sink:
        append(spool, b"1")
        delivery_loop = courier_of(spool, conf(sink))
        assert delivery_loop.wait(lambda: spool.acked_fsn == 0, DEADLINE_S)
        append(spool, b"2", b"3")
        delivery_loop.wake()

        assert delivery_loop.wait(lambda: spool.acked_fsn == 2, DEADLINE_S)
        assert sink.rows() == [b"1", b"2", b"3"]
        assert delivery_loop.host == sink.addr
        assert delivery_loop.outage is None
        delivery_loop.stop(DEADLINE_S)
        assert delivery_loop.is_over


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="only Linux has such threads")
def test_its_thread_takes_the_core_from_nobody_who_wakes_it(spool: Spool) -> None:
    with Sink() as sink:
        delivery_loop = courier_of(spool, conf(sink))
        assert delivery_loop.wait(lambda: bool(delivery_loop.host), DEADLINE_S)

        assert os.sched_getscheduler(delivery_loop._thread.native_id or 0) == os.SCHED_BATCH
        delivery_loop.stop()


def test_what_was_done_with_before_is_not_sent(spool: Spool) -> None:
    append(spool, b"1", b"2", b"3")
    spool.ack(1)
    with Sink() as sink:
        delivery_loop = courier_of(spool, conf(sink))
        assert delivery_loop.wait(lambda: spool.acked_fsn == 2, DEADLINE_S)

        assert [visit.first_fsn for visit in sink.visits] == [2]
        assert sink.rows() == [b"3"]
        delivery_loop.stop()


def test_an_outage_counts_its_attempts_from_its_first_moment(spool: Spool) -> None:
    delivery_loop = courier_of(spool, conf(f"127.0.0.1:{free_port()}"))
    first = delivery_loop.outage
    assert first is not None

    assert delivery_loop.wait(lambda: delivery_loop.outage.attempts >= 3, DEADLINE_S)

    assert delivery_loop.outage is not None
    assert delivery_loop.outage.since_ms == first.since_ms
    assert "refused" in delivery_loop.outage.why
    assert delivery_loop.host == ""
    delivery_loop.stop()


def test_one_round_tries_each_host_once_and_gives_up(spool: Spool) -> None:
    """Even when nobody looks: a second round would be one that was not asked for."""
    with Sink(status=503) as first, Sink(status=421) as second:
        delivery_loop = courier_of(spool, conf(f"{first.addr},{second.addr}"), has_one_round=True)

        assert delivery_loop.wait(lambda: delivery_loop.is_over, DEADLINE_S)
        delivery_loop.stop()

    assert (first.requests, second.requests) == (1, 1)
    assert delivery_loop.outage is not None
    assert delivery_loop.outage.attempts == 2


def test_one_round_is_meant_for_the_first_connection(spool: Spool) -> None:
    with Sink(lambda visit: None) as sink:
        delivery_loop = courier_of(spool, conf(sink), has_one_round=True)
        sink.wait_for(lambda: delivery_loop.counters.connects >= 1)
        sink.status = 503
        sink.wait_for(lambda: sink.requests >= 4)

        assert not delivery_loop.is_over
        delivery_loop.stop()


def test_an_outage_begins_when_a_connection_ends(spool: Spool) -> None:
    with Sink() as sink:
        delivery_loop = courier_of(spool, conf(sink))
        sink.wait_for(lambda: delivery_loop.host)

    assert delivery_loop.wait(
        lambda: delivery_loop.outage is not None and delivery_loop.outage.attempts, DEADLINE_S
    )
    delivery_loop.stop()


def test_no_more_is_under_way_than_the_window(spool: Spool) -> None:
    """A server that does not answer is not sent everything there is."""
    append(spool, *[b'"' + b"x" * 1_000_000 + b'"'] * 30)
    with Sink(Visit.until_gone) as sink:
        delivery_loop = courier_of(spool, conf(sink))
        sink.wait_for(lambda: sink.visits and len(sink.visits[0].taken) == 9)
        sink.wait_for(lambda: delivery_loop.counters.frames_sent >= 9)

        assert delivery_loop.counters.frames_sent == 9
        delivery_loop.stop()
        assert spool.acked_fsn == -1


def test_a_stop_does_not_wait_for_answers(spool: Spool) -> None:
    append(spool, b"1")
    with Sink(Visit.until_gone) as sink:
        delivery_loop = courier_of(spool, conf(sink))
        sink.wait_for(lambda: sink.visits and sink.visits[0].taken)

        delivery_loop.stop(DEADLINE_S)

        assert not delivery_loop._thread.is_alive()
        assert spool.acked_fsn == -1


def test_frames_name_their_incarnation_before_they_come(spool: Spool) -> None:
    append(spool, b"1", b"2")
    with Sink(take_all) as sink:
        delivery_loop = courier_of(spool, conf(sink))
        assert delivery_loop.wait(lambda: spool.acked_fsn == 1, DEADLINE_S)

        assert {frame.incarnation for frame in sink.kept} == {spool.incarnation.hex()}
        delivery_loop.stop()


def test_a_failure_of_its_own_is_not_a_silent_end(spool: Spool) -> None:
    with Sink() as sink:
        delivery_loop = courier_of(spool, conf(sink))
        sink.wait_for(lambda: delivery_loop.host)
        spool.close()
        spool._progress.publish(0, now_ms=1)  # something to send, and nothing to read it from
        delivery_loop.wake()

        assert delivery_loop.wait(lambda: delivery_loop.halted is not None, DEADLINE_S)
        assert delivery_loop.halted is not None
        assert delivery_loop.halted.category == "internal_error"


def test_refused_frames_take_no_more_than_the_spool_may(tmp_path: Path) -> None:
    settings = SpoolSettings(
        sf_dir=str(tmp_path), segment_bytes=64 * KIB, total_bytes_max=128 * KIB
    )
    spool = open_spool(settings)
    told: list[SenderError] = []

    def refuse(visit: Visit) -> None:
        visit.take()
        visit.reply((WRITE, 0, "full"), close=1000)

    with Sink(refuse) as sink:
        delivery_loop = DeliveryLoop(
            spool, parse(conf(sink)), SystemClock(), ErrorInbox(16, told.append), lambda: 0.5
        )
        delivery_loop.start()
        for fsn in range(4):
            append(spool, b'"' + b"x" * 50_000 + b'"')
            delivery_loop.wake()
            sink.wait_for(lambda fsn=fsn: spool.acked_fsn >= fsn or delivery_loop.is_over)
            spool.maintain()
        delivery_loop.stop()
    assert delivery_loop.halted is not None

    assert (spool.dead_letters.count, delivery_loop.counters.frames_rejected) == (3, 4)
    assert "dead-letter folder" in delivery_loop.halted.message
    assert delivery_loop.halted.fsn == 3
    spool.close()


def test_a_frame_that_is_refused_again_and_again_counts_once(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_throttle, "_FIRST_S", 3600.0)
    told: list[SenderError] = []
    visits = 0

    def refuse(visit: Visit) -> None:
        nonlocal visits
        visits += 1
        visit.take()
        visit.reply((WRITE, 0, "full"), close=1000)

    append(spool, b"1")
    with Sink(refuse) as sink:
        text = conf(sink, on_write_error="retry")
        delivery_loop = DeliveryLoop(
            spool, parse(text), SystemClock(), ErrorInbox(16, told.append), lambda: 0.5
        )
        delivery_loop.start()
        sink.wait_for(lambda: visits >= 5)
        delivery_loop.stop()

    assert delivery_loop.counters.frames_rejected == 1
    eventually(lambda: told, "the error, on a thread of its own", DEADLINE_S)
    assert [error.fsn for error in told] == [0]  # and seldom from then on


def test_frames_that_were_lost_are_not_acknowledged(tmp_path: Path) -> None:
    settings = SpoolSettings(sf_dir=str(tmp_path))
    spool = open_spool(settings)
    append(spool, b"1", b'"second"', b"3")
    (segment,) = (tmp_path / "default").glob("*.seg")
    data = bytearray(segment.read_bytes())
    data[data.index(b"second")] ^= 1
    segment.write_bytes(data)

    with Sink() as sink:
        delivery_loop = courier_of(spool, conf(sink))
        assert delivery_loop.wait(lambda: spool.acked_fsn == 2, DEADLINE_S)
        delivery_loop.stop()

    assert sink.rows() == [b"1", b"3"]
    assert delivery_loop.counters.frames_acked == 2
    assert spool.frames_lost == 1
    spool.close()
