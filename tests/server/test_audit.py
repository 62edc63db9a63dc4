"""S24: what those who run the server do is written down, once each, also when it is refused."""

from __future__ import annotations

from typing import Any

from tests.server.conftest import Start
from tests.server.queues import restarted
from tests.server.support import Api, api_of, refused
from tests.support.serving import eventually


def acts(api: Api, count: int) -> list[dict[str, Any]]:
    """The first so many; there are no more."""
    eventually(lambda: len(page(api)["records"]) >= count, "the acts are written down")
    found = [record["data"] for record in page(api)["records"]]
    assert len(found) == count, found
    return found


def page(api: Api, query: str = "") -> dict[str, Any]:
    reply = api.get(f"/v0/audit{query}")
    assert reply.status == 200, reply
    return reply.json


def test_each_administrative_act_leaves_one_record(start: Start) -> None:
    api = api_of(start())
    assert page(api)["records"] == []
    api.create("t", cap_records=5)
    api.write("t", 1)
    api.remove("t", before_seq=2)
    api.post("/v0/topics/t/redrive", {})
    api.diff("t")
    api.delete("/v0/topics/t")

    found = acts(api, 4)

    assert [(one["act"], one["name"], one["status"]) for one in found] == [
        ("topic.put", "t", 201),
        ("records.delete", "t", 200),
        ("queue.redrive", "t", 200),
        ("topic.delete", "t", 200),
    ]
    assert found[0]["asked"] == '{"cap_records":5}'
    assert all(one["key"] is None and one["peer"] == "127.0.0.1" for one in found)


def test_a_refused_act_is_written_down_too_and_names_the_key_but_not_its_secret(
    start: Start,
) -> None:
    server = start(PENSTOCK_API_KEYS="the-boss-key,a-reader-key:read")
    boss, reader = api_of(server, "the-boss-key"), api_of(server, "a-reader-key")
    refused(reader.put("/v0/topics/t", {}), 403, "forbidden")
    refused(api_of(server).delete("/v0/topics/t"), 401, "unauthorized")
    boss.create("t")

    found = acts(boss, 3)

    assert [one["status"] for one in found] == [403, 401, 201]
    keys = [one["key"] for one in found]
    assert keys[1] is None
    assert len({keys[0], keys[2], None}) == 3
    assert "asked" not in found[0]
    assert b"-key" not in boss.get("/v0/audit").body
    refused(reader.get("/v0/audit"), 403, "forbidden")


def test_the_audit_survives_a_restart_and_counts_as_no_topic(start: Start) -> None:
    server = start(PENSTOCK_MAX_TOPICS="1")
    api = api_of(server)
    api.create("only")
    acts(api, 1)

    api = restarted(server, "kill")

    assert [one["act"] for one in acts(api, 1)] == ["topic.put"]
    assert [row["topic"] for row in api.get("/v0/topics").json["topics"]] == ["only"]
    refused(api.get("/v0/topics/_audit"), 404, "topic_not_found")
    refused(api.put("/v0/topics/_audit", {}), 400, "invalid_request")


def test_it_is_read_page_by_page(start: Start) -> None:
    api = api_of(start())
    for number in range(5):
        api.create(f"t{number}")
    acts(api, 5)

    first = page(api, "?limit=2")
    rest = page(api, f"?from_seq={first['next_from_seq']}")

    assert [record["data"]["name"] for record in first["records"]] == ["t0", "t1"]
    assert not first["caught_up"]
    assert [record["data"]["name"] for record in rest["records"]] == ["t2", "t3", "t4"]
    assert rest["caught_up"]
