"""Watch sessions over HTTP: who may open what, where it begins, and how it is rewound."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.limits import WATCH_TOPICS_MAX
from penstock.server import last_event_id
from penstock.server.watch_sessions import SESSION_TTL_MS
from tests.unit.server.support import Answer, FakeStream, Site, on_loop

KEYS = "boss,reader:read,eu:rw:eu."


async def watched(site: Site, topics: dict[str, Any], **given_: Any) -> str:
    answer = await site.call("POST", "/v0/watch", {"topics": topics}, **given_)
    assert answer.status == 200, answer
    return str(answer.json["wid"])


def stream_answer(site: Site, wid: str, **given_: Any) -> int:
    """The status of opening the stream; 200 when it opened."""
    exchange = site.send("GET", f"/v0/watch/{wid}", **given_)
    return 200 if exchange.stream is not None else exchange.responses[0].status


def leave(stream: FakeStream) -> None:
    assert stream.on_close is not None
    stream.on_close()


# Creating.


@on_loop
async def test_a_session_tells_where_each_topic_begins() -> None:
    site = Site()
    for topic in "ab":
        site.log.append(topic, [1, 2, 3])

    answer = await site.call(
        "POST", "/v0/watch", {"topics": {"a": {"from_seq": 1}, "b": {"tail": True, "odd": 1}}}
    )

    body = answer.json
    assert body["wid"].startswith("wid_")
    assert len(body["wid"]) == 26
    assert body["stream_url"] == f"/v0/watch/{body['wid']}"
    assert body["session_ttl_ms"] == 300_000
    places = {name: (at["from_seq"], at["head_seq"]) for name, at in body["topics"].items()}
    assert places == {"a": (1, 3), "b": (3, 3)}


@pytest.mark.parametrize(
    "topics",
    [
        {},
        {f"t{n}": {} for n in range(WATCH_TOPICS_MAX + 1)},
        {"a": {"from_seq": -1}},
        {"a": {"from_seq": 2**64}},
        {"a": {"tag": 5}},
        {"a": 5},
        ["a"],
    ],
    ids=lambda value: str(value)[:20],
)
@on_loop
async def test_what_is_no_watch_is_refused(topics: Any) -> None:
    site = Site()
    site.log.create("a")

    answer = await site.call("POST", "/v0/watch", {"topics": topics})

    assert (answer.status, answer.code) == (400, "invalid_request")


@on_loop
async def test_an_unknown_topic_is_an_error_unless_told_otherwise() -> None:
    site = Site()
    site.log.append("a", [1])
    body = {"topics": {"a": {}, "none": {}}}

    strict = await site.call("POST", "/v0/watch", body)
    lenient = await site.call("POST", "/v0/watch?lenient=true", body)

    assert (strict.status, strict.detail) == (404, {"topic": "none"})
    assert list(lenient.json["topics"]) == ["a"]


@on_loop
async def test_one_name_that_is_not_allowed_refuses_all() -> None:
    site = Site(api_keys=KEYS)
    for topic in ("eu.a", "us.a"):
        site.log.append(topic, [1])

    answer = await site.call("POST", "/v0/watch", {"topics": {"eu.a": {}, "us.a": {}}}, token="eu")
    pattern = await site.call("POST", "/v0/watch", {"topics": {"*": {}}}, token="eu")

    assert (answer.status, answer.detail) == (403, {"topic": "us.a"})
    assert list(pattern.json["topics"]) == ["eu.a"]


@pytest.mark.parametrize("name", ["_batches", "_*"])
@on_loop
async def test_nobody_can_watch_what_the_log_keeps_for_itself(name: str) -> None:
    site = Site()
    site.log.append_many([("a", [1])])

    answer = await site.call("POST", "/v0/watch?lenient=1", {"topics": {name: {}}})

    assert answer.json["topics"] == {}


@on_loop
async def test_only_so_many_sessions_are_kept() -> None:
    site = Site(max_watch_sessions=2)
    site.log.create("a")
    first = await watched(site, {"a": {}})
    await watched(site, {"a": {}})

    refused = await site.call("POST", "/v0/watch", {"topics": {"a": {}}})
    site.clock.advance(SESSION_TTL_MS + 1)

    assert (refused.status, refused.detail) == (429, {"limit": "max_watch_sessions", "max": 2})
    await watched(site, {"a": {}})
    assert stream_answer(site, first) == 404


# Opening.


@on_loop
async def test_a_stream_is_opened_by_the_key_that_made_its_session() -> None:
    site = Site(api_keys=KEYS)
    site.log.create("a")
    wid = await watched(site, {"a": {}}, token="reader")

    assert stream_answer(site, wid) == 401
    assert stream_answer(site, wid, token="boss") == 401
    assert stream_answer(site, wid, token="wrong") == 401
    assert stream_answer(site, wid, token="reader") == 200
    assert stream_answer(site, "wid_none", token="reader") == 404
    assert stream_answer(site, "wid_none") == 404


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        (b"", 200),
        (b"text/event-stream", 200),
        (b"text/html, */*;q=0.1", 200),
        (b"application/json", 406),
        (b"text/html", 406),
    ],
)
@on_loop
async def test_a_stream_is_for_who_accepts_one(accept: bytes, status: int) -> None:
    site = Site()
    site.log.create("a")
    wid = await watched(site, {"a": {}})

    assert stream_answer(site, wid, headers={b"accept": accept}) == status
    assert stream_answer(site, "wid_none", headers={b"accept": accept}) == (404, 406)[status == 406]


@on_loop
async def test_a_stream_has_the_headers_that_keep_it_flowing() -> None:
    site = Site()
    site.log.create("a")
    wid = await watched(site, {"a": {}})

    exchange = site.send("GET", f"/v0/watch/{wid}")

    assert exchange.stream_headers == {
        b"content-type": b"text/event-stream",
        b"cache-control": b"no-store",
        b"x-accel-buffering": b"no",
    }


@on_loop
async def test_a_session_lives_while_it_is_streamed_and_a_while_longer() -> None:
    site = Site()
    site.log.create("a")
    wid = await watched(site, {"a": {}})
    stream = site.reopen(wid)
    site.clock.advance(SESSION_TTL_MS * 3)
    leave(stream)
    site.clock.advance(SESSION_TTL_MS)

    stream = site.reopen(wid)
    leave(stream)
    site.clock.advance(SESSION_TTL_MS + 1)

    assert stream_answer(site, wid) == 404


# Rewinding.


@given(
    stored=st.integers(0, 10),
    said=st.integers(-3, 20) | st.none(),
    other=st.dictionaries(st.text("xyz", max_size=2), st.integers(-5, 50), max_size=3),
)
@on_loop
async def test_an_id_rewinds_and_never_skips(
    stored: int, said: int | None, other: dict[str, int]
) -> None:
    site = Site()
    site.log.append("a", list(range(10)))
    wid = await watched(site, {"a": {"from_seq": stored}})
    known = other if said is None else {**other, "a": said}

    stream = site.reopen(wid, headers={b"last-event-id": last_event_id.cursor_id(known)})

    start = min(stored, said) if said is not None and said >= 0 else stored
    first = b'"from_seq":%d,' % start
    assert (first in stream.text) is (start < 10)
    leave(stream)
    await site.close()


@pytest.mark.parametrize("text", [b"", b"!!!", b"bm8ganNvbg", b"W10", b"eyJhIjoiMSJ9", b"\xff"])
@on_loop
async def test_an_id_that_cannot_be_read_is_ignored(text: bytes) -> None:
    site = Site()
    site.log.append("a", [1, 2])
    wid = await watched(site, {"a": {"from_seq": 1}})

    stream = site.reopen(wid, headers={b"last-event-id": text})

    assert b'"from_seq":1,' in stream.text


# Counting.


@on_loop
async def test_a_stream_that_ends_makes_room_for_another() -> None:
    site = Site(max_sse_connections=1)
    for topic in "ab":
        site.log.create(topic)
    first, second = [await watched(site, {topic: {}}) for topic in "ab"]
    stream = site.reopen(first)

    refused = site.send("GET", f"/v0/watch/{second}")
    leave(stream)
    leave(stream)

    assert Answer(refused.responses[0]).code == "throttled"
    assert site.server._open_streams.count == 0
    assert stream_answer(site, second) == 200
