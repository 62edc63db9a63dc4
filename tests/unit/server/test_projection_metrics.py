"""Metrics of features and projections, from a log in memory."""

from __future__ import annotations

from typing import Any

from penstock.engine.engine import Log
from penstock.server import projection_metrics
from penstock.server.metrics_text import MetricsText

DEFINITION: dict[str, Any] = {
    "events": [{"name": "Ride", "topic": "rides", "fields": {"rider": "str", "fare": "f64"}}],
    "tables": [
        {
            "name": "Riders",
            "from": "Ride",
            "key": ["rider"],
            "steps": [{"op": "filter", "where": "(fare > 0)"}],
            "features": {"n": {"op": "count"}},
        }
    ],
}


def everything(name: str) -> bool:
    return True


def values(log: Log, may_name: Any = everything) -> dict[str, float]:
    page = MetricsText()
    projection_metrics.write(page, projection_metrics.gather(log.core, may_name))
    lines = [line for line in page.text().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_a_log_without_projections_has_no_series_and_opens_nothing(memory_log: Log) -> None:
    memory_log.append("t", [1])

    assert values(memory_log) == {}
    assert memory_log.core.projections.hosted() == []
    assert not memory_log.core.features.is_used


def test_a_feature_table_tells_its_keys_records_and_watermarks(memory_log: Log) -> None:
    features = memory_log.features
    features.register(DEFINITION)
    features.push("Ride", [{"rider": name, "fare": fare} for name in "ab" for fare in (1, 0)])
    memory_log.append("rides", [{"rider": 5}])
    features.wait(1)

    found = values(memory_log)

    of_table = {name: value for name, value in found.items() if 'table="Riders"' in name}
    assert of_table['penstock_features_keys{table="Riders"}'] == 2
    assert of_table['penstock_features_ready{table="Riders"}'] == 1
    assert of_table['penstock_features_failed{table="Riders"}'] == 0
    assert of_table['penstock_features_bytes{table="Riders"}'] > 0
    assert of_table['penstock_features_bytes_max{table="Riders"}'] > 1 << 20
    for name in ("keys_on_disk", "disk_bytes", "evicted_total", "reloaded_total"):
        assert of_table[f'penstock_features_{name}{{table="Riders"}}'] == 0
    for outcome, count in (("counted", 2), ("filtered", 2), ("bad", 1), ("late", 0)):
        labels = f'{{table="Riders",outcome="{outcome}"}}'
        assert of_table[f"penstock_features_records_total{labels}"] == count
    for mark in ("committed", "written", "acked", "applied"):
        assert of_table[f'penstock_features_watermark_seq{{table="Riders",mark="{mark}"}}'] == 5
    assert found['penstock_projection_records_total{kind="features",name="Riders.1"}'] == 5


def test_every_projection_tells_its_lag_and_its_snapshot(memory_log: Log) -> None:
    table = memory_log.table("t", "id")
    memory_log.append("t", [{"id": 1}, {"id": 2}])
    before = values(memory_log)
    table.count()
    found = memory_log.core.projections.hosted()[0].runner
    found.save()
    after = values(memory_log)

    def of(name: str) -> str:
        return f'penstock_projection_{name}{{kind="table",name="t"}}'

    assert (before[of("lag_records")], before[of("ready")]) == (2, 0)
    assert of("snapshot_age_seconds") not in before
    assert (after[of("lag_records")], after[of("ready")], after[of("failed")]) == (0, 1, 0)
    assert (after[of("records_total")], after[of("snapshots_total")]) == (2, 1)
    assert after[of("snapshot_bytes")] > 0
    assert after[of("snapshot_age_seconds")] >= 0


def test_a_caller_sees_the_series_of_its_topics(memory_log: Log) -> None:
    memory_log.features.register(DEFINITION)
    memory_log.table("t", "id")

    assert values(memory_log, lambda name: name == "other") == {}
    found = values(memory_log, lambda name: name == "t")

    assert 'penstock_projection_ready{kind="table",name="t"}' in found
    assert not [name for name in found if "Riders" in name]
