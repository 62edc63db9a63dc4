"""S27: names are strangers' text, and metrics are made of names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from tests.server.conftest import Start
from tests.server.h2wire import Http2
from tests.server.support import Api, api_of
from tests.server.wire import Connection
from tests.support.serving import Server, eventually

TOPICS = 10_000 if os.environ.get("PENSTOCK_RIG") == "full" else 3_000
SERIES = 1_000
PER_TOPIC = re.compile(r'^(penstock_\w+)\{topic="([^"]+)"\} ', re.MULTILINE)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with very many topics."""
    env = {"PENSTOCK_API_KEYS": "full,tenant:read:zz-,ann:read:ann-"}
    server = Server(tmp_path_factory.mktemp("crowded"), env).start()
    body = b'{"durability":"ephemeral"}'
    names = [f"t{number:05}" for number in range(TOPICS - 2)] + ["zz-one", "zz-two"]
    fields = {"Content-Type": "application/json", "Authorization": "Bearer full"}
    with Connection(server.address) as wire:
        for begin in range(0, TOPICS, 100):
            part = names[begin : begin + 100]
            for name in part:
                wire.send_request("PUT", f"/v0/topics/{name}", body, fields)
            for _ in part:
                assert wire.read_reply().status == 201
    yield server
    server.close()


def metrics(api: Api) -> str:
    reply = api.get("/v0/metrics")
    assert reply.status == 200
    return reply.body.decode()


def test_metrics_are_bounded_however_many_topics_there_are(crowded: Server) -> None:
    """S27: at most so many names, and a flag that says that there are more."""
    text = metrics(api_of(crowded, "full"))

    found: dict[str, set[str]] = {}
    for series, name in PER_TOPIC.findall(text):
        found.setdefault(series, set()).add(name)
    assert found
    assert {len(names) for names in found.values()} == {SERIES}
    assert f"\npenstock_topics {TOPICS}\n" in text
    assert "\npenstock_topic_metrics_truncated 1\n" in text
    assert len(text) < 1_000_000
    values = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(values) < SERIES * len(found) + 200


def test_a_key_sees_the_names_it_may_use_and_no_others(crowded: Server) -> None:
    """S27: no foreign name is shown, and a thousand of them do not crowd out one's own."""
    text = metrics(api_of(crowded, "tenant"))

    assert {name for _, name in PER_TOPIC.findall(text)} == {"zz-one", "zz-two"}
    assert "\npenstock_topic_metrics_truncated 0\n" in text
    assert PER_TOPIC.findall(metrics(api_of(crowded, "ann"))) == []


def test_no_other_label_comes_from_a_caller(crowded: Server) -> None:
    """S27: paths, methods, keys and tags are no labels."""
    api = api_of(crowded, "full")
    before = set(re.findall(r"^(\w+\{?[a-z]*)", metrics(api), re.MULTILINE))
    for number in range(200):
        api.get(f"/v0/no-{number}")
        api.as_key(f"no-{number}").get("/v0/topics")
    api.write(
        "zz-one", records=[{"data": 1, "tag": f"tag-{n}", "node": f"n{n}"} for n in range(200)]
    )

    text = metrics(api)

    assert set(re.findall(r"^(\w+\{?[a-z]*)", text, re.MULTILINE)) == before
    assert "no-1" not in text
    assert "tag-1" not in text


def test_health_is_open_and_metrics_are_not(crowded: Server) -> None:
    """S27: what a stranger learns is that the server lives."""
    nobody = api_of(crowded)

    assert nobody.get("/v0/health").status == 200
    assert set(nobody.get("/v0/ready").json) == {"status", "wal_replay_complete", "topics"}
    for target in ("/v0/metrics", "/v0/topics", "/v0/debug", "/metrics"):
        assert nobody.get(target).status == 401


def test_probes_can_be_closed_and_no_spelling_opens_them(start: Start) -> None:
    """S27: PENSTOCK_PROBE_AUTH holds for the route, not for the text of the path."""
    server = start(PENSTOCK_API_KEYS="full", PENSTOCK_PROBE_AUTH="1")
    eventually(lambda: api_of(server, "full").get("/v0/ready").status == 200, "readiness")

    for path in ("/v0/health", "/healthz", "/v0/ready", "/readyz"):
        assert api_of(server).get(path).status == 401
        assert api_of(server, "full").get(path).status == 200
        for spelling in (f"*{path}", f"/{path}", f"{path}/", f"/.{path}", path.upper()):
            with Connection(server.address) as wire:
                assert wire.request("GET", spelling).status in (400, 401, 404)
    with Http2(server.address) as wire2:
        assert wire2.request("GET", "x/v0/health").status in (400, 401, 404)
