"""Streams of rows of features: what their readers get, and what they share."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from tests.server.conftest import Start
from tests.server.sse import EventStream
from tests.server.support import Api, api_of, refused

LONG = "x" * 500  # a row of the last 400 has 200 KB


def definition(*, key: str = "rider", **features: Any) -> dict[str, Any]:
    fields = {"rider": "str", "seat": "i64", "note": {"type": "str", "optional": True}}
    return {
        "events": [{"name": "Ride", "topic": "rides", "fields": fields}],
        "tables": [{"name": "Riders", "from": "Ride", "key": [key], "features": features}],
    }


COUNT = {"n": {"op": "count"}}
NOTES = {"notes": {"op": "last_n", "field": "note", "n": 400}}


@pytest.fixture
def api(start: Start) -> Api:
    return api_of(start())


def register(api: Api, document: dict[str, Any], **options: Any) -> None:
    reply = api.post("/v0/features/definition", {**document, "wait_ms": 30_000, **options})
    assert reply.status == 200, reply


def push(api: Api, *riders: str, note: str | None = None) -> None:
    events = [{"rider": rider, "seat": len(rider), "note": note} for rider in riders]
    assert api.post("/v0/features/push/Ride", events).status == 200


def watch(api: Api, query: str) -> EventStream:
    return EventStream(api.address, f"/v0/features/watch/Riders?{query}")


def test_a_stream_has_the_row_and_then_each_change(api: Api) -> None:
    register(api, definition(**COUNT))
    push(api, "ana")

    with watch(api, "key=ana") as stream:
        first = stream.one("row").json
        push(api, "bo", "ana")
        second = stream.one("row").json

    assert (first, second) == ({"n": 1}, {"n": 2})


def test_many_streams_have_the_rows_that_they_asked_for(api: Api) -> None:
    register(api, definition(**COUNT, last={"op": "last", "field": "note"}))
    queries = ["key=ana&features=n", "key=%22ana%22", "key=bo&features=n", "key=5&features=n"] * 10

    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(watch(api, query)) for query in queries]
        first = [stream.one("row").json for stream in streams]
        push(api, "ana", "bo", "5", note="x")
        second = [stream.one("row").json for stream in streams]

    assert first == [{}] * 40
    assert second == [{"n": 1}, {"n": 1, "last": "x"}, {"n": 1}, {"n": 1}] * 10


def test_a_new_stream_begins_with_what_was_committed_before(api: Api) -> None:
    register(api, definition(**COUNT))

    with contextlib.ExitStack() as stack:
        for number in range(1, 30):
            push(api, "ana")
            stream = stack.enter_context(watch(api, "key=ana"))
            assert stream.one("row").json == {"n": number}


def test_a_reader_that_was_slow_gets_the_newest_row(api: Api) -> None:
    register(api, definition(**NOTES))
    push(api, *["ana"] * 400, note=LONG)

    with (
        EventStream(api.address, "/v0/features/watch/Riders?key=ana", receive_bytes=4096) as slow,
        watch(api, "key=ana") as quick,
    ):
        for number in range(40):
            push(api, "ana", note=f"{number}{LONG}")
            while quick.one("row").json["notes"][-1] != f"{number}{LONG}":
                pass
        while slow.one("row").json["notes"][-1] != f"39{LONG}":
            pass


def test_a_stream_ends_with_the_reason_when_its_row_is_gone(api: Api) -> None:
    register(api, definition(**COUNT, last={"op": "last", "field": "note"}))

    with watch(api, "key=ana&features=last") as gone, watch(api, "key=ana&features=n") as kept:
        gone.one("row"), kept.one("row")
        register(api, definition(**COUNT), force=True)
        push(api, "ana")
        error = gone.one("error").json
        row = kept.one("row").json
        register(api, {}, whole=True, force=True)
        api.post("/v0/topics/rides", {"records": [{"data": {"rider": "ana", "seat": 1}}]})
        last = kept.one("error").json

    assert (error["code"], row) == ("table_failed", {"n": 1})
    assert "no feature 'last'" in error["message"]
    assert (last["code"], "Riders" in last["message"]) == ("table_failed", True)


def test_a_key_or_name_that_does_not_fit_opens_no_stream(api: Api) -> None:
    register(api, definition(key="seat", **COUNT))

    for query, detail in (
        ("key=ana", {"table": "Riders", "field": "seat", "value": "ana"}),
        ("key=[1,2]", {"table": "Riders"}),
        ("", {"table": "Riders"}),
        ("key=1&features=m", {"table": "Riders", "feature": "m"}),
    ):
        reply = api.get(f"/v0/features/watch/Riders?{query}")
        refused(reply, 400, "invalid_request", detail)
    with watch(api, "key=3") as stream:
        push(api, "ana")
        assert stream.one("row").json in ({}, {"n": 1})
