"""Frames of one task on their way, against servers that do whatever a test says."""

from __future__ import annotations

import pytest

from penstock.clock import SystemClock
from penstock.errors import ConnectionFailed, InvalidArgument, ServerError, Unauthorized
from penstock.spark.connection import SinkConnection, WriteRefused, connect_options
from penstock.wire.sender_protocol import parcel_head
from penstock.wire.spool_frame import encode_frame
from tests.support.sink import (
    DEADLINE_S,
    DURABLE,
    INTERNAL,
    OK,
    SCHEMA,
    WRITE,
    Sink,
    Visit,
    free_port,
)

ENABLED = {"x-penstock-durable-ack": "enabled"}
WHO = bytes(range(16))


def link_to(address: str, *, first_fsn: int = 100, timeout_s: float = DEADLINE_S) -> SinkConnection:
    return SinkConnection(
        connect_options(f"http://{address}", "t", "spark-1"), WHO, first_fsn, timeout_s=timeout_s
    )


def send(link: SinkConnection, *numbers: int) -> None:
    for number in numbers:
        row = b"%d" % number
        text = len(row).to_bytes(4, "little") + bytes(8) + row
        link.send(encode_frame(number, parcel_head("t", 1) + text))


def send_all(link: SinkConnection, *numbers: int) -> None:
    send(link, *numbers)
    link.finish()


def durable(visit: Visit) -> None:
    """A server that is well and syncs each frame."""
    while True:
        visit.keep(visit.take())
        count = len(visit.taken) - 1
        visit.reply((OK, count), (DURABLE, count))


def test_all_is_done_when_all_is_synced() -> None:
    with Sink(durable, headers=ENABLED) as sink, link_to(sink.addr) as link:
        send(link, 100, 101, 102)

        link.finish()

        assert [frame.fsn for frame in sink.kept] == [100, 101, 102]
        assert {frame.incarnation for frame in sink.kept} == {WHO.hex()}
        assert sink.visits[0].headers["Authorization"] == "Bearer t"
        assert link.next_fsn == 103


def test_a_write_that_is_only_taken_is_not_done() -> None:
    def taken_then_gone(visit: Visit) -> None:
        visit.take()
        visit.ok()

    with Sink(taken_then_gone, durable, headers=ENABLED) as sink, link_to(sink.addr) as link:
        send(link, 100)

        link.finish()

        assert len(sink.visits) == 2, "sent again: no sync was told"


def test_what_is_not_acknowledged_is_sent_again_from_there() -> None:
    def half(visit: Visit) -> None:
        visit.keep(visit.take())
        visit.reply((OK, 0), (DURABLE, 0))
        visit.take()

    with Sink(half, durable, headers=ENABLED) as sink, link_to(sink.addr) as link:
        send(link, 100, 101, 102)

        link.finish()

        assert [frame.fsn for frame in sink.kept] == [100, 101, 102]
        assert sink.visits[-1].first_fsn in (101, 100)


def test_a_full_server_is_asked_again() -> None:
    def full(visit: Visit) -> None:
        visit.take()
        visit.reply((WRITE, 0, "no room"), close=1000)

    with Sink(full, full, durable, headers=ENABLED) as sink, link_to(sink.addr) as link:
        send(link, 100)

        link.finish()

        assert [frame.fsn for frame in sink.kept] == [100]


@pytest.mark.parametrize(
    ("status", "text", "error", "why"),
    [
        (SCHEMA, "payload is not valid JSON", WriteRefused, "not valid JSON"),
        (SCHEMA, "run 3 comes again with other rows", WriteRefused, "same partitions"),
        (INTERNAL, "a bug", ServerError, "a bug"),
    ],
)
def test_a_refusal_ends_the_task_with_the_servers_words(
    status: int, text: str, error: type[Exception], why: str
) -> None:
    def refusing(visit: Visit) -> None:
        visit.take()
        visit.reply((status, 0, text), close=1000)
        visit.until_gone()

    with (
        Sink(refusing, headers=ENABLED) as sink,
        link_to(sink.addr) as link,
        pytest.raises(error, match=why),
    ):
        send_all(link, 100)


def test_a_server_that_is_away_is_given_up_after_a_while() -> None:
    with (
        link_to(f"127.0.0.1:{free_port()}", timeout_s=0.3) as link,
        pytest.raises(ConnectionFailed, match="timeoutMs"),
    ):
        send(link, 100)


def test_rows_that_are_long_in_coming_are_not_the_servers_fault() -> None:
    """It may have ended the connection meanwhile: the wait is counted from the next frame on."""

    class Later(SystemClock):
        hours = 0

        def monotonic(self) -> float:
            return super().monotonic() + 3600.0 * self.hours

    clock = Later()

    def once(visit: Visit) -> None:
        visit.keep(visit.take())

    with Sink(once, durable, headers=ENABLED) as sink:
        profile = connect_options(f"http://{sink.addr}", "", "spark-1")
        with SinkConnection(profile, WHO, 100, timeout_s=DEADLINE_S, clock=clock) as link:
            send(link, 100)
            sink.wait_for(lambda: sink.kept)
            clock.hours = 1

            send_all(link, 101)

    assert [frame.fsn for frame in sink.kept] == [100, 101]


def test_a_server_that_hears_and_says_nothing_is_given_up_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.spark.connection._PING_S", 0.2)
    with (
        Sink(Visit.until_gone, headers=ENABLED) as sink,
        link_to(sink.addr, timeout_s=0.3) as link,
        pytest.raises(ConnectionFailed, match="no acknowledgement"),
    ):
        send_all(link, 100)


@pytest.mark.parametrize(
    ("status", "why"), [(401, "credentials"), (101, "no durable acknowledgement")]
)
def test_a_server_that_is_not_meant_is_not_asked_again(status: int, why: str) -> None:
    with (
        Sink(Visit.until_gone, status=status) as sink,
        link_to(sink.addr) as link,
        pytest.raises(Unauthorized, match=why),
    ):
        send(link, 100)


def test_a_server_with_a_small_body_limit_is_named_with_its_cure() -> None:
    small = ENABLED | {"x-penstock-frame-bytes-max": "10"}
    with (
        Sink(durable, headers=small) as sink,
        link_to(sink.addr) as link,
        pytest.raises(WriteRefused, match="PENSTOCK_MAX_BODY_BYTES"),
    ):
        send(link, 100)


def test_a_url_with_a_path_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="path"):
        connect_options("http://127.0.0.1/a", "", "x")
