"""Metrics: the same facts as text and as JSON, and never more series than agreed."""

from __future__ import annotations

import re

import msgspec

from penstock.engine.engine import Log
from penstock.server import metrics
from penstock.server.metrics import Gauges, as_json, as_text, gather

GAUGES = Gauges(
    connections=3,
    connections_refused=1,
    sse_connections=2,
    watch_sessions=4,
    uptime_ms=5,
    replay_progress=1.0,
)


def everything(name: str) -> bool:
    return True


def values(text: bytes) -> dict[str, float]:
    lines = [line for line in text.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_every_line_is_a_sample_or_says_what_one_is(memory_log: Log) -> None:
    memory_log.append("t", [1])
    memory_log.table("t", "id").count()
    label = r'[a-z]+="[^"\\]*"'
    sample = re.compile(rf"penstock_[a-z_]+(\{{{label}(,{label})*\}})? -?\d+(\.\d+)?(e-?\d+)?")

    for line in as_text(gather(memory_log.core, GAUGES, everything)).decode().splitlines():
        assert re.match(r"# (HELP|TYPE) penstock_[a-z_]+ .+", line) or sample.fullmatch(line), line


def test_what_is_there_is_counted(memory_log: Log) -> None:
    memory_log.create("kept", durability="fsync")
    memory_log.append("kept", [{"a": 1}, 2])
    memory_log.create("jobs", type="queue", durability="memory")

    found = values(as_text(gather(memory_log.core, GAUGES, everything)))

    assert found["penstock_topics"] == 2
    assert found['penstock_topics_by_class{class="fsync"}'] == 1
    assert found['penstock_topics_by_class{class="disk"}'] == 0
    assert found["penstock_records_live"] == 2
    assert found['penstock_topic_head_seq{topic="kept"}'] == 2
    assert found['penstock_topic_bytes_live{topic="kept"}'] == len('{"a":1}2')
    assert found["penstock_queue_topics"] == 1
    assert found["penstock_sse_connections"] == 2
    assert found["penstock_ready"] == 1


def test_the_histogram_counts_every_sync_and_only_rises(memory_log: Log) -> None:
    memory_log.create("t", durability="fsync")
    for number in range(5):
        memory_log.append("t", [number])

    found = values(as_text(gather(memory_log.core, GAUGES, everything)))
    buckets = [v for name, v in found.items() if name.startswith("penstock_wal_fsync_latency_us_b")]

    assert buckets == sorted(buckets)
    assert buckets[-1] == found["penstock_wal_fsync_latency_us_count"]
    assert found["penstock_wal_fsync_latency_us_count"] == found["penstock_wal_fsyncs_total"] > 0


def test_json_says_the_same(memory_log: Log) -> None:
    memory_log.create("t", durability="fsync")
    memory_log.append("t", [1, 2, 3])
    found = gather(memory_log.core, GAUGES, everything)

    said, text = msgspec.to_builtins(as_json(found)), values(as_text(found))

    assert said["records_live"] == text["penstock_records_live"] == 3
    assert said["wal"]["fsyncs"] == text["penstock_wal_fsyncs_total"]
    assert said["topics_fsync"] == 1


def test_names_are_bounded_and_only_those_the_caller_may_see(
    memory_log: Log, monkeypatch: object
) -> None:
    for number in range(5):
        memory_log.create(f"t{number}")

    mine = gather(memory_log.core, GAUGES, lambda name: name == "t3")

    assert [row.name for row in mine.topics] == ["t3"]
    assert metrics.TOPIC_SERIES_MAX == 1000
