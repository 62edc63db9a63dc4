"""Resource caps: only what is new counts, races do not exceed them, and the answer says which."""

from __future__ import annotations

from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from tests.server.conftest import Start
from tests.server.support import Api, Later, api_of, at_once, new_name, refused
from tests.server.wire import Reply
from tests.support.serving import eventually

RECORDS = {"records": [{"data": 1}]}


def throttled(reply: Reply, limit: str | None = None, most: int | None = None) -> None:
    """A cap was reached; it is worth asking again."""
    detail = refused(reply, 429, "throttled")
    assert reply.headers["retry-after"] == "1"
    if limit is not None:
        assert detail == {"limit": limit, "max": most}


def test_topics_are_capped_and_existing_ones_go_on(start: Start) -> None:
    api = api_of(start(PENSTOCK_MAX_TOPICS="2"))
    api.create("a")
    api.write("b", 1)

    throttled(api.put("/v0/topics/c"), "max_topics", 2)
    throttled(api.post("/v0/topics/c", RECORDS), "max_topics", 2)
    batch = {"writes": [{"topic": "a", **RECORDS}, {"topic": "c", **RECORDS}]}
    throttled(api.post("/v0/batch", batch), "max_topics", 2)

    assert api.put("/v0/topics/a", {"cap_records": 5}).status == 200
    assert api.write("b", 2)["last_seq"] == 2
    assert api.state("a")["head_seq"] == 0
    refused(api.get("/v0/topics/c"), 404, "topic_not_found")
    api.drop("a")
    assert api.put("/v0/topics/c").status == 201


def test_a_race_for_the_last_topics_does_not_exceed_the_cap(start: Start) -> None:
    api = api_of(start(PENSTOCK_MAX_TOPICS="3"))

    def create(n: int) -> int:
        if n % 2:
            return api.put(f"/v0/topics/t{n}").status
        return api.post(f"/v0/topics/t{n}", RECORDS).status

    statuses = at_once(12, create)

    assert sorted(statuses) == [201] * 3 + [429] * 9
    assert len(api.get("/v0/topics").json["topics"]) == 3


def test_no_cap_when_it_is_zero(start: Start) -> None:
    api = api_of(start(PENSTOCK_MAX_TOPICS="0", PENSTOCK_MAX_WATCH_SESSIONS="0"))

    for n in range(5):
        api.create(f"t{n}")
        api.watch(["t0"])


def test_watch_sessions_are_capped(start: Start) -> None:
    api = api_of(start(PENSTOCK_MAX_WATCH_SESSIONS="2"))
    api.create("t")
    api.watch(["t"])
    api.watch(["t"])

    throttled(api.post("/v0/watch", {"topics": {"t": {}}}), "max_watch_sessions", 2)


def test_a_race_for_watch_sessions_does_not_exceed_the_cap(start: Start) -> None:
    api = api_of(start(PENSTOCK_MAX_WATCH_SESSIONS="3"))
    api.create("t")

    statuses = at_once(10, lambda _: api.post("/v0/watch", {"topics": {"t": {}}}).status)

    assert sorted(statuses) == [200] * 3 + [429] * 7


def test_open_streams_and_sockets_are_capped_together(start: Start) -> None:
    api = api_of(start(PENSTOCK_MAX_SSE_CONNECTIONS="2"))
    api.create("t")
    first, second = api.watch(["t"])["wid"], api.watch(["t"])["wid"]

    with api.stream(first) as stream, api.socket() as socket:
        assert stream.reply.status == 200
        assert socket.ask("ping")["op"] == "pong"
        throttled(api.get(f"/v0/watch/{second}"))
        with pytest.raises(InvalidStatus) as caught:
            api.socket()
        assert caught.value.response.status_code == 429

    def is_open() -> bool:
        with api.stream(second) as again:
            return again.reply.status == 200

    eventually(is_open, "a place is free again")


