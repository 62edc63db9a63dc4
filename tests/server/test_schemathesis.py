"""R15: the server does what its own description says, whatever it is asked.

Schemathesis draws requests from `/v0/openapi.json`, good ones and bad ones, and follows its links.
No answer may be 500 or above, have a status that is not described, or a body that does not fit.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import itertools
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky, Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from penstock.wire import binary_batch
from tests.server.conftest import Start
from tests.server.described import NAMES, PREFIX, Allowed, narrowed, strict
from tests.server.support import BATCH
from tests.support import rig, seeds
from tests.support.serving import DEADLINE_S

REQUESTS = 20_000 if rig.IS_FULL else 1_600
LINKED = 2_000 if rig.IS_FULL else 450  # of them along links
ROUND = 20 if rig.IS_FULL else 8  # examples of a route before the next has its turn
OWNER = {"Authorization": "Bearer owner"}
KEYS = f"owner,reader:read:{PREFIX},clerk:write:zz"

CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
QUIET: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "phases": [Phase.generate],
    "suppress_health_check": list(HealthCheck),
}


STREAMS = {"stream", "socket", "work", "sender", "qwpWrite", "qwpWriteToo"} | {
    "watchTable",
    "watchFeatures",
}
# Succeeds with a snapshot on the server's disk, as in test_feature_snapshots.py.
LOADS = {"loadFeatures"}
LATER = {"records": [{"data": 5}], "delay_ms": 3_600_000}
FEATURES = {
    "events": [{"name": "Job", "topic": "jobs.done", "fields": {"id": "str"}}],
    "tables": [{"name": "jobs", "from": "Job", "key": ["id"], "features": {"n": {"op": "count"}}}],
    "wait_ms": 10_000,
}


def bodies() -> st.SearchStrategy[bytes]:
    """Binary batches: whole ones, and bytes that only begin like one."""
    texts = st.sampled_from([b"1", b"{}", b'{"w":41}', b"[", b"\xff"])
    heads = st.sampled_from([{}, {"node": "n"}, {"expected_seq": 1}, {"node": 1}])
    short = st.none() | st.sampled_from([b"a", b"b" * 300, b"\xff"])
    rows = st.lists(st.tuples(texts, st.none() | texts, short, short), max_size=3)

    def body(head: dict[str, Any], found: list[tuple[Any, ...]]) -> bytes:
        return binary_batch.encode_write(head, *([row[at] for row in found] for at in range(4)))

    whole = st.builds(body, heads, rows)
    return whole | st.builds(bytes.__add__, whole, st.binary(max_size=3)) | st.binary(max_size=40)


schemathesis.openapi.media_type(BATCH, bodies())


def _bytes(body: bytes | str | None) -> bytes:
    return body.encode() if isinstance(body, str) else body or b""


class Callers(requests.Session):
    """A connection whose every answer is held against the description, and counted."""

    def __init__(self, home: str) -> None:
        super().__init__()
        self.trust_env = False
        self.home = home
        self.seen: collections.Counter[tuple[str, int]] = collections.Counter()
        self.document = self.get(f"{home}/v0/openapi.json", timeout=DEADLINE_S).json()
        self.allowed = Allowed(self.document)

    @property
    def count(self) -> int:
        """Requests whose answers were looked at."""
        return self.seen.total()

    def ask(self, case: Case, key: str | None, **headers: str) -> None:
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        self.hold(case, case.call(session=self, headers=headers, timeout=DEADLINE_S))

    def hold(self, case: Case, response: schemathesis.Response) -> None:
        name, status = case.operation.definition.raw["operationId"], response.status_code
        self.seen[name, status] += 1
        assert status < 500, f"{status}: {case.as_curl_command()}"
        case.validate_response(response, checks=CHECKS)
        if status < 300:
            sent = response.request
            kind = str(sent.headers.get("Content-Type", ""))
            complaint = self.allowed.complaint(name, str(sent.url), kind, _bytes(sent.body))
            assert complaint is None, f"accepted, but {complaint}: {case.as_curl_command()}"

    def put_through(self, case: Case, number: int) -> None:
        """The same request by several callers: who may, who repeats it and wants another form,
        who may do little, who has no key, and at times who calls it something else."""
        self.ask(case, "owner")
        self.ask(case, "owner", Accept=("application/json", BATCH)[number % 2])
        self.ask(case, ("reader", "clerk")[number % 2])
        self.ask(case, None)
        if number % 10 == 0:
            self.ask(case, "owner", **{"Content-Type": "text/plain"})


@pytest.fixture
def callers(start: Start) -> Iterator[Callers]:
    server = start(
        PENSTOCK_API_KEYS=KEYS,
        PENSTOCK_MAX_WATCH_SESSIONS="0",
        PENSTOCK_MAX_SSE_CONNECTIONS="1",  # which is open: another would be waited for
        PENSTOCK_SEGMENT_MAX_EVENTS="4",  # so that records are soon in files of every kind
        PENSTOCK_CHECKPOINT_WAL_BYTES="65536",
        PENSTOCK_MAX_ROUTERS="20",  # chance would soon lead everything everywhere
    )
    host, port = server.connect_to
    home = f"http://{host}:{port}"
    with Callers(home) as session, requests.Session() as watcher:
        made = watcher.post(f"{home}/v0/watch", json={"topics": {"zz*": {}}}, headers=OWNER)
        url = home + made.json()["stream_url"]
        with watcher.get(url, headers=OWNER, stream=True, timeout=DEADLINE_S):
            yield session


def described(callers: Callers) -> Any:
    schema = schemathesis.openapi.from_dict(narrowed(strict(copy.deepcopy(callers.document))))
    schema.config.update(base_url=callers.home)
    return schema


def call_each_once(schema: Any, callers: Callers) -> None:
    """A queue and a router, which chance hardly ever makes, and each call on them once; and each
    call that needs a topic or its records, which chance may miss."""
    topic, router = "/v0/topics/{topic}", "/v0/routers/{router}"
    position, table = f"{topic}/positions/{{name}}", "/v0/tables/{table}"
    read = {"table": "jobs", "key": "a"}
    for method, path, body in (
        ("PUT", topic, {"type": "queue", "queue": {"group_by": "tag", "retry_base_ms": 1000}}),
        ("POST", topic, {"records": [{"data": 1}, {"data": 2}], "delay_ms": 1}),
        ("POST", topic, {"records": [{"data": 3, "tag": "t"}]}),
        ("POST", f"{topic}/claim", {"node": "w", "max": 4, "wait_ms": 1000}),
        ("POST", f"{topic}/extend", {"node": "w", "seqs": [1, 2, 4], "lease_ms": 1000}),
        ("POST", f"{topic}/nack", {"node": "w", "seqs": [2]}),
        ("POST", f"{topic}/ack", {"node": "w", "seqs": [1, 4]}),
        ("POST", f"{topic}/redrive", {"dry_run": True}),
        ("POST", topic, {"records": [{"data": 4}], "cron": "@daily", "timezone": "UTC"}),
        ("GET", f"{topic}/schedules", None),
        ("PUT", router, {"source": "jobs", "dest": "jobs.copy", "filter": "t*"}),
        ("GET", router, None),
        ("GET", "/v0/routers", None),
        ("DELETE", router, None),
        ("POST", topic, LATER),
        ("GET", f"{topic}/delayed", None),
        ("DELETE", f"{topic}/delayed/{{delayed_id}}", None),
        ("GET", topic, None),
        ("POST", f"{topic}/diff", {"from_seq": 0}),
        ("PUT", position, {"seq": 1}),
        ("GET", position, None),
        ("GET", f"{topic}/positions", None),
        ("DELETE", position, None),
        ("POST", f"{topic}/delete", {"before_seq": 2}),
        ("PUT", table, {"key": "id"}),
        ("POST", topic, {"records": [{"data": {"id": "jobs"}}]}),
        ("GET", "/v0/tables", None),
        ("GET", table, None),
        ("GET", f"{table}/rows", None),
        ("GET", f"{table}/rows/{{key}}", None),
        ("POST", f"{table}/rebuild", None),
        ("DELETE", table, None),
        ("POST", "/v0/features/definition", FEATURES),
        ("GET", "/v0/features/definition", None),
        ("POST", "/v0/features/push/{event}", [{"id": "a"}, {"id": "b"}]),
        ("POST", "/v0/features/push_get", {"event": "Job", "data": {"id": "a"}, "reads": [read]}),
        ("POST", "/v0/features/get", read),
        ("POST", "/v0/features/batch_get", {"requests": [read]}),
        ("GET", "/v0/features/tables", None),
        ("GET", "/v0/features/tables/{feature_table}", None),
        ("POST", "/v0/features/scan", {"table": "jobs"}),
        ("POST", "/v0/batch", {"writes": [{"topic": "jobs", "records": [{"data": 5}]}]}),
        ("POST", "/v0/watch", {"topics": {"jobs": {"from_seq": 0}}}),
        ("POST", "/v0/tickets", None),
        ("DELETE", topic, None),
    ):
        operation = schema[path][method]
        given = {} if body is None else {"body": body, "media_type": "application/json"}
        names = dict.fromkeys(re.findall(r"{(\w+)}", path), "jobs")
        if "event" in names:
            names["event"] = "Job"
        if body is LATER or "delayed" in path:  # no queue, as `jobs` is
            names["topic"] = "jobs.later"
        if "delayed_id" in names:
            url = f"{callers.home}/v0/topics/jobs.later/delayed"
            answer = callers.get(url, headers=OWNER, timeout=DEADLINE_S).json()
            names["delayed_id"] = answer["delayed"][0]["id"]
        case = operation.Case(method=method, path_parameters=names, **given)
        callers.ask(case, "owner")


def test_whatever_is_asked_the_answer_is_one_that_is_described(
    callers: Callers, capsys: pytest.CaptureFixture[str]
) -> None:
    load_all_checks()
    start = seeds.new_seed(fixed=seeds.SCHEMATHESIS)
    schema = described(callers)
    began, spent = time.monotonic(), time.process_time()

    follow_links(schema, callers, start)
    linked = callers.count
    call_each_once(schema, callers)
    try_routes(schema, callers, start)

    took, used = time.monotonic() - began, time.process_time() - spent
    with capsys.disabled():
        rig.say(
            f"R15: seed {start}: {callers.count} requests, {linked} of them along links, "
            f"none answered with 500 or above; {took:.0f} s, {used:.0f} s of CPU here"
        )
    assert callers.count >= REQUESTS
    statuses = {status for _, status in callers.seen}
    assert {200, 201, 400, 401, 403, 404, 406, 409, 415} <= statuses, sorted(statuses)
    good = {name for name, status in callers.seen if status < 300}
    routes = {route.ok().definition.raw["operationId"] for route in schema.get_all_operations()}
    assert good - LOADS == routes - STREAMS - LOADS, "every route has succeeded at least once"


def try_routes(schema: Any, callers: Callers, start: int) -> None:
    """Every route in turn, with good and with bad data, until there were enough requests."""
    waiting = [
        (route.ok(), mode) for route in schema.get_all_operations() for mode in GenerationMode
    ]
    strategies = {
        (route.label, mode): route.as_strategy(generation_mode=mode) for route, mode in waiting
    }
    numbers = itertools.count()
    for turn in itertools.count():
        for route, mode in list(waiting):
            before = callers.count

            @seed(start + turn)
            @settings(max_examples=ROUND, **QUIET)
            @given(case=strategies[route.label, mode])
            def put_through(case: Case) -> None:
                callers.put_through(case, next(numbers))

            try:
                put_through()
            except Unsatisfiable:  # nothing about it can be wrong
                waiting.remove((route, mode))
            else:
                if callers.count - before < ROUND:  # all there is has been tried
                    waiting.remove((route, mode))
            if turn and callers.count >= REQUESTS:
                return
        if callers.count >= REQUESTS:  # after the first turn, so that every route has had one
            return


def follow_links(schema: Any, callers: Callers, start: int) -> None:
    """Sequences along the links, by the owner: what one answer names, the next request uses."""

    def forget_all() -> None:
        """Each walk begins at the same place, so that the same choices lead the same way."""
        for name in NAMES:
            callers.delete(f"{callers.home}/v0/topics/{name}", headers=OWNER, timeout=DEADLINE_S)

    class Machine(
        schema.exclude(operation_id=["stream", "watchTable", "watchFeatures"]).as_state_machine()
    ):  # type: ignore[misc]
        def setup(self) -> None:
            super().setup()
            forget_all()

        def get_call_kwargs(self, case: Case) -> dict[str, Any]:
            return {"session": callers, "headers": OWNER, "timeout": DEADLINE_S}

        def validate_response(self, response: Any, case: Case, **_: Any) -> None:
            callers.hold(case, response)

    for turn in itertools.count():
        seed(start + turn)(Machine)
        with contextlib.suppress(Flaky):  # a record that expired meanwhile led another way
            Machine.run(settings=settings(max_examples=20, stateful_step_count=10, **QUIET))
        if callers.count >= LINKED:
            return


def test_the_names_are_names() -> None:
    """Else the machine above would only ever be told so."""
    assert all(name == name.strip() and "/" not in name for name in NAMES)
