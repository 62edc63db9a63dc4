"""Pushed-down filters of Spark as bounds on the records to read. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from penstock.types import TagMatch

SEQ_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Bounds:
    """Records outside these bounds are not read. Both ends are inclusive."""

    seq_min: int = 1
    seq_max: int = SEQ_MAX
    ts_min: int = 0  # ms since 1970
    ts_max: int = SEQ_MAX
    topics: frozenset[str] | None = None
    match: TagMatch | None = None


def narrowed(bounds: Bounds, filters: Iterable[Filter]) -> tuple[Bounds, list[Filter]]:
    """The bounds with these filters, and the filters that Spark still has to apply."""
    left = []
    for one in filters:
        found = _with(bounds, one)
        if found is None:
            left.append(one)
            continue
        bounds, is_whole = found
        if not is_whole:
            left.append(one)
    return bounds, left


def _with(bounds: Bounds, one: Filter) -> tuple[Bounds, bool] | None:
    """The bounds with this filter, and whether they apply all of it; None if it gives no bound."""
    attribute = getattr(one, "attribute", ())
    value = getattr(one, "value", None)
    if attribute == ("seq",):
        return _seq(bounds, one)
    if attribute == ("ts",):
        return _ts(bounds, one)
    if attribute == ("topic",):
        names: frozenset[str] | None = None
        if isinstance(one, EqualTo) and isinstance(value, str):
            names = frozenset([value])
        elif isinstance(one, In):
            names = frozenset(text for text in one.value if isinstance(text, str))
        if names is None:
            return None
        both = names if bounds.topics is None else names & bounds.topics
        return replace(bounds, topics=both), True
    if attribute == ("tag",) and bounds.match is None and isinstance(value, str) and value:
        if "*" in value:  # a server would read it as a pattern
            return None
        if isinstance(one, EqualTo):
            return replace(bounds, match=TagMatch(value.encode(), False)), True
        if isinstance(one, StringStartsWith):
            return replace(bounds, match=TagMatch(value.encode(), True)), True
    return None


def _seq(bounds: Bounds, one: Filter) -> tuple[Bounds, bool] | None:
    if isinstance(one, In):
        numbers = [number for number in one.value if isinstance(number, int)]
        if not numbers:
            return None
        low, high = min(numbers), max(numbers)
        return _clipped(bounds, low, high), False
    value = getattr(one, "value", None)
    if not isinstance(value, int):
        return None
    match one:
        case EqualTo():
            return _clipped(bounds, value, value), True
        case GreaterThan():
            return _clipped(bounds, value + 1, SEQ_MAX), True
        case GreaterThanOrEqual():
            return _clipped(bounds, value, SEQ_MAX), True
        case LessThan():
            return _clipped(bounds, 0, value - 1), True
        case LessThanOrEqual():
            return _clipped(bounds, 0, value), True
        case _:
            return None


def _clipped(bounds: Bounds, low: int, high: int) -> Bounds:
    return replace(bounds, seq_min=max(bounds.seq_min, low), seq_max=min(bounds.seq_max, high))


def _ts(bounds: Bounds, one: Filter) -> tuple[Bounds, bool] | None:
    """Bounds in whole milliseconds around the time. Spark applies the filter again."""
    value = getattr(one, "value", None)
    if not isinstance(value, datetime.datetime) or value.tzinfo is None:
        return None
    ms = int(value.timestamp() * 1000)
    match one:
        case EqualTo():
            low, high = ms - 1, ms + 1
        case GreaterThan() | GreaterThanOrEqual():
            low, high = ms - 1, SEQ_MAX
        case LessThan() | LessThanOrEqual():
            low, high = 0, ms + 1
        case _:
            return None
    return replace(bounds, ts_min=max(bounds.ts_min, low), ts_max=min(bounds.ts_max, high)), False
