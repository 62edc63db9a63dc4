"""Tables over HTTP, and through both clients."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import penstock
from penstock.errors import InvalidArgument, ProjectionFailed, TableExists, TableNotFound
from penstock.projection_types import TableChange
from penstock.types import Offset
from tests.server.conftest import Start
from tests.server.support import Api, api_of, new_name, refused
from tests.support.serving import Server, eventually


def url_of(server: Server) -> str:
    return f"http://127.0.0.1:{server.address[1]}"


def path(table: str, more: str = "") -> str:
    return f"/v0/tables/{table}{more}"


def make(api: Api, table: str, key: str = "id", **options: Any) -> Any:
    reply = api.put(path(table), {"key": key, **options})
    assert reply.status in (200, 201), reply.body
    return reply.json


def keys(api: Api, table: str, query: str = "") -> list[Any]:
    reply = api.get(path(table, "/rows" + query))
    assert reply.status == 200, reply.body
    return [row["key"] for row in reply.json["rows"]]


def test_a_new_table_says_what_it_is(api: Api, topic: str) -> None:
    first = api.put(path(topic), {"key": "id", "on_gap": "fail", "bytes_max": 5000})
    again = api.put(path(topic), {"key": "id", "on_gap": "rebuild"})

    assert (first.status, first.json["created"]) == (201, True)
    assert (again.status, again.json["created"]) == (200, False)
    assert (again.json["on_gap"], again.json["bytes_max"]) == ("rebuild", 5000)
    got = api.get(path(topic)).json
    assert (got["table"], got["topic"], got["key"], got["rows"]) == (topic, topic, "id", 0)


def test_a_reader_sees_what_was_appended_before(api: Api, topic: str) -> None:
    make(api, topic)
    api.write(topic, {"id": "b/ä"}, {"id": 5}, {"id": True}, {"id": "a", "n": [1.50]})

    assert keys(api, topic) == [True, 5, "a", "b/ä"]
    row = api.get(path(topic, "/rows/a"))
    assert (row.json["value"], row.json["seq"]) == ({"id": "a", "n": [1.50]}, 4)
    assert b'"n":[1.5' in row.body
    assert api.get(path(topic, "/rows/b%2F%C3%A4")).json["key"] == "b/ä"
    assert api.get(path(topic, "/rows/5?key_type=int")).json["key"] == 5
    assert api.get(path(topic, "/rows/true?key_type=bool&eventual=true")).json["key"] is True
    refused(api.get(path(topic, "/rows/5")), 404, "row_not_found")


def test_rows_come_in_pages(api: Api, topic: str) -> None:
    make(api, topic)
    api.write(topic, *({"id": key} for key in ("x1", "x2", "y", 1, 2)))

    page = api.get(path(topic, "/rows?limit=2")).json
    assert (page["next_after"], page["count"], page["offset"]["seq"]) == (2, 5, 5)
    assert keys(api, topic, "?limit=2&after=2&after_type=int") == ["x1", "x2"]
    last = api.get(path(topic, "/rows?after=x2")).json
    assert "next_after" not in last
    assert keys(api, topic, "?prefix=x") == ["x1", "x2"]


def test_refusals(api: Api, topic: str) -> None:
    make(api, topic)

    refused(api.get(path(new_name())), 404, "table_not_found")
    refused(api.get(path(new_name(), "/rows")), 404, "table_not_found")
    refused(api.get(path(new_name(), "/watch")), 404, "table_not_found")
    refused(api.put(path(topic), {"key": "other"}), 409, "table_exists")
    for body in ({}, {"key": ""}, {"key": 5}, {"key": "a", "on_gap": "x"}, {"key": "a\\"}):
        refused(api.put(path(new_name()), body), 400, "invalid_request")
    refused(api.put(path("a b".replace(" ", "%20")), {"key": "id"}), 400, "invalid_request")
    refused(api.get(path(topic, "/rows/x?key_type=int")), 400, "invalid_request")
    refused(api.get(path(topic, "/rows/x?key_type=z")), 400, "invalid_request")
    refused(api.get(path(topic, "/watch?epoch=5")), 400, "invalid_request")
    refused(api.get(path(topic, "/watch"), {"Accept": "text/html"}), 406, "not_acceptable")


def test_a_table_that_has_stopped_says_so_until_it_is_rebuilt(api: Api, topic: str) -> None:
    make(api, topic, bytes_max=300)
    api.write(topic, *({"id": n} for n in range(20)))

    refused(api.get(path(topic, "/rows")), 409, "table_failed")
    assert "bytes of memory" in api.get(path(topic)).json["progress"]["reason"]
    make(api, topic, bytes_max=100_000)
    assert len(keys(api, topic)) == 20
    assert api.post(path(topic, "/rebuild"), {}).status == 200
    assert len(keys(api, topic)) == 20


def test_a_long_topic_is_not_read_while_its_reader_waits(api: Api, topic: str) -> None:
    records = [{"data": {"id": number}} for number in range(10_000)]
    for _ in range(25):
        assert api.post(f"/v0/topics/{topic}", {"records": records}).status in (200, 201)
    make(api, topic)

    reply = api.get(path(topic, "/rows?limit=1"))
    refused(reply, 503, "table_not_ready")
    assert int(reply.headers["retry-after"]) >= 1

    eventually(
        lambda: api.get(path(topic)).json["progress"]["state"] == "ready", "the table is ready"
    )
    assert api.get(path(topic, "/rows?limit=1")).json["count"] == 10_000


def test_tables_are_listed_and_deleted(api: Api) -> None:
    prefix = new_name("list")
    for number in range(3):
        make(api, f"{prefix}-{number}")

    page = api.get(f"/v0/tables?prefix={prefix}&page_size=2").json
    rest = api.get(f"/v0/tables?prefix={prefix}&page_size=2&cursor={page['next_cursor']}").json
    names = [one["table"] for one in page["tables"] + rest["tables"]]
    assert names == [f"{prefix}-{number}" for number in range(3)]

    assert api.delete(path(names[0])).json["deleted"] is True
    assert api.delete(path(names[0])).json["deleted"] is False
    refused(api.get(path(names[0])), 404, "table_not_found")


def test_a_key_needs_the_names_of_the_table_and_of_its_topic(start: Start) -> None:
    keys_ = "boss:rw+del+a,ann:rw+del+a:a-"
    api = api_of(start(PENSTOCK_API_KEYS=keys_))
    boss, ann = api.as_key("boss"), api.as_key("ann")
    make(boss, "a-secret", topic="b")
    make(ann, "a-own")

    refused(ann.get(path("a-secret")), 403, "forbidden")
    refused(ann.get(path("a-secret", "/rows")), 403, "forbidden")
    refused(ann.put(path("a-more"), {"key": "id", "topic": "b"}), 403, "forbidden")
    refused(ann.delete(path("a-secret")), 403, "forbidden")
    assert [one["table"] for one in ann.get("/v0/tables").json["tables"]] == ["a-own"]


def test_tables_survive_a_restart(start: Start) -> None:
    server = start()
    api = api_of(server)
    make(api, "t")
    api.write("t", {"id": 1}, {"id": 2})
    assert keys(api, "t") == [1, 2]
    server.stop()
    server.start()

    assert keys(api_of(server), "t") == [1, 2]


def test_both_clients_have_the_verbs(shared: Server, topic: str) -> None:
    async def over_asyncio() -> list[object]:
        async with penstock.AsyncClient(url_of(shared)) as client:
            table = await client.table(topic, "id")
            row = await table.get("a")
            found = [one async for one in table.watch(Offset(0, 0), timeout_s=0.3)]
            return [row and row.value, await table.count(), len(found), await table.get("")]

    with penstock.connect(url_of(shared)) as client:
        table = client.table(topic, "id")
        client.append(topic, [{"id": "a"}, {"id": ""}, {"id": 7}])
        assert [row.key for row in table.scan().rows] == [7, "", "a"]
        assert table.scan(limit=1).next_after == 7
        row = table.get("")
        assert row is not None
        assert (row.seq, table.get("nothing"), table.count(eventual=True)) == (2, None, 3)
        with pytest.raises(TableExists):
            client.table(topic, "other")
        with pytest.raises(TableNotFound):
            client.table(new_name())
        with pytest.raises(InvalidArgument):
            table.get(1.5)  # type: ignore[arg-type]
        seen = asyncio.run(over_asyncio())
        assert seen[:3] == [{"id": "a"}, 3, 3]
        table.rebuild()
        assert [one.name for one in client.tables(topic)] == [topic]
        client.table(topic, "id", bytes_max=10)
        client.append(topic, [{"id": "b"}])
        with pytest.raises(ProjectionFailed):
            table.count()
        assert client.drop_table(topic)
        assert not client.drop_table(topic)


def test_a_watch_gives_changes_and_ends_when_the_rows_must_be_read_again(
    shared: Server, topic: str
) -> None:
    with penstock.connect(url_of(shared)) as client:
        table = client.table(topic, "id")
        client.append(topic, [{"id": "a"}])
        offset = table.scan().offset
        assert offset is not None
        watch = table.watch(Offset(offset.epoch, 0))
        first = next(watch)
        client.append(topic, [penstock.Record(data=None, tag="a")])
        second = next(watch)
        assert isinstance(first, TableChange)
        assert isinstance(second, TableChange)
        assert (first.value, second.value, second.is_deleted) == ({"id": "a"}, None, True)
        assert second.offset == Offset(offset.epoch, 2)

        client.drop(topic)
        client.append(topic, [{"id": "b"}])
        assert list(watch) == []
        with pytest.raises(InvalidArgument, match="scan again"):
            list(table.watch(offset))
