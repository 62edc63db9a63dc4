"""The seam between a table and the state of one of its features.

The state of a feature is a set of arrays that are indexed by row. A row is the slot of a key when
the feature counts since its first event, or a cell (one bucket of a key's window) when it has a
window. An operator does not know which of the two it is: it folds events into rows, and reads a
value from the rows of one key in the order of their time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.features.event_column import Bools, EventColumn, Int64s


@dataclass(frozen=True, slots=True)
class Fold:
    """Events of one table, in the order of the log. Immutable."""

    rows: Int64s  # the row that each event belongs to
    ts: Int64s  # the time of each event, ms since 1970
    passes: Bools  # does it meet the `where` of the feature?
    fields: tuple[EventColumn, ...]  # the columns that the operator was declared with


class Operator(Protocol):
    """The state of one feature, of every key. One thread at a time.

    Folding is sequential: folding a batch gives the same state, bit for bit, as folding its events
    one by one, however the events are divided into batches.
    """

    def grow(self, rows: int) -> None:
        """Make room for this many rows. New rows are empty. Amortised: called for every batch."""

    def fold(self, fold: Fold) -> None:
        """Add events. All rows are below the number of the last `grow`."""

    def value(self, rows: Sequence[int], now_ms: int) -> Any:
        """The value of one key, JSON-able, from its rows, oldest first. No rows: a key without
        events. The time matters to ages and decays. Never changes the state."""

    def clear(self, rows: Int64s) -> None:
        """Make these rows empty, for another key."""

    def save(self, rows: Int64s) -> Mapping[str, Any]:
        """The state of these rows, in this order: arrays of numpy, and lists of JSON-able values or
        bytes. Independent copies."""

    def lengths(self, saved: Mapping[str, Any]) -> Mapping[str, Int64s]:
        """Of those members of saved state that do not have one element for each row: how many each
        row has. The other members say it."""

    def load(self, rows: Int64s, saved: Mapping[str, Any]) -> None:
        """Put saved state into these rows, which are empty."""

    @property
    def bytes(self) -> int:
        """An estimate of the memory in use."""
