"""Loads a snapshot of a feature table that was built elsewhere into its parts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

import msgspec

from penstock.errors import InvalidArgument
from penstock.feature_types import FeatureLoaded
from penstock.features.feature_view import part_of
from penstock.features.part_plan import PartSpec, TableShape
from penstock.features.table_part import TablePart
from penstock.projections.host import HostedProjection
from penstock.projections.projection import Projection
from penstock.projections.state_folder import StateFolder


def load(
    table: str,
    shape: TableShape,
    parts: Sequence[PartSpec],
    held: Mapping[str, HostedProjection],
    snapshot: StateFolder,
    narrow: Callable[[Mapping[str, Collection[str]]], None],
) -> FeatureLoaded:
    """Load every part whose features, as far as the table wants them, the snapshot has.
    InvalidArgument when there is none. `narrow`: record which removed features parts lack from now
    on."""
    state = snapshot.state
    if state.kind != TablePart.kind or state.version != TablePart.version:
        raise InvalidArgument(
            f"{snapshot.path} holds a projection of kind {state.kind!r}, version {state.version}: "
            f"expected {TablePart.kind!r}, version {TablePart.version}"
        )
    reasons = {part.id: _why_not(part, table, shape, snapshot) for part in parts}
    loadable = [part for part in parts if part.id in held and not reasons[part.id]]
    if not loadable:
        why = "; ".join(filter(None, reasons.values()))
        raise InvalidArgument(f"{snapshot.path}: {why or 'the table has no parts'}")
    for part in loadable:
        one = held[part.id]
        if state.topic != one.tail.topic or state.log != one.tail.log_id.hex():
            raise InvalidArgument(
                f"{snapshot.path} is of topic {state.topic!r} of log {state.log}: expected topic "
                f"{one.tail.topic!r} of log {one.tail.log_id.hex()}"
            )
    lacking = {part.id: lacks for part in loadable if (lacks := _lacks(part, snapshot))}
    if lacking:
        narrow(lacking)  # first: no crash leaves a part that promises what it lacks
    saved = [
        held[part.id].runner.load(
            partial(_restore, snapshot, lacking.get(part.id, ())), state.offset
        )
        for part in loadable
    ]
    last = held[loadable[-1].id].runner
    return FeatureLoaded(
        table,
        [part.id for part in loadable],
        state.offset,
        last.applied or state.offset,
        part_of(held[loadable[-1].id]).keys,
        all(saved),
    )


def _why_not(part: PartSpec, table: str, shape: TableShape, snapshot: StateFolder) -> str:
    """Why a part cannot take its state of the snapshot; an empty text if it can."""
    name, base, _ = _contents(snapshot)
    if name != table:
        return f"it is of table {name!r}, not {table!r}"
    if base != part.base:
        return "it was built with another event, steps or key than the table has"
    wanted = [
        one for one in _lacks(part, snapshot) if shape.features.get(one) == part.features[one]
    ]
    if wanted:
        return f"it lacks {', '.join(wanted)} of part {part.id}, or has them otherwise"
    return ""


def _lacks(part: PartSpec, snapshot: StateFolder) -> list[str]:
    """Features of a part that the snapshot lacks, or has otherwise."""
    _, _, features = _contents(snapshot)
    known = dict(features)
    return sorted(one for one, checksum in part.features.items() if known.get(one) != checksum)


def _contents(snapshot: StateFolder) -> tuple[str, str, list[tuple[str, str]]]:
    """Its table, base, and features with their checksums."""
    return msgspec.json.decode(
        snapshot.state.definition, type=tuple[str, str, list[tuple[str, str]]]
    )


def _restore(snapshot: StateFolder, lacking: Collection[str], fresh: Projection) -> None:
    if not isinstance(fresh, TablePart):
        raise TypeError(f"{type(fresh).__name__} is not the part of a feature table")
    fresh.restore_all((stored.parts for stored in snapshot.files), lacking)
