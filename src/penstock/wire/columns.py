"""A page of records as columns."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.codec.columns import Columns
from penstock.types import Gap


@dataclass(frozen=True, slots=True)
class ColumnsPage:
    """One read. Pass `next_seq` as the next `after`: it is the last seq that was looked at."""

    columns: Columns
    gap: Gap | None
    next_seq: int
    head_seq: int
    earliest_seq: int
    caught_up: bool
    epoch: int
