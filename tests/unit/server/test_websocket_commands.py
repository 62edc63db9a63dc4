"""What a WebSocket peer says and hears, over a connection without a socket."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import CLIENT, OPEN, Protocol

from penstock.server import events
from penstock.server.http.connection_limits import SMALL_BODY_BYTES
from tests.unit.server.support import PATIENCE_S, Site, get, on_loop, settled, until

UPGRADE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
)


class Caller:
    """A peer that speaks JSON."""

    def __init__(self, site: Site, token: str | None = None, query: str = "", *more: str) -> None:
        self.wire = site.connect()
        lines = (*UPGRADE, *more)
        if token is not None:
            lines = (*lines, f"Authorization: Bearer {token}")
        self.wire.feed(get(f"/v0/ws{query}", *lines))
        self.head, _, rest = self.wire.take().partition(b"\r\n\r\n")
        assert rest == b"" or b" 101 " not in self.head
        self.client = Protocol(CLIENT, state=OPEN, max_size=None)
        self.heard: list[dict[str, Any]] = []
        self.frames: list[Frame] = []

    def say(self, *messages: Any) -> None:
        texts = [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages]
        self.wire.feed(b"".join(Frame(Opcode.TEXT, text).serialize(mask=True) for text in texts))

    def listen(self) -> list[dict[str, Any]]:
        """Everything heard so far."""
        data = self.wire.take()
        if data:
            self.client.receive_data(data)
        for event in self.client.events_received():
            assert isinstance(event, Frame)
            self.frames.append(event)
            if event.opcode is Opcode.TEXT:
                self.heard.append(json.loads(bytes(event.data)))
        return self.heard

    async def ask(self, message: Any) -> dict[str, Any]:
        """The next thing heard after saying this."""
        before = len(self.listen())
        self.say(message)
        await until(lambda: len(self.listen()) > before)
        return self.heard[before]

    def ops(self) -> list[str]:
        return [message["op"] for message in self.listen()]

    def records(self, topic: str) -> list[Any]:
        return [
            record["data"]
            for message in self.listen()
            if message["op"] == "record" and message["topic"] == topic
            for record in message["records"]
        ]


# Plain talk.


@pytest.mark.parametrize("request_id", [1, "a", None, {"deep": [1, "x"]}, 1.5, True])
@on_loop
async def test_whatever_names_a_request_is_given_back(request_id: Any) -> None:
    caller = Caller(Site())

    assert await caller.ask({"op": "ping", "request_id": request_id}) == {
        "op": "pong",
        "request_id": request_id,
    }


@on_loop
async def test_a_request_without_a_name_is_answered_without_one() -> None:
    caller = Caller(Site())

    assert await caller.ask({"op": "ping"}) == {"op": "pong", "request_id": None}


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"no json", "invalid_json"),
        (b"[]", "invalid_json"),
        (b"{}", "invalid_json"),
        (b'{"op":1}', "invalid_json"),
        (b'\xff\xfe{"op":"ping"}', "invalid_json"),
        ({"op": "dance"}, "invalid_json"),
        ({"op": "subscribe"}, "invalid_request"),
        ({"op": "subscribe", "topics": 5}, "invalid_request"),
        ({"op": "subscribe", "topic": "none"}, "topic_not_found"),
        ({"op": "publish", "topic": "t"}, "invalid_request"),
        ({"op": "publish", "topic": "t", "records": []}, "invalid_request"),
        ({"op": "publish", "topic": "no/name", "records": [{"data": 1}]}, "invalid_request"),
        (b'{"op":"ping","x":"' + b"x" * SMALL_BODY_BYTES + b'"}', "payload_too_large"),
    ],
)
@on_loop
async def test_what_cannot_be_done_is_answered_and_the_talk_goes_on(
    message: Any, code: str
) -> None:
    caller = Caller(Site())

    answer = await caller.ask(message)

    assert (answer["op"], answer["code"]) == ("error", code)
    assert answer["message"]
    assert (await caller.ask({"op": "ping", "request_id": 2}))["request_id"] == 2


@on_loop
async def test_binary_messages_are_refused_and_the_talk_goes_on() -> None:
    caller = Caller(Site())

    caller.wire.feed(Frame(Opcode.BINARY, b"x").serialize(mask=True))

    assert caller.listen()[0]["code"] == "unsupported_message"
    assert (await caller.ask({"op": "ping"}))["op"] == "pong"


# Publishing.


@on_loop
async def test_publications_of_a_traced_connection_are_traced() -> None:
    site = Site()
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    caller = Caller(site, None, "", f"Traceparent: {parent}")

    await caller.ask({"op": "publish", "topic": "t", "records": [{"data": 1}]})

    assert [record.meta for record in site.log.read("t").records] == [{"traceparent": parent}]


@on_loop
async def test_publications_of_one_read_are_answered_in_one_write() -> None:
    site = Site()
    site.log.create("t")
    caller = Caller(site)
    message = {"op": "publish", "topic": "t", "records": [{"data": 1}]}

    caller.say(*[message | {"request_id": n} for n in range(20)])
    await until(lambda: caller.wire.transport.written)

    assert len(caller.wire.transport.written) == 1
    heard = caller.listen()
    assert [one["request_id"] for one in heard] == list(range(20))
    assert [one["seqs"] for one in heard] == [[n] for n in range(1, 21)]


@on_loop
async def test_a_publish_is_acknowledged_with_its_seqs() -> None:
    site = Site()
    caller = Caller(site)

    first = await caller.ask({"op": "publish", "topic": "t", "records": [{"data": 1}, {"data": 2}]})
    second = await caller.ask(
        {"op": "publish", "topic": "t", "records": [{"data": 3}], "return_seqs": False}
    )

    assert (first["op"], first["seqs"], first["created"]) == ("ack", [1, 2], True)
    assert (second["first_seq"], second["seqs"], second["created"]) == (3, None, False)
    assert "performance" in first
    assert [record.data for record in site.log.read("t").records] == [1, 2, 3]


@pytest.mark.parametrize("is_new", [True, False])
@on_loop
async def test_publishes_of_one_peer_keep_their_order_also_to_a_topic_not_yet_made(
    is_new: bool,
) -> None:
    site = Site()
    if not is_new:
        site.log.create("t")
    caller = Caller(site)
    count = 30

    for at in range(0, count, 5):
        caller.say(
            *(
                {"op": "publish", "topic": "t", "records": [{"data": n}], "request_id": n}
                for n in range(at, at + 5)
            )
        )
        await asyncio.sleep(0)
    await until(lambda: len(caller.listen()) == count)

    assert [message["request_id"] for message in caller.heard] == list(range(count))
    assert [message["first_seq"] for message in caller.heard] == list(range(1, count + 1))
    assert [record.data for record in site.log.read("t").records] == list(range(count))


@on_loop
async def test_a_repeated_key_is_one_publish() -> None:
    caller = Caller(Site())
    message = {"op": "publish", "topic": "t", "records": [{"data": 1}], "idempotency_key": "k"}

    answers = [await caller.ask(message) for _ in range(2)]

    assert [(a["first_seq"], a["deduped"]) for a in answers] == [(1, False), (1, True)]


@on_loop
async def test_a_publish_held_to_a_seq_is_refused_with_the_head() -> None:
    caller = Caller(Site())
    await caller.ask({"op": "publish", "topic": "t", "records": [{"data": 1}]})

    answer = await caller.ask(
        {"op": "publish", "topic": "t", "records": [{"data": 2}], "expected_seq": 0}
    )

    assert (answer["code"], answer["detail"]["head_seq"]) == ("seq_mismatch", 1)


# Keys.


@on_loop
async def test_a_key_holds_for_the_whole_connection() -> None:
    site = Site(api_keys="boss,reader:read,writer:write,eu:rw:eu.")
    site.log.append("eu.a", [1])
    site.log.append("us.a", [1])
    reader, writer, eu = (Caller(site, token) for token in ("reader", "writer", "eu"))
    one = [{"data": 1}]
    forbidden = [
        (reader, {"op": "publish", "topic": "eu.a", "records": one}),
        (writer, {"op": "subscribe", "topic": "eu.a"}),
        (writer, {"op": "publish", "topic": "new", "records": one, "config": {}}),
        (eu, {"op": "subscribe", "topic": "us.a"}),
        (eu, {"op": "subscribe", "topics": {"eu.a": {}, "us.a": {}}}),
        (eu, {"op": "publish", "topic": "us.a", "records": one}),
    ]

    for caller, message in forbidden:
        assert (await caller.ask(message))["code"] == "forbidden", message

    assert (await eu.ask({"op": "publish", "topic": "eu.a", "records": one}))["op"] == "ack"
    assert (await reader.ask({"op": "subscribe", "topic": "us.a"}))["op"] == "subscribed"


@on_loop
async def test_a_pattern_shows_only_names_that_the_key_may_use() -> None:
    site = Site(api_keys="boss,eu:rw:eu.")
    for topic in ("eu.a", "us.a"):
        site.log.append(topic, [topic])
    caller = Caller(site, "eu")

    answer = await caller.ask({"op": "subscribe", "topics": {"*": {}}})
    for topic in ("eu.b", "us.b"):
        await site.call("PUT", f"/v0/topics/{topic}", token="boss")
        site.log.append(topic, [topic])
    await until(lambda: caller.records("eu.b"))

    assert list(answer["topics"]) == ["eu.a"]
    assert not caller.records("us.a")
    assert not caller.records("us.b")


@on_loop
async def test_without_a_key_nobody_gets_in_and_a_ticket_will_do() -> None:
    site = Site(api_keys="boss")
    ticket = (await site.call("POST", "/v0/tickets", {}, token="boss")).json["ticket"]

    assert Caller(site).head.startswith(b"HTTP/1.1 401")
    assert Caller(site, query=f"?ticket={ticket}").head.startswith(b"HTTP/1.1 101")
    assert Caller(site, query=f"?ticket={ticket}").head.startswith(b"HTTP/1.1 401")


# Subscribing.


@on_loop
async def test_a_subscriber_gets_what_is_there_and_then_what_comes() -> None:
    site = Site()
    site.log.append("t", [1, 2])
    caller = Caller(site)

    answer = await caller.ask({"op": "subscribe", "topic": "t", "request_id": 7})
    site.log.append("t", [3])
    await until(lambda: caller.records("t") == [1, 2, 3])

    assert answer == {
        "op": "subscribed",
        "request_id": 7,
        "topics": {"t": {"from_seq": 0, "head_seq": 2, "earliest_seq": 1, "epoch": 1}},
    }
    assert caller.ops() == ["subscribed", "record", "caught_up", "record"]
    assert caller.heard[1]["to_seq"] == 2


@on_loop
async def test_topics_begin_where_they_are_told_to() -> None:
    site = Site()
    for topic in "abc":
        site.log.append(topic, [1, 2, 3])
    caller = Caller(site)

    answer = await caller.ask(
        {"op": "subscribe", "topics": {"a": {"from_seq": 2}, "b": {"tail": True}}, "topic": "c"}
    )
    await until(lambda: caller.ops().count("caught_up") == 3)

    assert {name: at["from_seq"] for name, at in answer["topics"].items()} == {
        "a": 2,
        "b": 3,
        "c": 0,
    }
    assert [caller.records(topic) for topic in "abc"] == [[3], [], [1, 2, 3]]


@on_loop
async def test_lenient_leaves_out_what_is_not_there() -> None:
    site = Site()
    site.log.append("a", [1])
    caller = Caller(site)

    answer = await caller.ask({"op": "subscribe", "topics": {"a": {}, "none": {}}, "lenient": True})

    assert list(answer["topics"]) == ["a"]


@on_loop
async def test_who_unsubscribes_hears_no_more_of_it() -> None:
    site = Site()
    for topic in "ab":
        site.log.create(topic)
    caller = Caller(site)
    await caller.ask({"op": "subscribe", "topics": {"a": {}, "b": {}, "c*": {}}})

    answer = await caller.ask({"op": "unsubscribe", "topic": "a", "topics": ["a", "c*", "none"]})
    site.log.append("a", [1])
    site.log.append("b", [1])
    await site.call("POST", "/v0/topics/cc", {"records": [{"data": 1}]})
    await until(lambda: caller.records("b"))

    assert answer in caller.heard
    assert [m["topics"] for m in caller.heard if m["op"] == "unsubscribed"] == [["a", "c*", "none"]]
    assert not caller.records("a")
    assert not caller.records("cc")


@on_loop
async def test_a_pattern_goes_with_its_topics_and_leaves_what_was_asked_for_by_name() -> None:
    site = Site()
    for topic in ("a", "aa", "ab"):
        site.log.create(topic)
    caller = Caller(site)
    await caller.ask({"op": "subscribe", "topics": {"a*": {}}})
    await caller.ask({"op": "subscribe", "topic": "ab"})

    await caller.ask({"op": "unsubscribe", "topic": "a"})
    for topic in ("a", "aa", "ab"):
        site.log.append(topic, [1])
    await until(lambda: caller.records("ab") == caller.records("aa") == [1])
    assert not caller.records("a")
    await caller.ask({"op": "unsubscribe", "topic": "a*"})
    for topic in ("aa", "ab"):
        site.log.append(topic, [2])
    await site.call("POST", "/v0/topics/ac", {"records": [{"data": 2}]})
    await until(lambda: caller.records("ab") == [1, 2])

    assert caller.records("aa") == [1]
    assert not caller.records("ac")


@on_loop
async def test_gaps_and_dropped_topics_are_told() -> None:
    site = Site()
    site.log.create("t", cap_records=1)
    site.log.append("t", [1, 2, 3])
    caller = Caller(site)
    await caller.ask({"op": "subscribe", "topic": "t"})

    site.log.drop("t")
    await until(lambda: "topic_deleted" in caller.ops())

    gap = caller.heard[1]
    assert (gap["op"], gap["reason"], gap["gap_from"], gap["gap_to"]) == ("tombstone", "cap", 1, 2)
    assert caller.ops() == ["subscribed", "tombstone", "record", "caught_up", "topic_deleted"]


@on_loop
async def test_a_topic_made_while_a_pattern_looks_for_its_beginning_is_not_missed() -> None:
    """`from_ts` is looked up on a thread; what is made meanwhile belongs to the pattern too."""
    site = Site()
    site.log.append("log.a", [1])
    caller = Caller(site)
    is_sought, is_made = threading.Event(), threading.Event()
    seek = site.log.core.seek

    def slow(topic: str, ts_ms: int) -> int:
        is_sought.set()
        assert is_made.wait(PATIENCE_S)
        return seek(topic, ts_ms)

    site.log.core.seek = slow  # type: ignore[method-assign]
    caller.say({"op": "subscribe", "topics": {"log.*": {"from_ts": 1}}})
    await until(is_sought.is_set)
    await site.service.create("log.b", {})
    is_made.set()
    await until(lambda: "subscribed" in caller.ops())
    site.log.append("log.b", [2])
    await until(lambda: caller.records("log.a") == [1])
    await until(lambda: caller.records("log.b"))
    await settled()

    assert caller.records("log.b") == [2]


@on_loop
async def test_a_record_is_framed_once_for_all_who_hear_it(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    site.log.create("t")
    callers = [Caller(site) for _ in range(10)]
    for caller in callers:
        await caller.ask({"op": "subscribe", "topic": "t"})
    made: list[int] = []
    fields = events.record_fields
    monkeypatch.setattr(events, "record_fields", lambda *given: (made.append(1), fields(*given))[1])

    site.log.append("t", [1])
    await until(lambda: all(caller.records("t") == [1] for caller in callers))

    assert len(made) == 1


@on_loop
async def test_a_full_peer_is_sent_nothing_and_reads_on_when_it_drains() -> None:
    site = Site()
    site.log.create("t", cap_records=2)
    caller = Caller(site)
    await caller.ask({"op": "subscribe", "topic": "t"})
    caller.listen()
    caller.wire.protocol.pause_writing()

    for n in range(10):
        site.log.append("t", [n])
        await settled()
    assert caller.wire.sent == b""
    caller.wire.protocol.resume_writing()

    assert caller.ops()[-2:] == ["tombstone", "record"]
    assert caller.records("t") == [8, 9]


# Ends.


@on_loop
async def test_a_peer_that_leaves_leaves_nothing_behind() -> None:
    site = Site()
    site.log.create("t")
    caller = Caller(site)
    await caller.ask({"op": "subscribe", "topics": {"t": {}, "x*": {}}})

    caller.wire.feed(Frame(Opcode.CLOSE, Close(1000, "").serialize()).serialize(mask=True))
    await caller.wire.ends()
    await settled()

    assert not site.server._sockets.peers
    assert site.server._open_streams.count == 0
    assert site.handle("t").listeners == ()
    assert site.service.feeds.on_created == {}


@on_loop
async def test_stopping_tells_every_peer_why() -> None:
    site = Site()
    caller = Caller(site)

    for peer in list(site.server._sockets.peers):
        peer.finish("server_shutting_down", "the server is shutting down")

    assert caller.listen()[-1]["code"] == "server_shutting_down"
    assert Close.parse(bytes(caller.frames[-1].data)).code == 1001


@on_loop
async def test_only_so_many_peers_are_let_in() -> None:
    site = Site(max_sse_connections=1)
    Caller(site)

    second = Caller(site)

    assert second.head.startswith(b"HTTP/1.1 429")


@on_loop
async def test_an_answer_to_a_peer_who_left_is_dropped() -> None:
    site = Site()
    caller = Caller(site)
    caller.say({"op": "publish", "topic": "t", "records": [{"data": 1}]})
    caller.say({"op": "subscribe", "topics": {"t*": {"from_ts": 1}}})
    caller.wire.transport.abort()

    await until(
        lambda: site.log.core.catalogue.find("t") is not None and site.log.topic("t").count == 1
    )
    await settled()

    await until(lambda: site.service.feeds.on_created == {} and not site.handle("t").listeners)
