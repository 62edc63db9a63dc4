"""A watch without sockets: what is asked, what is understood, where it goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.client import watching
from penstock.client.answers import WatchGrant
from penstock.client.http import HttpResponse
from penstock.client.watching import SILENCE_S, TOPICS_MAX, SessionForgotten, WatchState
from penstock.errors import Forbidden, InvalidArgument, Overloaded, ServerError
from penstock.types import CaughtUp, Dropped, Gap, Record
from tests.support.wire_texts import event_text


def watcher(topics: Any = "t", **changed: Any) -> WatchState:
    return WatchState(watching.starts_of(topics), source="http://a", **changed)


def asked(one: WatchState) -> Any:
    return json.loads(one.opening().body)["topics"]


def opened(one: WatchState, **topics: int) -> WatchState:
    told = {name: {"from_seq": seq, "epoch": 7} for name, seq in topics.items()}
    one.opening()
    one.opened(WatchGrant("wid_1", "/v0/watch/wid_1", told))
    return one


def event(kind: str, id: str = "", **fields: Any) -> bytes:
    return event_text(kind, json.dumps(fields).encode(), id)


def record_event(topic: str, first: int, *seqs: int, id: str = "") -> bytes:
    records = [{"$seq": seq, "$ts": 1, "$tag": "x", "data": seq} for seq in seqs]
    to = seqs[-1] if seqs else first
    return event("record", id, topic=topic, from_seq=first, to_seq=to, head_seq=to, records=records)


# Opening.


def test_topics_start_where_the_caller_says() -> None:
    assert asked(watcher()) == {"t": {}}
    assert asked(watcher(["a", "b*"])) == {"a": {}, "b*": {}}
    assert asked(watcher({"a": 5, "b": None}, tail=True)) == {
        "a": {"from_seq": 5},
        "b": {"tail": True},
    }
    assert asked(watcher(from_ts=9)) == {"t": {"from_ts": 9}}


def test_filters_travel_with_the_subscription() -> None:
    body = json.loads(watcher(node="me", tag="x*").opening().body)

    assert (body["node"], body["tag"], body["include_tags"]) == ("me", "x*", True)


@pytest.mark.parametrize("topics", [[], {}, "", [""], [7], ["a"] + [f"t{n}" for n in range(256)]])
def test_a_watch_of_nothing_or_of_too_much_is_refused(topics: Any) -> None:
    with pytest.raises(InvalidArgument):
        watching.starts_of(topics)


def test_only_the_first_opening_insists_that_all_topics_exist() -> None:
    one = watcher()

    assert "lenient" not in one.opening().target
    opened(one, t=0)
    assert one.opening().target.endswith("?lenient=true")


# Reading.


def test_events_become_values() -> None:
    one = opened(watcher(["a", "b"]), a=0, b=0)

    items = one.feed(
        b"retry: 2000\n\n: hb\n\n"
        + record_event("a", 0, 1, 2)
        + event(
            "tombstone", topic="b", reason="cap", gap_from=1, gap_to=4, earliest_seq=5, head_seq=9
        )
        + event("caught-up", topic="a", head_seq=2)
        + event("unheard-of", x=1)
        + event("topic-deleted", topic="a", head_seq=0, reason="deleted")
    )

    assert items == [
        ("a", Record(data=1, tag="x", seq=1, ts=1)),
        ("a", Record(data=2, tag="x", seq=2, ts=1)),
        ("b", Gap(1, 4, "cap", 4, 5, 9)),
        ("a", CaughtUp(2)),
        ("a", Dropped()),
    ]


def test_a_watch_ends_when_all_its_topics_are_dropped_and_with_a_pattern_never() -> None:
    gone = event("topic-deleted", topic="t", head_seq=0, reason="deleted")
    plain, wild = opened(watcher(), t=0), opened(watcher(["t", "p*"]), t=0)

    plain.feed(gone)
    wild.feed(gone)

    assert plain.has_ended()
    assert not wild.has_ended()


@pytest.mark.parametrize("number", ["1e999", "1" + "0" * 5000])
def test_numbers_that_only_json_allows_are_read_all_the_same(number: str) -> None:
    text = b'{"topic":"t","from_seq":0,"to_seq":1,"records":[{"$seq":1,"$ts":1,"data":%b}]}'
    one = opened(watcher(), t=0)

    ((_, record),) = one.feed(event_text("record", text % number.encode()))

    assert isinstance(record, Record)
    assert str(record.data) in ("inf", number)


@pytest.mark.parametrize("data", [b"null", b"{", b"[]", b'{"topic":7}', b'{"topic":"\xff"}'])
@pytest.mark.parametrize("kind", ["record", "tombstone", "caught-up", "topic-deleted"])
def test_an_event_that_cannot_be_understood_is_the_server_s_fault(kind: str, data: bytes) -> None:
    with pytest.raises(ServerError, match="http://a"):
        opened(watcher(), t=0).feed(event_text(kind, data))


def test_a_stream_that_ends_because_the_log_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ServerError, match="could not be read"):
        opened(watcher(), t=0).feed(event("error", code="internal", message="could not be read"))


@pytest.mark.parametrize("code", ["server_shutting_down", "replaced"])
def test_a_stream_that_ends_in_order_is_no_error(code: str) -> None:
    assert opened(watcher(), t=0).feed(event("error", code=code, message="bye")) == []


# Going on.


def test_a_broken_stream_goes_on_after_its_last_whole_event() -> None:
    one = opened(watcher(), t=0)
    second = record_event("t", 1, 2, id="two")

    one.feed(record_event("t", 0, 1, id="one") + second[:20])
    one.record_failure()

    assert one.last_id == "one"
    assert one.feed(second) == [("t", Record(data=2, tag="x", seq=2, ts=1))]
    assert one.last_id == "two"


def test_a_forgotten_session_is_asked_for_anew_from_the_seqs_reached() -> None:
    one = opened(watcher({"a": 5, "p*": None}, tail=True), a=5, p1=40)
    one.feed(record_event("a", 5, 6, 8) + record_event("p2", 0, 1))

    error = one.refused(HttpResponse(404, {}, b""))

    assert isinstance(error, SessionForgotten)
    assert one.stream_url is None
    assert asked(one) == {
        "p*": {"tail": True},
        "a": {"from_seq": 8, "epoch": 7},
        "p1": {"from_seq": 40, "epoch": 7},
        "p2": {"from_seq": 1},
    }


def test_a_topic_made_anew_is_not_asked_for_with_its_old_epoch() -> None:
    stone = {"topic": "t", "gap_from": 1, "gap_to": 2, "head_seq": 2, "earliest_seq": 1}
    told, hidden = opened(watcher(), t=9), opened(watcher(), t=9)

    told.feed(event("tombstone", reason="recreated", **stone))
    hidden.feed(event("tombstone", reason="from_seq_too_old", **stone) + record_event("t", 0, 1, 2))

    assert asked(told) == {"t": {"from_seq": 0}}
    assert asked(hidden) == {"t": {"from_seq": 2}}


def test_a_topic_that_was_dropped_while_nobody_watched_is_told() -> None:
    one = opened(watcher(["a", "b", "p*"]), a=0, b=0)
    one.opening()

    items = one.opened(WatchGrant("w", "/w", {"b": {"from_seq": 0}}))

    assert items == [("a", Dropped())]
    assert sorted(asked(one)) == ["b", "p*"]


def test_more_topics_than_fit_are_asked_for_by_their_pattern_and_known_records_left_out() -> None:
    many = {f"p{n}": 3 for n in range(TOPICS_MAX + 10)}
    one = opened(watcher("p*"), **many)

    topics = asked(one)
    last = f"p{TOPICS_MAX + 9}"
    one.opened(WatchGrant("w", "/w", {name: {"from_seq": 0} for name in many}))
    items = one.feed(record_event(last, 0, 2, 3, 4))

    assert len(topics) == TOPICS_MAX
    assert last not in topics
    assert items == [(last, Record(data=4, tag="x", seq=4, ts=1))]


@pytest.mark.parametrize(("status", "kind"), [(403, Forbidden), (429, Overloaded)])
def test_a_refused_stream_is_the_error_it_says(status: int, kind: type[Exception]) -> None:
    assert type(opened(watcher(), t=0).refused(HttpResponse(status, {}, b""))) is kind


# Waiting.


def test_silence_is_borne_for_two_heartbeats_and_no_longer_than_told() -> None:
    patient, short = watcher(), watcher(timeout_s=5.0, now=10.0)

    assert patient.deadline(100.0) == 100.0 + SILENCE_S
    assert short.deadline(10.0) == 15.0
    assert not short.is_idle(14.9)
    assert short.is_idle(15.0)
    assert not patient.is_idle(1e9)


def test_records_renew_patience_and_having_caught_up_does_not() -> None:
    one = watcher(timeout_s=5.0, now=0.0)

    one.restart_timeout(("t", CaughtUp(1)), 4.0)
    assert one.is_idle(5.0)
    one.restart_timeout(("t", Record()), 4.0)
    assert not one.is_idle(8.9)


def test_failures_are_counted_until_bytes_come() -> None:
    one = opened(watcher(), t=0)

    assert [one.record_failure(), one.record_failure()] == [1, 2]
    one.feed(b": hb\n\n")
    assert one.record_failure() == 1


def test_a_connection_lost_before_its_first_event_asks_for_a_new_session() -> None:
    """The server goes on behind what it sent; only an event's id could call it back."""
    one = opened(watcher(), t=0)

    one.record_failure()
    assert one.stream_url is None

    named = opened(watcher(), t=0)
    named.feed(record_event("t", 0, 1, id="here"))
    named.record_failure()
    assert named.stream_url is not None
