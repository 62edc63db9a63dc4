"""GET and DELETE of what is delayed for a topic: what waits for its time, and what never comes."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.server.conftest import Start
from tests.server.queues import restarted
from tests.server.support import Api, api_of, datas_of, new_name, refused
from tests.support.serving import eventually

HOUR_MS = 3_600_000


def path(topic: str, *more: Any) -> str:
    return "/".join([f"/v0/topics/{topic}/delayed", *map(str, more)])


def delay(api: Api, topic: str, *datas: Any, **fields: Any) -> int:
    """The id of the delayed batch."""
    answer = api.write(topic, *datas, **({"delay_ms": HOUR_MS} | fields))
    return int(answer["delayed_id"])


def listed(api: Api, topic: str, query: str = "") -> Any:
    reply = api.get(path(topic) + query)
    assert reply.status == 200, reply
    return reply.json


def ids_of(answer: Any) -> list[int]:
    return [row["id"] for row in answer["delayed"]]


# The list.


def test_what_is_delayed_is_listed_with_its_time_and_its_size(api: Api, topic: str) -> None:
    other = new_name()
    at_ms = time.time_ns() // 1_000_000 + HOUR_MS
    first = delay(api, topic, {"a": 1}, 2, delay_ms=None, deliver_at=at_ms)
    delay(api, other, 1)
    second = delay(api, topic, records=[{"data": 3, "tag": "x", "meta": [1]}])

    found = listed(api, topic)

    assert set(found) == {"topic", "delayed", "performance"}
    assert found["topic"] == topic
    assert found["delayed"][0] == {"id": first, "deliver_at": at_ms, "count": 2, "size": 8}
    assert {"id": second, "count": 1, "size": 4}.items() <= found["delayed"][1].items()
    assert datas_of(api.diff(topic)) == []


def test_a_topic_for_which_nothing_is_delayed_has_an_empty_list(api: Api, topic: str) -> None:
    queue = new_name("queue")
    api.write(topic, 1)
    api.create(queue, type="queue")
    api.write(queue, 1, delay_ms=HOUR_MS)  # a record of its topic, with a seq

    assert (ids_of(listed(api, topic)), ids_of(listed(api, queue))) == ([], [])
    refused(api.get(path(new_name())), 404, "topic_not_found")
    refused(api.get(path("_delayed")), 404, "topic_not_found")


def test_the_pages_of_the_list_have_everything_once(api: Api, topic: str) -> None:
    ids = [delay(api, topic, n) for n in range(5)]

    first = listed(api, topic, "?limit=2")
    late = delay(api, topic, 5)
    api.delete(path(topic, ids[1]))  # on the page before
    api.delete(path(topic, ids[2]))  # on the page to come
    second = listed(api, topic, f"?limit=2&after={first['next_after']}")
    third = listed(api, topic, f"?limit=2&after={second['next_after']}")

    assert (ids_of(first), ids_of(second), ids_of(third)) == (ids[:2], ids[3:], [late])
    assert (first["next_after"], second["next_after"]) == (ids[1], ids[4])
    assert "next_after" not in third
    assert ids_of(listed(api, topic, "?limit=0")) == ids[:1]
    assert ids_of(listed(api, topic, "?limit=x&after=y")) == [ids[0], *ids[3:], late]


# Cancelling.


def test_a_cancelled_batch_never_comes(api: Api, topic: str) -> None:
    gone, kept = delay(api, topic, 1, delay_ms=500), delay(api, topic, 2, delay_ms=500)

    reply = api.delete(path(topic, gone))

    assert reply.status == 200
    assert reply.json | {"performance": {}} == {
        "topic": topic,
        "delayed_id": gone,
        "deleted": True,
        "performance": {},
    }
    assert gone not in ids_of(listed(api, topic))
    eventually(lambda: datas_of(api.diff(topic)), "the other batch is visible")
    assert datas_of(api.diff(topic)) == [2]
    detail = {"topic": topic, "delayed_id": kept}
    refused(api.delete(path(topic, kept)), 409, "already_delivered", detail)


def test_a_batch_is_cancelled_once(api: Api, topic: str) -> None:
    gone = delay(api, topic, 1)
    assert api.delete(path(topic, gone)).status == 200

    refused(api.delete(path(topic, gone)), 409, "already_delivered", {"delayed_id": gone})


def test_an_id_of_nothing_or_of_another_topic_cancels_nothing(api: Api, topic: str) -> None:
    other = new_name()
    theirs, ours = delay(api, other, 1), delay(api, topic, 1)

    for unknown in (theirs, ours + 1_000_000, 0, (1 << 64) - 1):
        reply = api.delete(path(topic, unknown))
        refused(reply, 404, "delayed_not_found", {"topic": topic, "delayed_id": unknown})
    for wrong in ("x", "-1", "1.0", 1 << 64, "1" * 30, "%C2%B2"):
        refused(api.delete(path(topic, wrong)), 400, "invalid_request")
    refused(api.delete(path(new_name(), ours)), 404, "topic_not_found")

    assert (ids_of(listed(api, topic)), ids_of(listed(api, other))) == ([ours], [theirs])


def test_nothing_was_ever_delayed_on_a_new_server(start: Start) -> None:
    api = api_of(start())
    api.create("t")

    assert ids_of(listed(api, "t")) == []
    refused(api.delete(path("t", 1)), 404, "delayed_not_found")


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_the_list_and_a_cancel_survive_a_restart(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    gone, kept = delay(api, "t", 1), delay(api, "t", 2)
    assert api.delete(path("t", gone)).status == 200

    api = restarted(server, how)

    assert ids_of(listed(api, "t")) == [kept]
    refused(api.delete(path("t", gone)), 409, "already_delivered")
    assert api.delete(path("t", kept)).status == 200


# Who may.


def test_a_key_with_prefixes_sees_and_cancels_what_is_delayed_for_its_topics(start: Start) -> None:
    server = start(PENSTOCK_API_KEYS="boss,shop:read+delete:shop.")
    boss, shop = api_of(server, "boss"), api_of(server, "shop")
    theirs, other = delay(boss, "shop.a", 1), delay(boss, "bank.a", 1)

    refused(shop.get(path("bank.a")), 403, "forbidden")
    refused(shop.delete(path("bank.a", other)), 403, "forbidden")
    refused(shop.delete(path("shop.a", other)), 404, "delayed_not_found")
    assert ids_of(listed(shop, "shop.a")) == [theirs]
    assert shop.delete(path("shop.a", theirs)).status == 200
    assert ids_of(listed(boss, "bank.a")) == [other]


def test_a_cancel_is_in_the_audit_with_the_id(start: Start) -> None:
    api = api_of(start())
    gone = delay(api, "t", 1)
    api.delete(path("t", gone))
    api.delete(path("t", gone))

    def acts() -> list[Any]:
        records = api.get("/v0/audit").json["records"]
        return [record["data"] for record in records]

    eventually(lambda: len(acts()) == 2, "the acts are written down")

    told = [(act["act"], act["name"], act["status"], act.get("asked")) for act in acts()]
    assert told == [("delayed.cancel", "t", 200, str(gone)), ("delayed.cancel", "t", 409, None)]
