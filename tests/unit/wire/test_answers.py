"""Every answer of the server is an instance of its declared model: no member more, none less."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from penstock.server.http.routes import Routes
from penstock.server.openapi_delayed import DELAYED_OPERATIONS
from penstock.server.openapi_operations import JSON
from penstock.server.openapi_operations import OPERATIONS as OTHERS
from tests.server.routes import routes
from tests.unit.server.support import Site, on_loop

OPERATIONS = OTHERS | DELAYED_OPERATIONS
RECORDS = {"records": [{"data": 1, "tag": "t", "node": "n", "meta": {"k": 1}}, {"data": [2.5]}]}
CALLS: list[tuple[str, str, Any]] = [
    ("PUT", "/v0/topics/t", {"cap_records": 2, "durability": "fsync"}),
    ("POST", "/v0/topics/t", RECORDS),
    ("POST", "/v0/topics/t?return_seqs=false", RECORDS),
    ("POST", "/v0/topics/new", RECORDS),
    ("POST", "/v0/batch", {"writes": [{"topic": "t", **RECORDS}, {"topic": "b", **RECORDS}]}),
    ("POST", "/v0/topics/t", {**RECORDS, "delay_ms": 3_600_000}),
    ("POST", "/v0/topics/t", {**RECORDS, "delay_ms": 3_600_000}),
    ("GET", "/v0/topics/t/delayed?limit=1", None),
    ("GET", "/v0/topics/t/delayed?after=1", None),
    ("DELETE", "/v0/topics/t/delayed/1", None),
    ("GET", "/v0/topics", None),
    ("GET", "/v0/topics?page_size=1&config=true", None),
    ("GET", "/v0/topics/t", None),
    ("POST", "/v0/topics/t/diff", {"include_tags": True}),
    ("POST", "/v0/topics/b/diff", None),
    ("PUT", "/v0/topics/t/positions/c", {"seq": 1}),
    ("GET", "/v0/topics/t/positions/c", None),
    ("GET", "/v0/topics/t/positions", None),
    ("DELETE", "/v0/topics/t/positions/c", None),
    ("POST", "/v0/topics/t/delete", {"before_seq": 6}),
    ("PUT", "/v0/topics/q", {"type": "queue", "durability": "fsync", "queue": {"group_by": "tag"}}),
    ("POST", "/v0/topics/q", RECORDS),
    ("POST", "/v0/topics/q", {"records": [{"data": 3}], "cron": "@daily", "timezone": "UTC"}),
    ("GET", "/v0/topics/q", None),
    ("GET", "/v0/topics/q/schedules", None),
    ("POST", "/v0/topics/q/claim", {"node": "w", "max": 2}),
    ("POST", "/v0/topics/q/extend", {"node": "w", "seqs": [1, 2, 9], "lease_ms": 1000}),
    ("POST", "/v0/topics/q/nack", {"node": "w", "seqs": [1]}),
    ("POST", "/v0/topics/q/ack", {"node": "w", "seqs": [2]}),
    ("POST", "/v0/topics/q/redrive", {"dry_run": True}),
    ("PUT", "/v0/routers/r", {"source": "t", "dest": "copy", "filter": "t*"}),
    ("PUT", "/v0/routers/r2", {"source": "t", "dest": "copy2"}),
    ("GET", "/v0/routers/r", None),
    ("GET", "/v0/routers?page_size=1", None),
    ("DELETE", "/v0/routers/r", None),
    ("POST", "/v0/watch", {"topics": {"t": {}}}),
    ("POST", "/v0/tickets", None),
    ("DELETE", "/v0/topics/t", None),
    ("GET", "/v0/audit", None),
    ("GET", "/v0/metrics", None),
    ("GET", "/v0/health", None),
    ("GET", "/v0/ready", None),
]


ROUTES = Routes(routes())


def model_of(method: str, target: str, status: int) -> Any:
    route, _ = ROUTES.find(method, target.partition("?")[0])
    return OPERATIONS[method, route.template].answers[status].bodies[JSON]


@on_loop
async def test_an_answer_has_the_members_of_its_model_and_no_others() -> None:
    site = Site()
    seen = set()

    for method, target, body in CALLS:
        answer = await site.call(method, target, body, headers={b"accept": b"application/json"})
        assert answer.status in (200, 201), (method, target, answer)
        model = model_of(method, target, answer.status)
        again = msgspec.json.encode(msgspec.json.decode(answer.body, type=model))
        assert json.loads(again) == answer.json, (method, target)
        seen.add(model)

    described = [one.bodies.get(JSON) for op in OPERATIONS.values() for one in op.answers.values()]
    assert seen == {model for model in described if isinstance(model, type)}
    await site.close()