def test_open_streams_are_capped_for_each_key(start: Start) -> None:
    server = start(PENSTOCK_API_KEYS="ann,bob", PENSTOCK_MAX_SSE_CONNECTIONS_PER_KEY="1")
    ann, bob = api_of(server, "ann"), api_of(server, "bob")
    ann.create("t")
    mine, more, theirs = (api.watch(["t"])["wid"] for api in (ann, ann, bob))

    with ann.stream(mine) as stream, bob.stream(theirs) as other:
        assert (stream.reply.status, other.reply.status) == (200, 200)
        throttled(ann.get(f"/v0/watch/{more}"))


def test_requests_under_way_are_capped_for_each_key(start: Start) -> None:
    """Before the scope is looked at, and streams do not count."""
    server = start(PENSTOCK_API_KEYS="ann,bob,cyd:read", PENSTOCK_MAX_INFLIGHT_PER_KEY="1")
    ann, bob, cyd = (api_of(server, key) for key in ("ann", "bob", "cyd"))
    ann.create("t")

    def is_full(api: Api) -> Any:
        reply = api.delete("/v0/topics/absent")
        return reply if reply.status == 429 else None

    def poll(api: Api) -> Any:
        """Again, when one of the questions below was under way just then, or nothing came."""
        reply = api.post("/v0/topics/t/diff", {"wait_ms": 30_000})
        return reply.json if reply.status == 200 and reply.json["records"] else None

    with (
        Later(lambda: eventually(lambda: poll(ann), "a long poll")) as one,
        Later(lambda: eventually(lambda: poll(cyd), "a long poll")) as two,
    ):
        throttled(eventually(lambda: is_full(ann), "the key is busy"))
        throttled(eventually(lambda: is_full(cyd), "the key is busy, and has not this scope"))
        assert bob.state("t")["head_seq"] == 0
        bob.write("t", "done")
        assert one.result()["records"]
        assert two.result()["records"]
    wid = ann.watch(["t"])["wid"]
    with ann.stream(wid) as stream:
        stream.one("record")
        assert ann.state("t")["head_seq"] == 1


def test_per_key_caps_do_nothing_without_keys(start: Start) -> None:
    api = api_of(start(PENSTOCK_MAX_INFLIGHT_PER_KEY="1"))
    api.create("t")

    with Later(lambda: api.diff("t", wait_ms=30_000)) as waiting:
        assert api.state("t")["count"] == 0
        api.write("t", 1)
        assert waiting.result()["records"]


def test_all_bytes_together_are_capped(start: Start) -> None:
    api = api_of(start(PENSTOCK_MAX_TOTAL_BYTES="1000"))
    api.write("a", "x" * 600)

    throttled(api.post("/v0/topics/b", {"records": [{"data": "x" * 600}]}), "max_total_bytes", 1000)

    assert api.write("a", "x" * 300)["last_seq"] == 2
    api.remove("a", before_seq=2)
    assert api.write("b", "x" * 600)["last_seq"] == 1


def test_a_race_for_the_last_bytes_does_not_exceed_the_cap(start: Start) -> None:
    api = api_of(start(PENSTOCK_MAX_TOTAL_BYTES="1000"))
    for n in range(10):
        api.create(f"t{n}")

    def write(n: int) -> int:
        return api.post(f"/v0/topics/t{n}", {"records": [{"data": "x" * 298}]}).status

    statuses = at_once(10, write)

    assert sorted(statuses) == [200] * 3 + [429] * 7


def test_positions_of_a_topic_are_capped(api: Api, topic: str) -> None:
    api.create(topic)

    def fill(worker: int) -> set[int]:
        return {
            api.put(f"/v0/topics/{topic}/positions/p{n}", {"seq": 0}).status
            for n in range(worker, 1000, 8)
        }

    assert set.union(*at_once(8, fill)) == {200}

    throttled(api.put(f"/v0/topics/{topic}/positions/more", {"seq": 0}), "max_positions", 1000)
    assert api.put(f"/v0/topics/{topic}/positions/p7", {"seq": 0}).status == 200
    assert len(api.get(f"/v0/topics/{topic}/positions").json["positions"]) == 1000
    other = new_name()
    api.create(other)
    assert api.put(f"/v0/topics/{other}/positions/more", {"seq": 0}).status == 200
