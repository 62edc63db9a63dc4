"""A row as of an earlier place in the log: its history is folded again, up to there."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from penstock import limits
from penstock.errors import InvalidArgument
from penstock.feature_types import FeatureKey
from penstock.features.feature_log import FeatureLog
from penstock.features.feature_view import FeatureView
from penstock.features.table_part import TablePart
from penstock.features.table_plan import TablePlan
from penstock.projections.projection import Tail

_TS_BYTES: Final = 8


def place(
    log: FeatureLog, view: FeatureView, seq: int | None, ts_ms: int | None
) -> tuple[int, int | None]:
    """(the last seq to fold, the time of the read; None: the time of that record)"""
    if seq is not None and ts_ms is not None:
        raise InvalidArgument("specify as_of_seq or as_of_ts, not both")
    if seq is not None:
        if not isinstance(seq, int) or isinstance(seq, bool) or seq < 0:
            raise InvalidArgument(f"invalid as_of_seq {seq!r}: expected a seq of the topic")
        return seq, None
    if not isinstance(ts_ms, int) or isinstance(ts_ms, bool) or ts_ms < 0:
        raise InvalidArgument(f"invalid as_of_ts {ts_ms!r}: expected ms since 1970")
    return log.seek(view.plan.event.topic, ts_ms + 1), ts_ms


def row(
    view: FeatureView,
    key: FeatureKey,
    features: Sequence[str] | None,
    seq: int,
    now_ms: int | None,
) -> dict[str, Any]:
    """The features of a key as they were after record `seq`. Folds the topic's history."""
    values = view.key_values(key)
    names = view.names(features)
    part = TablePart(with_features(view.plan, names))
    last_ts = folded(part, view.tail, seq)
    return part.row(values, last_ts if now_ms is None else now_ms, names) or {}


def with_features(plan: TablePlan, names: Sequence[str]) -> TablePlan:
    """The plan of the table with these features alone."""
    kept = tuple(feature for feature in plan.features if feature.name in names)
    return dataclasses.replace(plan, features=kept)


def folded(part: TablePart, tail: Tail, seq: int) -> int:
    """Fold a topic up to a seq; the time of the last record."""
    after = last_ts = 0
    while after < seq:
        limit = min(limits.READ_RECORDS_MAX, seq - after)
        page = tail.read_columns(after, limit, part.wanted)
        if page is None:
            break
        if page.columns.count and page.next_seq > seq:  # deletes left holes: it reads past the end
            seqs = np.frombuffer(page.columns.seqs, np.int64)
            count = int(np.searchsorted(seqs, seq, "right"))
            if not count:
                break
            page = tail.read_columns(after, count, part.wanted)
            if page is None:
                break
        if page.gap is not None:
            part.lose(page.gap)
        if page.columns.count:
            part.apply(page.columns)
            last_ts = int.from_bytes(page.columns.tss[-_TS_BYTES:], "little", signed=True)
        after = page.next_seq
        if page.caught_up:
            break
    return last_ts
