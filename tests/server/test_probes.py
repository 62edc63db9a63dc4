"""Health, readiness, metrics and the API document."""

from __future__ import annotations

import re
from typing import Any

import pytest

import penstock
from tests.server.conftest import Start
from tests.server.support import Api, api_of, at_once, new_name

SAMPLE = re.compile(r"^(?P<name>[a-z_]+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)$")
BUCKETS = ["50", "100", "250", "500", "1000", "5000", "10000", "50000", "100000", "+Inf"]


def samples(text: str) -> dict[str, float]:
    """`name{labels}` → value, of a whole exposition; every line must be one or a comment."""
    found = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        match = SAMPLE.match(line)
        assert match, line
        found[line.rpartition(" ")[0]] = float(match["value"])
    return found


def scrape(api: Api) -> dict[str, float]:
    return samples(api.get("/v0/metrics").body.decode())


@pytest.mark.parametrize("target", ["/v0/health", "/healthz"])
def test_health(api: Api, target: str) -> None:
    reply = api.get(target)

    assert reply.status == 200
    assert set(reply.json) == {"status", "version", "uptime_ms"}
    assert reply.json["status"] == "ok"
    assert reply.json["version"] == penstock.__version__
    assert isinstance(reply.json["uptime_ms"], int)


@pytest.mark.parametrize("target", ["/v0/ready", "/readyz"])
def test_readiness(start: Start, target: str) -> None:
    api = api_of(start())
    api.create("a")
    api.create("b")

    reply = api.get(target)

    assert reply.status == 200
    assert reply.json == {"status": "ready", "wal_replay_complete": True, "topics": 2}


def test_uptime_goes_up(api: Api) -> None:
    first = api.get("/v0/health").json["uptime_ms"]
    assert api.get("/v0/health").json["uptime_ms"] >= first >= 0


# Metrics.


def test_metrics_are_prometheus_text_unless_json_is_asked_for(api: Api) -> None:
    text = api.get("/v0/metrics")
    tree = api.get("/v0/metrics", {"Accept": "text/html, application/json"})

    assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert tree.headers["content-type"].startswith("application/json")
    assert tree.json["ready"] in (True, 1)


def test_the_series_and_their_values(start: Start) -> None:
    api = api_of(start())
    for durability in ("ephemeral", "memory", "disk", "fsync"):
        api.create(durability, durability=durability)
    api.write("disk", 1, 22, 333)
    api.write("fsync", "x")
    api.remove("disk", before_seq=2)

    found = scrape(api)

    expected = {
        "penstock_topics": 4,
        'penstock_topics_by_class{class="ephemeral"}': 1,
        'penstock_topics_by_class{class="memory"}': 1,
        'penstock_topics_by_class{class="disk"}': 1,
        'penstock_topics_by_class{class="fsync"}': 1,
        "penstock_routers": 0,
        "penstock_records_live": 3,
        "penstock_bytes_live": 8,
        'penstock_topic_head_seq{topic="disk"}': 3,
        'penstock_topic_earliest_seq{topic="disk"}': 2,
        'penstock_topic_records_live{topic="disk"}': 2,
        'penstock_topic_bytes_live{topic="disk"}': 5,
        'penstock_topic_head_seq{topic="memory"}': 0,
        "penstock_topic_metrics_truncated": 0,
        "penstock_queue_topics": 0,
        "penstock_queue_leases_in_flight": 0,
        "penstock_sse_connections": 0,
        "penstock_watch_sessions": 0,
        "penstock_ready": 1,
        "penstock_recovery_progress": 1,
        "penstock_wal_read_only": 0,
    }
    assert {name: found.get(name) for name in expected} == expected
    for name in (
        "penstock_uptime_ms",
        "penstock_wal_frames_total",
        "penstock_wal_batches_total",
        "penstock_wal_fsyncs_total",
        "penstock_wal_bytes_written_total",
        "penstock_wal_rotations_total",
        "penstock_wal_queue_depth",
        "penstock_wal_queue_depth_peak",
        "penstock_wal_submit_full_total",
    ):
        assert found[name] >= 0
    assert found["penstock_wal_frames_total"] > 0


