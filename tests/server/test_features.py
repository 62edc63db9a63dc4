"""Features over HTTP: register, push, get, watch."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from penstock.limits import FEATURE_BYTES_MAX
from penstock.server.features import FeatureService
from tests.server.conftest import Start
from tests.server.support import Api, api_of, refused


def nodes(**features: Any) -> dict[str, Any]:
    return {
        "events": [{"name": "Ride", "topic": "rides", "fields": {"rider": "str", "fare": "f64"}}],
        "tables": [{"name": "Riders", "from": "Ride", "key": ["rider"], "features": features}],
    }


COUNT = {"op": "count", "window": "1h"}
SUM = {"op": "sum", "field": "fare"}


@pytest.fixture
def api(start: Start) -> Api:
    """The registry is the server's own: each test has a server."""
    return api_of(start())


def register(api: Api, document: dict[str, Any], **options: Any) -> Any:
    reply = api.post("/v0/features/definition", {**document, **options})
    assert reply.status == 200, reply
    return reply.json


def push(api: Api, *events: Any, query: str = "") -> Any:
    reply = api.post(f"/v0/features/push/Ride{query}", list(events))
    assert reply.status == 200, reply
    return reply.json


def row(api: Api, key: Any, **options: Any) -> Any:
    reply = api.post("/v0/features/get", {"table": "Riders", "key": key, **options})
    assert reply.status == 200, reply
    return reply.json["row"]


def ride(rider: str, fare: float) -> dict[str, Any]:
    return {"rider": rider, "fare": fare}


def test_features_are_registered_pushed_read_and_seen_after_a_restart(start: Start) -> None:
    server = start()
    api = api_of(server)

    registered = register(api, nodes(n=COUNT, spend=SUM), wait_ms=5000)
    pushed = push(api, ride("ana", 1.5), ride("bo", 2), ride("ana", 3))
    one = api.post("/v0/features/push/Ride?sync=per_event", ride("ana", 0.5)).json

    assert (registered["version"], registered["changed"]) == (1, True)
    assert (pushed["topic"], pushed["first_seq"], pushed["count"]) == ("rides", 1, 3)
    assert (one["count"], one["last_seq"]) == (1, 4)
    assert row(api, "ana") == {"n": 3, "spend": 5.0}
    assert row(api, "nobody") == {}
    assert row(api, "ana", features=["n"]) == {"n": 3}
    assert row(api, "ana", as_of_seq=1) == {"n": 1, "spend": 1.5}
    server.kill()
    again = api_of(server.start())
    assert row(again, "ana") == {"n": 3, "spend": 5.0}
    definition = again.get("/v0/features/definition").json
    assert [table["name"] for table in definition["tables"]] == ["Riders"]


def test_a_row_of_an_earlier_time_is_refused_when_its_history_is_gone(api: Api) -> None:
    register(api, nodes(n=COUNT), wait_ms=5000)
    for _ in range(3):
        push(api, ride("ana", 1))
    assert api.post("/v0/topics/rides/delete", {"before_seq": 3}).status == 200

    reply = api.post("/v0/features/get", {"table": "Riders", "key": "ana", "as_of_seq": 2})

    refused(reply, 410, "history_gone")
    assert reply.json["error"]["detail"] == {"topic": "rides", "earliest_seq": 3}
    later = api.post("/v0/features/get", {"table": "Riders", "key": "ana", "as_of_seq": 4})
    refused(later, 400, "invalid_request")
    assert row(api, "ana", as_of_seq=3) == {"n": 3}


def test_two_histories_are_folded_at_a_time_and_other_reads_do_not_wait() -> None:
    """The threads belong to all."""

    async def tried() -> None:
        service = _SlowService()
        features = FeatureService(cast(Any, service))
        folds = [
            asyncio.create_task(features.get("T", "k", None, as_of_seq=seq)) for seq in range(6)
        ]
        for _ in range(10):
            await asyncio.sleep(0)
        assert (service.running, service.ended) == (2, 0)
        assert await features.get("T", "k", None) == {"now": 1}
        folds[4].cancel()
        service.may_end.set()
        rows = await asyncio.gather(*folds, return_exceptions=True)
        assert [row for row in rows if row == {"n": 1}] == [{"n": 1}] * 5
        assert (service.running, service.ended) == (0, 5)

    asyncio.run(tried())


