"""Loads a snapshot of a feature table that was built elsewhere into its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from penstock.errors import InvalidArgument
from penstock.feature_types import FeatureLoaded
from penstock.features.feature_view import part_of
from penstock.features.part_plan import PartSpec
from penstock.features.table_part import TablePart
from penstock.projections.host import HostedProjection
from penstock.projections.projection import Projection
from penstock.projections.state_folder import StateFolder


def load(
    table: str,
    parts: Sequence[PartSpec],
    held: Mapping[str, HostedProjection],
    snapshot: StateFolder,
) -> FeatureLoaded:
    """Load every part whose features the snapshot has. InvalidArgument when there is none."""
    state = snapshot.state
    if state.kind != TablePart.kind or state.version != TablePart.version:
        raise InvalidArgument(
            f"{snapshot.path} holds a projection of kind {state.kind!r}, version {state.version}: "
            f"expected {TablePart.kind!r}, version {TablePart.version}"
        )
    loadable = [part for part in parts if part.id in held and _why_not(part, table, snapshot) == ""]
    if not loadable:
        reasons = [why for part in parts if (why := _why_not(part, table, snapshot))]
        raise InvalidArgument(f"{snapshot.path}: {'; '.join(reasons) or 'the table has no parts'}")
    for part in loadable:
        one = held[part.id]
        if state.topic != one.tail.topic or state.log != one.tail.log_id.hex():
            raise InvalidArgument(
                f"{snapshot.path} is of topic {state.topic!r} of log {state.log}: expected topic "
                f"{one.tail.topic!r} of log {one.tail.log_id.hex()}"
            )
    saved = [
        held[part.id].runner.load(lambda fresh: _restore(fresh, snapshot), state.offset)
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


def _why_not(part: PartSpec, table: str, snapshot: StateFolder) -> str:
    """Why a part cannot take its state of the snapshot; an empty text if it can."""
    name, base, features = msgspec.json.decode(
        snapshot.state.definition, type=tuple[str, str, list[tuple[str, str]]]
    )
    if name != table:
        return f"it is of table {name!r}, not {table!r}"
    if base != part.base:
        return "it was built with another event, steps or key than the table has"
    known = dict(features)
    other = [one for one, checksum in part.features.items() if known.get(one) != checksum]
    if other:
        return f"it lacks {', '.join(sorted(other))} of part {part.id}, or has them otherwise"
    return ""


def _restore(fresh: Projection, snapshot: StateFolder) -> None:
    if not isinstance(fresh, TablePart):
        raise TypeError(f"{type(fresh).__name__} is not the part of a feature table")
    fresh.restore_all(stored.parts for stored in snapshot.files)
