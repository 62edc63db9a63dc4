"""Metrics of feature tables and of all projections. Read when they are asked for; a log without
projections has none, and nothing is opened to find that out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from penstock.engine.core import LogCore
from penstock.errors import PenstockError
from penstock.feature_types import FeatureTableStatus
from penstock.projection_types import ProjectionStatus
from penstock.server.metrics_text import MetricsText

ROWS_MAX: Final = 1000  # of each; so many tables and parts a log may have
_FATES: Final = {
    "events": "counted",
    "bad": "bad",
    "late": "late",
    "filtered": "filtered",
    "ignored": "without_key",
    "lost": "lost",
}
_MARKS: Final = ("committed", "written", "synced", "acked", "applied", "snapshot")


@dataclass(frozen=True, slots=True)
class ProjectionRows:
    """At one moment. Immutable."""

    now_ms: int
    tables: list[FeatureTableStatus]
    projections: list[tuple[str, str, ProjectionStatus]]  # kind, name


def gather(core: LogCore, may_name: Callable[[str], bool]) -> ProjectionRows:
    """Takes each projection's lock briefly; not for the event loop. Those of topics that the caller
    may see."""
    tables: list[FeatureTableStatus] = []
    if core.features.is_used:
        try:
            tables = core.features.store.tables()
        except PenstockError:  # the store cannot be opened: its users are told why
            tables = []
    hosted = [one for one in core.projections.hosted() if may_name(one.definition.topic)]
    return ProjectionRows(
        core.projections.clock.now_ms(),
        [table for table in tables if may_name(table.topic)][:ROWS_MAX],
        [
            (one.definition.kind, one.definition.name, one.runner.status)
            for one in hosted[:ROWS_MAX]
        ],
    )


def write(page: MetricsText, found: ProjectionRows) -> None:
    """Names need no escaping: their alphabets have nothing to escape."""
    _write_tables(page, found)
    _write_projections(page, found)


def _write_tables(page: MetricsText, found: ProjectionRows) -> None:
    def family(
        name: str, kind: str, text: str, value: Callable[[FeatureTableStatus], float]
    ) -> None:
        page.family(f"features_{name}", kind, text)
        for table in found.tables:
            page.sample(f"features_{name}", value(table), f'table="{table.name}"')

    family("ready", "gauge", "1 if all features are up to date.", lambda t: t.state == "ready")
    family("failed", "gauge", "1 if the table has stopped.", lambda t: t.state == "failed")
    family("keys", "gauge", "Keys with a row.", lambda t: _most(part.keys for part in t.parts))
    family("bytes", "gauge", "Bytes of memory.", lambda t: sum(part.bytes for part in t.parts))
    family(
        "bytes_max",
        "gauge",
        "Bytes of memory from which keys are moved to disk.",
        lambda t: sum(part.bytes_max for part in t.parts),
    )
    family(
        "keys_on_disk",
        "gauge",
        "Keys that are on disk.",
        lambda t: _most(part.keys_on_disk for part in t.parts),
    )
    family("disk_bytes", "gauge", "Bytes on disk.", lambda t: sum(p.disk_bytes for p in t.parts))
    family(
        "evicted_total",
        "counter",
        "Keys moved to disk.",
        lambda t: sum(part.evicted for part in t.parts),
    )
    family(
        "reloaded_total",
        "counter",
        "Keys that came back from disk.",
        lambda t: sum(part.reloaded for part in t.parts),
    )
    family(
        "lag_records",
        "gauge",
        "Seqs of the topic not folded yet.",
        lambda t: _most(part.lag for part in t.parts),
    )
    family(
        "ready_seconds",
        "gauge",
        "From the start of a part to its first time at the head.",
        lambda t: _seconds(_most(part.ready_ms for part in t.parts)),
    )
    page.family("features_records_total", "counter", "Records, by what became of them.")
    for table in found.tables:
        for name, outcome in _FATES.items():
            count = _most(part.counters.get(name, 0) for part in table.parts)
            labels = f'table="{table.name}",outcome="{outcome}"'
            page.sample("features_records_total", count, labels)
    page.family("features_watermark_seq", "gauge", "How far the events of a table are.")
    for table in found.tables:
        for mark in _MARKS:
            labels = f'table="{table.name}",mark="{mark}"'
            page.sample("features_watermark_seq", getattr(table.watermarks, mark), labels)


def _write_projections(page: MetricsText, found: ProjectionRows) -> None:
    def family(
        name: str, kind: str, text: str, value: Callable[[ProjectionStatus], float | None]
    ) -> None:
        page.family(f"projection_{name}", kind, text)
        for what, own, status in found.projections:
            number = value(status)
            if number is not None:
                page.sample(f"projection_{name}", number, f'kind="{what}",name="{own}"')

    family("ready", "gauge", "1 after the head was reached.", lambda s: s.state == "ready")
    family("failed", "gauge", "1 if it has stopped.", lambda s: s.state == "failed")
    family("lag_records", "gauge", "Seqs of the topic not folded yet.", lambda s: s.lag)
    family("bytes", "gauge", "Bytes of memory.", lambda s: s.bytes)
    family(
        "records_total", "counter", "Records folded since the start.", lambda s: s.counts.records
    )
    family("lost_seqs_total", "counter", "Seqs in accepted gaps.", lambda s: s.counts.lost_seqs)
    family("rebuilds_total", "counter", "States begun again.", lambda s: s.counts.rebuilds)
    family("discarded_total", "counter", "Saved states not usable.", lambda s: s.counts.discarded)
    family("snapshots_total", "counter", "States saved.", lambda s: s.counts.snapshots)
    family(
        "snapshot_errors_total",
        "counter",
        "States that could not be saved.",
        lambda s: s.counts.snapshot_errors,
    )
    family("snapshot_bytes", "gauge", "Size of the saved state.", lambda s: s.counts.snapshot_bytes)
    family(
        "snapshot_seconds",
        "gauge",
        "How long it took to save it.",
        lambda s: _seconds(s.counts.snapshot_ms),
    )
    family(
        "snapshot_age_seconds",
        "gauge",
        "Time since it was saved.",
        lambda s: _age(s, found.now_ms),
    )
    family(
        "ready_seconds",
        "gauge",
        "From the start to the first time at the head.",
        lambda s: _seconds(s.counts.ready_ms),
    )


def _age(status: ProjectionStatus, now_ms: int) -> float | None:
    saved_ms = status.counts.snapshot_ts
    return _seconds(max(0, now_ms - saved_ms)) if saved_ms and status.snapshot else None


def _seconds(ms: float) -> float:
    return round(ms / 1000, 6)


def _most(values: Iterable[float]) -> float:
    return max(values, default=0)