class _SlowService:
    """Folds of histories wait until they may end."""

    def __init__(self) -> None:
        self.core = self.features = self.store = self
        self.may_end = asyncio.Event()
        self.running = self.ended = 0

    def is_quick(self, *_: Any) -> bool:
        return True

    def get(self, *_: Any, **named: Any) -> dict[str, Any]:
        return {"n": 1} if "as_of_seq" in named else {"now": 1}

    async def run(self, call: Any, *args: Any, **named: Any) -> Any:
        self.running += 1
        await self.may_end.wait()
        self.running, self.ended = self.running - 1, self.ended + 1
        return call(*args, **named)


def test_a_wrong_event_is_refused_with_its_field_and_nothing_is_appended(api: Api) -> None:
    register(api, nodes(n=COUNT))

    for wrong, why in (
        ([ride("ana", 1), {"rider": "ana"}], "fare"),
        ({"rider": 7, "fare": 1}, "rider"),
        ({**ride("ana", 1), "tip": 2}, "tip"),
        ([], "no event"),
    ):
        reply = api.post("/v0/features/push/Ride", wrong)
        refused(reply, 400, "invalid_request")
        assert why in reply.json["error"]["message"]

    assert row(api, "ana") == {}


def test_names_that_are_not_there_are_told_with_the_nearest(api: Api) -> None:
    register(api, nodes(n=COUNT))

    refused(api.post("/v0/features/get", {"table": "Riderz", "key": "a"}), 404, "table_not_found")
    refused(api.get("/v0/features/tables/Riderz"), 404, "table_not_found")
    unknown = api.post("/v0/features/push/Rides", ride("a", 1))
    refused(unknown, 400, "invalid_request")
    assert "'Ride'" in unknown.json["error"]["message"]
    feature = api.post("/v0/features/get", {"table": "Riders", "key": "a", "features": ["m"]})
    refused(feature, 400, "invalid_request")


def test_a_change_that_loses_state_needs_force(api: Api) -> None:
    register(api, nodes(n=COUNT, spend=SUM))
    push(api, ride("ana", 2))
    fewer = nodes(n=COUNT)

    reply = api.post("/v0/features/definition", fewer)

    refused(reply, 409, "force_required")
    assert reply.json["error"]["detail"]["changes"][0]["name"] == "Riders.spend"
    assert register(api, fewer, dry_run=True)["version"] == 1
    assert register(api, fewer, force=True)["version"] == 2
    assert row(api, "ana") == {"n": 1}


def test_an_added_feature_is_built_from_history(api: Api) -> None:
    register(api, nodes(n=COUNT))
    push(api, *(ride("ana", number) for number in range(100)))

    answer = register(api, nodes(n=COUNT, spend=SUM), wait_ms=10_000)

    assert answer["tables"] == {"Riders": "ready"}
    assert row(api, "ana") == {"n": 100, "spend": 4950.0}


def test_many_rows_are_read_at_once_with_errors_in_their_places(api: Api) -> None:
    register(api, nodes(n=COUNT))
    push(api, ride("ana", 1))

    reads = [
        {"table": "Riders", "key": "ana"},
        {"table": "Nowhere"},
        {"table": "Riders", "key": 7},
    ]
    results = api.post("/v0/features/batch_get", {"requests": reads}).json["results"]
    both = api.post(
        "/v0/features/push_get", {"event": "Ride", "data": ride("ana", 2), "reads": reads[:1]}
    ).json

    assert results[0] == {"row": {"n": 1}}
    assert [set(result) for result in results[1:]] == [{"error"}] * 2
    assert both["pushed"]["count"] == 1
    assert both["results"] == [{"row": {"n": 2}}]


