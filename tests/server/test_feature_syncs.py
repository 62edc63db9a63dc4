"""What a push over each protocol has promised when it is answered."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.support import Api, api_of, refused
from tests.support.beava import ERROR, BeavaServer, FrameClient, frame

PUSH_SYNC = 0x11
DEFINITION = {
    "events": [
        {
            "name": "Pay",
            "fields": {"id": "str", "card": "str"},
            "dedupe": {"field": "id", "window": "1d"},
        },
        {"name": "Seen", "fields": {"card": "str"}},
    ],
    "tables": [
        {"name": "Cards", "from": "Pay", "key": ["card"], "features": {"n": {"op": "count"}}},
        {"name": "Views", "from": "Seen", "key": ["card"], "features": {"n": {"op": "count"}}},
    ],
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BeavaServer]:
    """It syncs nothing by the way."""
    server = BeavaServer(tmp_path, PENSTOCK_SYNC_TICK_MS="60000").start()
    assert api_of(server.server).post("/v0/features/definition", DEFINITION).status == 200
    yield server
    server.server.close()


def pay(name: str) -> dict[str, str]:
    return {"id": name, "card": "c"}


def over_http(server: BeavaServer, event: str, data: dict[str, str]) -> None:
    reply = api_of(server.server).post(f"/v0/features/push/{event}?sync=per_event", data)
    assert reply.status == 200, reply


def over_beava_http(server: BeavaServer, event: str, data: dict[str, str]) -> None:
    body = json.dumps(data).encode()
    request = urllib.request.Request(f"{server.url('http')}/push-sync/{event}", body)
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200


def over_beava_frames(server: BeavaServer, event: str, data: dict[str, str]) -> None:
    with FrameClient(server.address("tcp")) as client:
        op, answer = client.ask(PUSH_SYNC, {"event": event, "body": data})
    assert op == PUSH_SYNC, answer


def marks(api: Api, table: str) -> Any:
    return api.get(f"/v0/features/tables/{table}").json["table"]["watermarks"]


EACH_PROTOCOL = pytest.mark.parametrize(
    "push_synced", [over_http, over_beava_http, over_beava_frames]
)
Push = Callable[[BeavaServer, str, dict[str, str]], None]


@EACH_PROTOCOL
def test_a_duplicate_is_acknowledged_after_the_sync_of_its_first_event(
    server: BeavaServer, push_synced: Push
) -> None:
    api = api_of(server.server)
    for name in ("1", "2"):  # the first one reserves seqs, which is synced
        assert api.post("/v0/features/push/Pay", pay(name)).json["count"] == 1
    assert marks(api, "Cards")["synced"] < 2

    push_synced(server, "Pay", pay("2"))

    found = marks(api, "Cards")
    assert (found["committed"], found["synced"]) == (2, 2)


@EACH_PROTOCOL
def test_a_push_that_asks_for_it_is_acknowledged_after_its_sync(
    server: BeavaServer, push_synced: Push
) -> None:
    api = api_of(server.server)
    for event, table, data in (("Pay", "Cards", pay), ("Seen", "Views", lambda _: {"card": "c"})):
        for name in ("1", "2", "3"):
            push_synced(server, event, data(name))
        assert marks(api, table)["synced"] == 3


def test_frames_that_repeat_one_another_are_answered_in_their_order(server: BeavaServer) -> None:
    names = ["1", "2", "1", "3", "2", "3", "4"]
    bodies = [json.dumps({"event": "Pay", "body": pay(name)}).encode() for name in names]

    with FrameClient(server.address("tcp")) as client:
        client.send(*[frame(PUSH_SYNC, body) for body in bodies])
        answers = [client.answer() for _ in bodies]

    assert {op for op, _, _ in answers} == {PUSH_SYNC}
    assert [json.loads(body)["ack_lsn"] for _, _, body in answers] == [1, 2, 1, 3, 2, 3, 4]
    assert marks(api_of(server.server), "Cards")["synced"] == 4


@pytest.mark.parametrize("event", ["Pay", "Seen"])
def test_a_push_that_must_be_synced_is_refused_in_a_topic_that_never_is(
    server: BeavaServer, event: str
) -> None:
    api = api_of(server.server)
    assert api.put(f"/v0/topics/{event}", {"durability": "ephemeral"}).status == 200
    data = pay("1") if event == "Pay" else {"card": "c"}

    reply = api.post(f"/v0/features/push/{event}?sync=per_event", data)
    many = api.post(f"/v0/features/push/{event}?sync=per_event", [data] * 3)
    with pytest.raises(urllib.error.HTTPError) as over_http:
        over_beava_http(server, event, data)
    with FrameClient(server.address("tcp")) as client:
        op, answer = client.ask(PUSH_SYNC, {"event": event, "body": data})

    refused(reply, 400, "invalid_request")
    refused(many, 400, "invalid_request")
    body = json.loads(over_http.value.read())
    assert (over_http.value.code, op) == (400, ERROR)
    for text in (reply.body.decode(), json.dumps(body), json.dumps(answer)):
        assert f"'{event}' has durability 'ephemeral'" in text
    assert api.get(f"/v0/topics/{event}").json["head_seq"] == 0
