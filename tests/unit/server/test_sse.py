"""A watch session as an event stream: what each event says, and what is made only once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from penstock.server import events, sse
from penstock.server.last_event_id import cursors_of
from penstock.server.subscription import Cursor
from penstock.types import JsonPage
from tests.unit.server.support import FakeStream, Site, on_loop, settled, until


def events_in(stream: FakeStream) -> list[tuple[str, dict[str, Any], dict[str, int]]]:
    """(kind, data, cursors) of every event, read as a client would."""
    found = []
    for block in stream.text.decode().split("\n\n"):
        lines = dict(line.partition(": ")[::2] for line in block.split("\n") if line)
        if "event" in lines:
            cursors = cursors_of(lines["id"].encode())
            found.append((lines["event"], json.loads(lines["data"]), cursors))
    return found


def kinds(stream: FakeStream) -> list[str]:
    return [kind for kind, _, _ in events_in(stream)]


@on_loop
async def test_a_stream_begins_with_how_to_come_back_and_then_has_the_backlog() -> None:
    site = Site()
    site.log.append("a", [1, 2])

    stream = await site.stream({"topics": {"a": {}}})

    assert stream.text.startswith(b"retry: 2000\n\nid: ")
    assert events_in(stream) == [
        (
            "record",
            {
                "topic": "a",
                "from_seq": 0,
                "to_seq": 2,
                "head_seq": 2,
                "records": [
                    {"$seq": 1, "$ts": site.clock.now_ms(), "data": 1},
                    {"$seq": 2, "$ts": site.clock.now_ms(), "data": 2},
                ],
            },
            {"a": 2},
        ),
        ("caught-up", {"topic": "a", "head_seq": 2}, {"a": 2}),
    ]


@on_loop
async def test_an_id_names_every_topic_at_the_place_after_its_event() -> None:
    site = Site()
    site.log.append("a", [1])
    site.log.append("b", [1, 2])

    stream = await site.stream({"topics": {"a": {}, "b": {"tail": True}}})
    site.log.append("b", [3])
    await settled()

    ids = [cursors for _, _, cursors in events_in(stream)]
    assert ids == [{"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 1, "b": 3}]


@on_loop
async def test_line_ends_inside_a_payload_do_not_end_an_event() -> None:
    site = Site()
    site.log.append("a", [b'{\n"n":\r\n1,\r"text":"\\n"}'])

    stream = await site.stream({"topics": {"a": {}}})

    assert events_in(stream)[0][1]["records"][0]["data"] == {"n": 1, "text": "\n"}


@on_loop
async def test_the_first_gap_is_a_cursor_too_old_and_later_ones_have_their_reason() -> None:
    site = Site()
    await site.call("PUT", "/v0/topics/a", {"cap_records": 2})
    site.log.append("a", [1, 2, 3])
    stream = await site.stream({"topics": {"a": {}}})
    stream.is_full = True

    site.log.append("a", [4, 5, 6, 7])
    await settled()
    stream.drain()

    gaps = [data for kind, data, _ in events_in(stream) if kind == "tombstone"]
    assert [gap["reason"] for gap in gaps] == ["from_seq_too_old", "cap"]
    assert [(gap["gap_from"], gap["gap_to"]) for gap in gaps] == [(1, 1), (4, 5)]
    places = [cursors["a"] for kind, _, cursors in events_in(stream) if kind == "tombstone"]
    assert places == [1, 5]


@on_loop
async def test_a_dropped_topic_is_final_and_the_stream_ends_with_the_last() -> None:
    site = Site()
    for topic in "ab":
        site.log.append(topic, [1])
    stream = await site.stream({"topics": {"a": {}, "b": {}}})

    site.log.drop("a")
    await settled()
    assert not stream.is_closed
    site.log.drop("b")
    await settled()

    ends = [event for event in events_in(stream) if event[0] == "topic-deleted"]
    assert ends == [
        ("topic-deleted", {"topic": "a", "head_seq": 0, "reason": "deleted"}, {"b": 1}),
        ("topic-deleted", {"topic": "b", "head_seq": 0, "reason": "deleted"}, {}),
    ]
    assert stream.is_closed
    assert len(site.server._watches.streams) == 0


@on_loop
async def test_a_pattern_keeps_its_stream_open_and_brings_in_what_is_made() -> None:
    site = Site()
    stream = await site.stream({"topics": {"log.*": {}}})
    assert stream.text == sse.RETRY

    await site.call("POST", "/v0/topics/log.a", {"records": [{"data": 1}]})
    await until(lambda: "record" in kinds(stream))
    site.log.drop("log.a")
    await settled()

    assert not stream.is_closed
    assert kinds(stream)[-1] == "topic-deleted"


@on_loop
async def test_what_was_made_while_nobody_was_connected_is_there_on_return() -> None:
    site = Site()
    made = await site.call("POST", "/v0/watch", {"topics": {"log.*": {}}})
    await site.call("POST", "/v0/topics/log.a", {"records": [{"data": 1}]})

    stream = site.reopen(made.json["wid"])

    assert [data["topic"] for kind, data, _ in events_in(stream) if kind == "record"] == ["log.a"]


@on_loop
async def test_a_plain_reconnect_goes_on_where_the_last_connection_stopped() -> None:
    site = Site()
    site.log.append("a", [1, 2])
    made = await site.call("POST", "/v0/watch", {"topics": {"a": {}}})
    first = site.reopen(made.json["wid"])
    assert first.on_close is not None
    first.on_close()
    site.log.append("a", [3])

    again = site.reopen(made.json["wid"])

    assert [data["from_seq"] for kind, data, _ in events_in(again) if kind == "record"] == [2]


@on_loop
async def test_a_second_connection_takes_the_session_over() -> None:
    site = Site()
    site.log.append("a", [1])
    made = await site.call("POST", "/v0/watch", {"topics": {"a": {}}})
    first = site.reopen(made.json["wid"])

    second = site.reopen(made.json["wid"])
    site.log.append("a", [2])
    await settled()

    assert events_in(first)[-1][1]["code"] == "replaced"
    assert first.is_closed
    assert "record" in kinds(second)
    assert site.server._open_streams.count == 1


@on_loop
async def test_stopping_tells_every_stream_why() -> None:
    site = Site()
    site.log.append("a", [1])
    streams = [await site.stream({"topics": {"a": {}}}) for _ in range(3)]

    for stream in list(site.server._watches.streams):
        stream.finish("server_shutting_down", "the server is shutting down")

    for stream in streams:
        kind, data, cursors = events_in(stream)[-1]
        assert (kind, data["code"], cursors) == ("error", "server_shutting_down", {"a": 1})
        assert stream.is_closed
    site.log.append("a", [2])
    await settled()


@on_loop
async def test_a_quiet_stream_beats_and_a_full_one_does_not() -> None:
    site = Site(test_min_heartbeat_ms=1)
    site.log.create("a")
    quiet = await site.stream({"topics": {"a": {}}, "heartbeat_ms": 1})
    full = await site.stream({"topics": {"a": {}}, "heartbeat_ms": 1})
    full.is_full = True
    before = full.text

    await until(lambda: quiet.text.count(b": hb\n\n") >= 3)

    assert full.text == before
    for stream in (quiet, full):
        assert stream.on_close is not None
        stream.on_close()
    beats = quiet.text.count(b": hb")
    await asyncio.sleep(0.01)
    assert quiet.text.count(b": hb") == beats, "it stops with its connection"


# Made once.


@on_loop
async def test_an_event_is_made_once_for_all_streams_of_one_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site()
    site.log.create("a")
    streams = [await site.stream({"topics": {"a": {}}}) for _ in range(20)]
    made: list[int] = []
    fields = events.record_fields

    def counted(topic: str, after: int, page: JsonPage) -> bytes:
        made.append(after)
        return fields(topic, after, page)

    monkeypatch.setattr(events, "record_fields", counted)
    for n in range(5):
        site.log.append("a", [n])
        await settled()

    assert made == [0, 1, 2, 3, 4]
    assert len({stream.text for stream in streams}) == 1
    assert kinds(streams[0]) == ["caught-up"] + ["record"] * 5


@on_loop
async def test_streams_of_several_topics_share_what_they_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site()
    for topic in "abc":
        site.log.create(topic)
    pair = [await site.stream({"topics": {"a": {}, "b": {}}}) for _ in range(5)]
    other = await site.stream({"topics": {"a": {}, "c": {}}})
    made: list[int] = []
    fields = events.record_fields
    monkeypatch.setattr(events, "record_fields", lambda *given: (made.append(1), fields(*given))[1])

    site.log.append("a", [1])
    await settled()

    assert len(made) == 1
    assert events_in(pair[0])[-1][2] == {"a": 1, "b": 0}
    assert events_in(other)[-1][2] == {"a": 1, "c": 0}


@on_loop
async def test_two_pages_of_one_place_are_two_events() -> None:
    """One reader has seen a record more than another, from the same place on."""
    site = Site()
    site.log.append("a", [1, 2])
    streams = [await site.stream({"topics": {"a": {"tail": True}}}) for _ in range(3)]
    sinks = sorted(site.server._watches.streams, key=id)
    handle = site.handle("a")
    cursors = [sink.session.cursors["a"] for sink in sinks]
    long = site.service.read_hot(handle, 0, None, cursors[0].wanted)
    short = site.service.read_hot(
        handle, 0, None, type(cursors[0].wanted)(1, 1000, (), None, is_wire=True)
    )
    assert long is not None
    assert short is not None
    for stream in streams:
        stream.written.clear()

    for sink, cursor, page in zip(sinks, cursors, (long, short, long), strict=True):
        cursor.seq = page.next_seq
        sink.record(cursor, 0, page)

    seen = [len(events_in(stream)[0][1]["records"]) for stream in streams]
    assert sorted(seen) == [1, 2, 2]
    for stream in streams:
        _, data, at = events_in(stream)[0]
        assert at["a"] == data["to_seq"] == len(data["records"])


@on_loop
async def test_an_event_for_a_topic_that_was_left_is_not_sent() -> None:
    site = Site()
    site.log.append("a", [1])
    stream = await site.stream({"topics": {"a": {}}})
    (sink,) = site.server._watches.streams
    before = stream.text
    page = site.service.read_hot(site.handle("a"), 0, None, sink.session.cursors["a"].wanted)
    assert page is not None

    sink.record(Cursor("a", 0, 1, sink.session.cursors["a"].wanted), 0, page)

    assert stream.text == before