def test_tables_show_their_parts_and_watermarks(api: Api) -> None:
    register(api, nodes(n=COUNT))
    push(api, ride("ana", 1), ride("bo", 1), query="?sync=per_event")
    row(api, "ana")

    (table,) = api.get("/v0/features/tables").json["tables"]

    assert (table["name"], table["topic"], table["state"]) == ("Riders", "rides", "ready")
    assert (table["on_gap"], table["ids"]) == ("accept", None)
    marks = table["watermarks"]
    assert marks["committed"] == marks["written"] == marks["synced"] == marks["applied"] == 2
    (part,) = table["parts"]
    assert (part["keys"], part["keys_on_disk"], part["evicted"], part["reloaded"]) == (2, 0, 0, 0)
    assert 0 < part["bytes"] < part["bytes_max"] == FEATURE_BYTES_MAX
    assert part["disk_bytes"] == 0
    assert api.get("/v0/features/tables/Riders").json["table"]["name"] == "Riders"


def test_a_key_with_prefixes_uses_the_tables_of_its_topics(start: Start) -> None:
    keys = "root:r+w+a,mine:r+w:rides,other:r+w:orders,boss:a:rides"
    server = start(PENSTOCK_API_KEYS=keys)
    register(api_of(server, "root"), nodes(n=COUNT))
    mine, other = api_of(server, "mine"), api_of(server, "other")
    read = {"table": "Riders", "key": "ana"}

    push(mine, ride("ana", 1))

    assert row(mine, "ana") == {"n": 1}
    assert [one["name"] for one in mine.get("/v0/features/tables").json["tables"]] == ["Riders"]
    assert mine.get("/v0/features/definition").json["tables"][0]["name"] == "Riders"
    assert 'penstock_features_keys{table="Riders"} 1' in mine.get("/v0/metrics").body.decode()
    boss = api_of(server, "boss").post("/v0/features/definition", nodes())
    refused(boss, 403, "forbidden")
    for reply in (
        other.post("/v0/features/push/Ride", ride("ana", 1)),
        other.post("/v0/features/push_get", {"event": "Ride", "data": ride("ana", 1)}),
        other.post("/v0/features/get", read),
        other.post("/v0/features/batch_get", {"requests": [read]}),
        other.get("/v0/features/tables/Riders"),
        other.get("/v0/features/watch/Riders?key=ana"),
    ):
        refused(reply, 403, "forbidden")
    assert other.get("/v0/features/tables").json["tables"] == []
    seen = other.get("/v0/features/definition").json
    assert (seen["events"], seen["tables"]) == ([], [])
    assert b"Riders" not in other.get("/v0/metrics").body


def test_a_key_with_prefixes_learns_no_names_of_others(start: Start) -> None:
    server = start(PENSTOCK_API_KEYS="root,other:r+w:orders")
    register(api_of(server, "root"), nodes(n=COUNT))
    other = api_of(server, "other")

    replies = [
        other.post("/v0/features/push/Rid", ride("ana", 1)),
        other.post("/v0/features/get", {"table": "Rider", "key": "ana"}),
        other.post("/v0/features/batch_get", {"requests": [{"table": "Rider"}]}),
    ]

    for reply in replies:
        refused(reply, 403, "forbidden")
        assert b"Ride'" not in reply.body
        assert b"rides" not in reply.body


def test_a_definition_that_does_not_fit_names_the_place(api: Api) -> None:
    wrong = nodes(n={"op": "cuont"})

    reply = api.post("/v0/features/definition", wrong)

    refused(reply, 400, "invalid_request")
    assert "Riders" in reply.json["error"]["message"]
    assert "count" in reply.json["error"]["message"]
    assert json.loads(json.dumps(wrong)) == wrong


@pytest.mark.parametrize("dedupe", [None, {"field": "rider", "window": "1d"}], ids=["all", "ids"])
def test_a_push_counts_towards_the_bytes_of_the_server(
    start: Start, dedupe: dict[str, str] | None
) -> None:
    api = api_of(start(PENSTOCK_MAX_TOTAL_BYTES="1000"))
    document = nodes(n={"op": "count"})
    if dedupe is not None:
        document["events"][0]["dedupe"] = dedupe
    register(api, document)

    push(api, *(ride(f"r{n}", n) for n in range(20)))
    reply = api.post(
        "/v0/features/push/Ride", [ride(f"s{n:07}{n}{'x' * 20}", n) for n in range(20)]
    )

    refused(reply, 429, "throttled")
    assert row(api, "r0") == {"n": 1}
    assert row(api, f"s{0:07}0{'x' * 20}") == {}
