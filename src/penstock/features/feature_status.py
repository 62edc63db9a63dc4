"""What can be seen of a feature table: the state of its parts, their positions, and watermarks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from penstock.feature_types import (
    EventIdsStatus,
    EventWatermarks,
    FeaturePartStatus,
    FeatureTableState,
    FeatureTableStatus,
)
from penstock.features.dedupe_index import DedupeIndex
from penstock.features.definition_nodes import EventType
from penstock.features.feature_log import FeatureLog
from penstock.features.feature_view import part_of
from penstock.features.part_plan import PartSpec
from penstock.features.table_plan import TablePlan
from penstock.projections.host import HostedProjection


def state_of(parts: Iterable[HostedProjection | None]) -> FeatureTableState:
    """`building` while a part has not reached the head for the first time."""
    states = {"replaying" if held is None else held.runner.status.state for held in parts}
    if "failed" in states:
        return "failed"
    return "building" if "replaying" in states else "ready"


def status_of(
    plan: TablePlan,
    state: FeatureTableState,
    parts: Sequence[tuple[PartSpec, HostedProjection | None]],
    ids: HostedProjection | None,
    log: FeatureLog,
) -> FeatureTableStatus:
    features = [feature.name for feature in plan.features]
    shown = [_part(spec, held, features) for spec, held in parts if held is not None]
    committed, written, synced = log.watermarks(plan.event.topic)
    return FeatureTableStatus(
        name=plan.name,
        event=plan.event.name,
        topic=plan.event.topic,
        key=list(plan.key),
        key_types=list(plan.key_types),
        features=features,
        log_id=log.tail(plan.event.topic).log_id.hex(),
        state=state,
        sync=plan.event.sync,
        on_gap=plan.on_gap,
        watermarks=EventWatermarks(
            committed=committed,
            written=written,
            synced=synced,
            acked=synced if plan.event.sync == "per_event" else committed,
            applied=min((one.applied.seq if one.applied else 0 for one in shown), default=0),
            snapshot=min((one.snapshot.seq if one.snapshot else 0 for one in shown), default=0),
        ),
        ids=None if ids is None else _ids(plan.event, ids),
        parts=shown,
    )


def _ids(event: EventType, held: HostedProjection) -> EventIdsStatus | None:
    with held.runner.lock:
        index, status = held.runner.projection, held.runner.status
        if event.dedupe is None or not isinstance(index, DedupeIndex):
            return None
        return EventIdsStatus(
            field=event.dedupe.field,
            window_ms=event.dedupe.window_ms,
            state=status.state,
            reason=status.reason,
            ids=index.count,
            bytes=index.bytes,
            bytes_max=event.dedupe.memory_max,
        )


def _part(spec: PartSpec, held: HostedProjection, features: Collection[str]) -> FeaturePartStatus:
    with held.runner.lock:
        status, part = held.runner.status, part_of(held)
        keys, counters, memory = part.keys, part.counters, part.memory
        bad_reasons = part.bad_reasons
        if memory is None:
            raise AssertionError("a part of the store has a bound")
        evicted = memory.evicted
        on_disk, counts = len(evicted), evicted.counts
        disk_bytes, bytes_max = evicted.disk_bytes, memory.bound.bytes_max
    return FeaturePartStatus(
        id=spec.id,
        features=[name for name in spec.features if name in features],
        state=status.state,
        reason=status.reason,
        applied=status.applied,
        snapshot=status.snapshot,
        lag=status.lag,
        keys=keys,
        keys_on_disk=on_disk,
        bytes=status.bytes,
        bytes_max=bytes_max,
        disk_bytes=disk_bytes,
        evicted=counts.evicted,
        reloaded=counts.reloaded,
        counters=counters,
        bad_reasons=bad_reasons,
        lost_seqs=status.counts.lost_seqs,
        ready_ms=status.counts.ready_ms,
        snapshot_ms=status.counts.snapshot_ms,
        snapshot_ts=status.counts.snapshot_ts,
        snapshot_bytes=status.counts.snapshot_bytes,
        rebuilds=status.counts.rebuilds,
    )