def test_the_histogram_of_syncs(start: Start) -> None:
    api = api_of(start())
    api.create("t", durability="fsync")
    for n in range(5):
        api.write("t", n)

    found = scrape(api)

    counts = [found[f'penstock_wal_fsync_latency_us_bucket{{le="{le}"}}'] for le in BUCKETS]
    assert counts == sorted(counts)
    assert counts[-1] == found["penstock_wal_fsync_latency_us_count"]
    assert counts[-1] == found["penstock_wal_fsyncs_total"]
    assert counts[-1] >= 5
    assert found["penstock_wal_fsync_latency_us_sum"] > 0


def test_metrics_as_json(start: Start) -> None:
    api = api_of(start())
    api.create("a", durable=True)
    api.write("b", 1, 2)

    tree: Any = api.get("/v0/metrics", {"Accept": "application/json"}).json

    expected = {
        "topics": 2,
        "topics_ephemeral": 0,
        "topics_memory": 0,
        "topics_disk": 1,
        "topics_fsync": 1,
        "routers": 0,
        "records_live": 2,
        "bytes_live": 2,
        "queue_topics": 0,
        "queue_leases_in_flight": 0,
        "sse_connections": 0,
        "watch_sessions": 0,
    }
    assert {name: tree.get(name) for name in expected} == expected
    assert tree["replay_progress"] == 1
    assert tree["uptime_ms"] >= 0
    assert {
        "fsyncs",
        "frames",
        "batches",
        "bytes_written",
        "rotations",
        "queue_depth",
        "queue_depth_peak",
        "submit_full_total",
        "read_only",
        "fsync_count",
        "fsync_micros_total",
    } <= set(tree["wal"])
    assert tree["wal"]["fsyncs"] == tree["wal"]["fsync_count"] > 0


def test_series_of_single_topics_are_bounded(start: Start) -> None:
    """S27: names come from callers, so they may not make the answer grow without end."""
    api = api_of(start())

    def fill(worker: int) -> None:
        for n in range(worker, 1100, 22):
            api.post("/v0/batch", _batch(n))

    at_once(2, lambda worker: fill(worker * 11))
    assert scrape_topics(api) <= 1000

    fewer = scrape(api)
    assert fewer["penstock_topics"] == 1100
    assert fewer["penstock_topic_metrics_truncated"] == 1
    assert fewer["penstock_records_live"] == 1100


def _batch(first: int) -> dict[str, Any]:
    names = [f"t{n}" for n in range(first, min(first + 11, 1100))]
    return {"writes": [{"topic": name, "records": [{"data": 1}]} for name in names]}


def scrape_topics(api: Api) -> int:
    return sum(name.startswith("penstock_topic_head_seq{") for name in scrape(api))


def test_metrics_do_not_touch(api: Api, topic: str) -> None:
    api.create(topic)

    api.get("/v0/metrics")

    assert api.state(topic, "?touch=false")["last_read_ts"] is None


# The document.


def test_the_document_describes_the_routes(api: Api) -> None:
    document = api.get("/v0/openapi.json").json

    assert document["openapi"].startswith("3.")
    assert document["info"]["version"]
    declared = {re.sub(r"\{[^}]*\}", "{}", path) for path in document["paths"]}
    assert {
        "/v0/topics",
        "/v0/topics/{}",
        "/v0/topics/{}/diff",
        "/v0/topics/{}/delete",
        "/v0/topics/{}/positions",
        "/v0/topics/{}/positions/{}",
        "/v0/watch",
        "/v0/watch/{}",
        "/v0/batch",
        "/v0/tickets",
        "/v0/health",
        "/v0/ready",
        "/v0/metrics",
    } <= declared


def test_every_operation_says_what_it_answers(api: Api) -> None:
    for path, verbs in api.get("/v0/openapi.json").json["paths"].items():
        for verb, operation in verbs.items():
            if verb in ("get", "put", "post", "delete"):
                assert operation["responses"], (verb, path)


def test_names_of_topics_are_labels_as_they_are(start: Start) -> None:
    api = api_of(start())
    name = new_name("a.b:c_d")
    api.create(name)

    assert f'penstock_topic_head_seq{{topic="{name}"}}' in scrape(api)
