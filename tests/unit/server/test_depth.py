"""How deep the JSON of a record may nest: the same at every door of the server, on every
interpreter. The body around a record does not count."""

from __future__ import annotations

import json

import pytest

from penstock import limits
from penstock.server.http.message import BATCH
from penstock.wire import binary_batch as binary
from tests.server.sending import OK, SCHEMA, parcel, raw_frame
from tests.unit import nesting
from tests.unit.server.support import JSON_TYPE, Site, on_loop, until
from tests.unit.server.test_sender_session import Talk
from tests.unit.server.test_websocket_commands import Caller

BINARY_TYPE = {b"content-type": BATCH}
REFUSED = "nests 129 levels deep, at most 128 are allowed"
GOOD, BAD = nesting.MOST, nesting.MOST + 1
each_shape = pytest.mark.parametrize("shape", nesting.SHAPES)


def datas(site: Site, topic: str) -> list[object]:
    return [record.data for record in site.log.read(topic).records]


@each_shape
@pytest.mark.parametrize("shell", [b'{"data":%b}', b'{"data":1},{"data":1,"meta":%b}'])
@on_loop
async def test_a_json_write(shell: bytes, shape: str) -> None:
    site = Site()
    bodies = [b'{"records":[%b]}' % (shell % nesting.SHAPES[shape](d)) for d in (GOOD, BAD)]

    good, bad = [await site.call("POST", "/v0/topics/t", b, headers=JSON_TYPE) for b in bodies]

    assert good.status == 201
    assert (bad.status, bad.code) == (400, "invalid_request")
    assert REFUSED in bad.json["error"]["message"]
    assert site.log.topic("t").count == good.json["count"]
    await site.close()


@each_shape
@pytest.mark.parametrize("is_meta", [False, True])
@on_loop
async def test_a_binary_write(is_meta: bool, shape: str) -> None:
    site = Site()
    texts = [nesting.SHAPES[shape](depth) for depth in (GOOD, BAD)]
    bodies = [
        binary.encode_write({}, [b"1", b"2"], [None, text])
        if is_meta
        else binary.encode_write({}, [b"1", text])
        for text in texts
    ]

    good, bad = [await site.call("POST", "/v0/topics/t", b, headers=BINARY_TYPE) for b in bodies]

    assert good.status == 201
    assert (bad.status, bad.code) == (400, "invalid_request")
    assert REFUSED in bad.json["error"]["message"]
    assert site.log.topic("t").count == 2
    await site.close()


@each_shape
@on_loop
async def test_a_write_to_several_topics(shape: str) -> None:
    site = Site()
    shell = b'{"writes":[{"topic":"a","records":[{"data":1}]},{"topic":"b","records":[%b]}]}'
    bodies = [shell % (b'{"data":%b}' % nesting.SHAPES[shape](depth)) for depth in (GOOD, BAD)]

    good, bad = [await site.call("POST", "/v0/batch", b, headers=JSON_TYPE) for b in bodies]

    assert good.status == 200
    assert (bad.status, bad.code) == (400, "invalid_request")
    assert REFUSED in bad.json["error"]["message"]
    assert (datas(site, "a"), len(datas(site, "b"))) == ([1], 1)
    await site.close()


@each_shape
@on_loop
async def test_a_publication(shape: str) -> None:
    site = Site()
    caller = Caller(site)
    shell = b'{"op":"publish","request_id":7,"topic":"t","records":[{"data":%b}]}'

    good = await caller.ask(shell % nesting.SHAPES[shape](GOOD))
    bad = await caller.ask(shell % nesting.SHAPES[shape](BAD))

    assert (good["op"], good["request_id"]) == ("ack", 7)
    assert (bad["op"], bad["code"], bad["request_id"]) == ("error", "invalid_request", 7)
    assert REFUSED in bad["message"]
    assert (await caller.ask({"op": "ping"}))["op"] == "pong"
    assert datas(site, "t") == [json.loads(nesting.SHAPES[shape](GOOD))]
    await site.close()


@each_shape
@on_loop
async def test_a_frame_of_a_sender(shape: str) -> None:
    """Its other rows are refused with it, so no sender takes such a row."""
    talk = Talk()
    good, bad = (nesting.SHAPES[shape](depth) for depth in (GOOD, BAD))

    talk.socket.bring(raw_frame(0, parcel("t", b"1", good)), raw_frame(1, parcel("t", b"2", bad)))
    await until(lambda: talk.socket.closed)

    assert [(reply.status, reply.count) for reply in talk.replies] == [(OK, 0), (SCHEMA, 1)]
    assert REFUSED in talk.replies[1].text
    assert talk.rows("t") == [1, json.loads(good)]
    await talk.site.close()


# Bodies that are nested absurdly.

ABSURD = [limits.BODY_DEPTH_MAX + 1, 5000, 100_000]


@pytest.mark.parametrize("depth", ABSURD)
@pytest.mark.parametrize(
    ("method", "target", "shell"),
    [
        ("POST", "/v0/topics/t", b'{"records":[{"data":%b}]}'),
        ("POST", "/v0/topics/t", b'{"records":[{"data":1}],"unknown":%b}'),
        ("POST", "/v0/batch", b'{"writes":[],"unknown":%b}'),
        ("PUT", "/v0/topics/t", b'{"unknown":%b}'),
        ("POST", "/v0/topics/t/diff", b'{"tag":%b}'),
        ("POST", "/v0/watch", b'{"topics":%b}'),
        ("PUT", "/v0/routers/r", b"%b"),
    ],
)
@on_loop
async def test_an_absurd_body_is_refused(
    method: str, target: str, shell: bytes, depth: int
) -> None:
    site = Site()

    answer = await site.call(method, target, shell % nesting.arrays(depth), headers=JSON_TYPE)

    assert (answer.status, answer.code) == (400, "invalid_request")
    assert "levels deep, at most 256 are allowed" in answer.json["error"]["message"]
    assert site.log.core.catalogue.names() == []
    await site.close()


@pytest.mark.parametrize("depth", ABSURD)
@on_loop
async def test_an_absurd_message_is_refused_and_the_talk_goes_on(depth: int) -> None:
    caller = Caller(Site())

    answer = await caller.ask(b'{"op":"ping","unknown":%b}' % nesting.arrays(depth))

    assert (answer["op"], answer["code"]) == ("error", "invalid_json")
    assert (await caller.ask({"op": "ping"}))["op"] == "pong"


@pytest.mark.parametrize("depth", ABSURD)
@on_loop
async def test_an_absurd_incarnation_ends_the_connection(depth: int) -> None:
    talk = Talk()

    talk.peer.on_text(b'{"incarnation":"%032d","unknown":%b}' % (0, nesting.arrays(depth)))

    assert talk.socket.closed == [1008]
    await talk.site.close()


@on_loop
async def test_the_head_of_a_binary_write_is_a_body_too() -> None:
    site = Site()
    head = b'{"unknown":%b}' % nesting.arrays(5000)
    body = binary.MAGIC + len(head).to_bytes(4, "little") + head + bytes(4)

    answer = await site.call("POST", "/v0/topics/t", body, headers=BINARY_TYPE)

    assert (answer.status, answer.code) == (400, "invalid_request")
    await site.close()
