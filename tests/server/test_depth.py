"""How deep JSON may nest, over real connections: all clients and the server have one limit.

Every door of the server by itself, and every shape of JSON, is in tests/unit/server/test_depth.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

import penstock
from penstock import AsyncClient, InvalidArgument, Record
from tests.server.support import JSON, Api, datas_of, new_name, refused, socket_error
from tests.support.serving import DEADLINE_S

MOST = 128


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def url_of(api: Api) -> str:
    host, port = api.address
    return f"http://{host}:{port}"


def test_a_write_takes_the_deepest_and_refuses_what_is_deeper(api: Api, topic: str) -> None:
    def post(depth: int) -> Any:
        body = b'{"records":[{"data":%b}]}' % nested(depth)
        return api.post(f"/v0/topics/{topic}", body, JSON)

    assert post(MOST).status == 201
    for depth in (MOST + 1, 5000, 100_000):
        refused(post(depth), 400, "invalid_request")
    assert datas_of(api.diff(topic)) == [json.loads(nested(MOST))]


def test_a_publication_takes_the_deepest_and_refuses_what_is_deeper(api: Api, topic: str) -> None:
    with api.socket() as socket:
        good = socket.ask("publish", topic=topic, records=[{"data": json.loads(nested(MOST))}])
        bad = socket.ask("publish", topic=topic, records=[{"data": json.loads(nested(MOST + 1))}])
        socket.send("publish", topic=topic, records=[{"data": json.loads(nested(400))}])
        worse = socket.next()  # nobody looked for the id in it

        assert good["op"] == "ack"
        socket_error(bad, "invalid_request")
        socket_error(worse, "invalid_json")
        assert socket.ask("ping")["op"] == "pong"
    assert datas_of(api.diff(topic)) == [json.loads(nested(MOST))]


@pytest.mark.parametrize("made", [nested, lambda depth: json.loads(nested(depth))])
def test_clients_take_the_deepest_and_refuse_what_is_deeper(
    api: Api, made: Callable[[int], Any]
) -> None:
    one, two = new_name("one"), new_name("two")
    good, bad = made(MOST), made(MOST + 1)
    wrong = ([bad], [1, bad], [Record(bad)], [Record(1, meta=bad)])
    with penstock.connect(url_of(api), timeout_s=DEADLINE_S) as client:
        for records in wrong:
            with pytest.raises(InvalidArgument, match="nests 129 levels deep, at most 128"):
                client.append(one, records)
            with pytest.raises(InvalidArgument, match="nests 129 levels deep, at most 128"):
                client.append_many([(one, [1]), (two, records)])
        client.append(one, [good, Record(good, meta=good)])
        client.append_many([(one, [1]), (two, [Record(good, meta=good)])])

        found = [record.data for record in client.read(one).records]

    async def again() -> None:
        async with AsyncClient(url_of(api), timeout_s=DEADLINE_S) as client:
            with pytest.raises(InvalidArgument, match="nests 129 levels deep, at most 128"):
                await client.append(two, [bad])
            await client.append(two, [good])

    asyncio.run(again())
    assert found == [json.loads(nested(MOST))] * 2 + [1]
    assert datas_of(api.diff(two)) == [json.loads(nested(MOST))] * 2


def test_a_sender_takes_the_deepest_and_refuses_what_is_deeper_alone(api: Api, topic: str) -> None:
    host, port = api.address
    with penstock.Sender(f"ws::addr={host}:{port};sender_id={topic};") as sender:
        sender.append(topic, nested(MOST))
        with pytest.raises(InvalidArgument, match="nests 129 levels deep, at most 128"):
            sender.append(topic, nested(MOST + 1))
        sender.append(topic, 1, meta=nested(MOST))

        assert sender.drain(DEADLINE_S)
    assert datas_of(api.diff(topic)) == [json.loads(nested(MOST)), 1]
