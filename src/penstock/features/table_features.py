"""The state of the features of one part of a table: operators, and the cells of their windows."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from penstock.features.cell_index import CellIndex
from penstock.features.event_column import Bools, Int64s
from penstock.features.operators.operator import Fold, Operator
from penstock.features.table_plan import FeaturePlan
from penstock.features.timed_events import TimedEvents
from penstock.features.windows import Window

Saved = dict[str, Any]


class FeatureState:
    """One feature: its plan, its operator, and the cells that are its rows; None: its rows are the
    slots of keys."""

    def __init__(self, plan: FeaturePlan, cells: CellIndex | None) -> None:
        self.plan = plan
        self.cells = cells
        self.operator: Operator = plan.kind.make(plan.arguments)
        self.where = None if plan.where is None else str(plan.where.expression)


class TableFeatures:
    """Keys are known by their slots here. One thread at a time."""

    def __init__(self, plans: Sequence[FeaturePlan]) -> None:
        self.cells: dict[Window, CellIndex] = {}
        self.states: dict[str, FeatureState] = {}
        for plan in plans:
            cells = None
            if not plan.window.is_forever and not plan.kind.is_self_windowed:
                cells = self.cells.setdefault(plan.window, CellIndex(plan.window))
            self.states[plan.name] = FeatureState(plan, cells)
        wheres = [plan.where.expression.columns for plan in plans if plan.where is not None]
        self.columns = frozenset(name for plan in plans for name in plan.fields).union(*wheres)

    @property
    def bytes(self) -> int:
        """An estimate of the memory in use."""
        indexes = sum(cells.bytes for cells in self.cells.values())
        return indexes + sum(state.operator.bytes for state in self.states.values())

    def grow(self, slots: int) -> None:
        """Make room for so many slots."""
        for cells in self.cells.values():
            cells.grow(slots)
        for state in self.states.values():
            state.operator.grow(slots if state.cells is None else state.cells.used)

    def reserve(self, slots: int, cells: Sequence[int]) -> None:
        """Make room for so many slots, and so many cells of each window, at once: to grow by and by
        copies the state several times."""
        counts = dict(zip(self.cells.values(), cells, strict=True))
        for index, count in counts.items():
            index.grow(slots)
            index.reserve(count)
        for state in self.states.values():
            state.operator.grow(slots if state.cells is None else counts[state.cells])

    def fold(self, slots: Int64s, used: int, events: TimedEvents) -> None:
        """Add events, each to the key of its slot. All slots are below `used`."""
        for cells in self.cells.values():
            cells.grow(used)
        rows = {
            window: cells.rows(slots, events.times, events.largest)
            for window, cells in self.cells.items()
        }
        self.grow(used)
        passes = self._passes(events)
        for state in self.states.values():
            fields = tuple(events.columns[name] for name in state.plan.fields)
            where = passes[state.where]
            if state.cells is None:
                state.operator.fold(Fold(slots, events.times, where, fields))
                continue
            found, missing = rows[state.plan.window]
            if not missing:
                state.operator.fold(Fold(found, events.times, where, fields))
            elif missing < len(found):
                kept = found >= 0
                left = events.only(kept)
                fields = tuple(left.columns[name] for name in state.plan.fields)
                state.operator.fold(Fold(found[kept], left.times, where[kept], fields))
        self._clear_dropped()

    def _passes(self, events: TimedEvents) -> dict[str | None, Bools]:
        """Which events meet each `where`, computed once for equal expressions."""
        count = len(events)
        passes: dict[str | None, Bools] = {None: np.ones(count, np.bool_)}
        for state in self.states.values():
            if state.where not in passes and state.plan.where is not None:
                passes[state.where] = state.plan.where.passes(events.columns, count)
        return passes

    def _clear_dropped(self) -> None:
        for cells in self.cells.values():
            rows = cells.dropped()
            if len(rows):
                for state in self.states.values():
                    if state.cells is cells:
                        state.operator.clear(rows)
                cells.free(rows)

    def clear(self, slots: Int64s) -> None:
        """Make the state of these slots empty."""
        if not len(slots):
            return
        for cells in self.cells.values():
            cells.drop(slots)
        for state in self.states.values():
            if state.cells is None:
                state.operator.clear(slots)
        self._clear_dropped()

    def drop_old(self, first: int, stop: int, largest: int) -> None:
        """Free the cells of the slots first..stop-1 that no read can reach any more."""
        for cells in self.cells.values():
            cells.drop_old(first, stop, largest)
        self._clear_dropped()

    def row(self, slot: int, now_ms: int, largest: int, names: Iterable[str]) -> dict[str, Any]:
        """Values of the features with these names. `largest` is the largest time of all events."""
        live: dict[CellIndex, list[int]] = {}
        found: dict[str, Any] = {}
        for name in names:
            state = self.states[name]
            rows = [slot]
            if state.cells is not None:
                if state.cells not in live:
                    live[state.cells] = state.cells.live(slot, now_ms, largest)
                rows = live[state.cells]
            found[name] = finite(state.operator.value(rows, now_ms))
        return found

    def save(self, slots: Int64s, largest: int) -> Iterator[tuple[str, Saved]]:
        """The state of these slots: of each window's cells, and of each feature, by its name."""
        rows: dict[CellIndex | None, Int64s] = {None: slots}
        for number, cells in enumerate(self.cells.values()):
            counts, starts, rows[cells] = cells.save(slots, largest)
            yield f"cells {number}", {"counts": counts, "starts": starts}
        for name, state in self.states.items():
            yield f"feature {name}", dict(state.operator.save(rows[state.cells]))

    def load(
        self,
        slots: Int64s,
        saved: Mapping[str, Saved],
        used: int,
        lacking: Collection[str] = (),
    ) -> None:
        """Put saved state into these slots, which are empty. The features that are `lacking` begin
        anew. ValueError: it does not fit."""
        rows: dict[CellIndex | None, Int64s] = {None: slots}
        for number, cells in enumerate(self.cells.values()):
            given = saved[f"cells {number}"]
            cells.grow(used)
            rows[cells] = cells.load(slots, given["counts"], given["starts"])
        self.grow(used)
        for name, state in self.states.items():
            if name not in lacking:
                state.operator.load(rows[state.cells], saved[f"feature {name}"])

    def windows_of(self, features: Collection[str]) -> set[Window]:
        """Windows that only these features have."""
        others = {one.cells for name, one in self.states.items() if name not in features}
        return {window for window, cells in self.cells.items() if cells not in others}


def finite(value: Any) -> Any:
    """The value with None for NaN and infinities, which JSON cannot say."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [finite(item) for item in value]
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    return value
