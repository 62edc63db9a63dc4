"""A row as of an earlier place in the log: its history is folded again, up to there."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from penstock import limits
from penstock.codec.columns import DATA, ColumnsPage
from penstock.errors import HistoryGone, InvalidArgument, NotReady, ProjectionFailed
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
        newest = _head(view.tail)
        if seq > newest:
            raise InvalidArgument(
                f"invalid as_of_seq {seq}: the newest record of topic {view.tail.topic!r} is "
                f"{newest}; expected at most that"
            )
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
    """The features of a key as they were after record `seq`. Folds the topic's history for this key
    alone. As of the newest record it is the row of the table, which needs no history. Raises
    HistoryGone."""
    values = view.key_values(key)
    names = view.names(features)
    current = _current(view, key, names, seq, now_ms)
    if current is not None:
        return current
    part = TablePart(with_features(view.plan, names))
    last_ts = folded(part, view.tail, seq, values)
    return part.row(values, last_ts if now_ms is None else now_ms, names) or {}


def _current(
    view: FeatureView, key: FeatureKey, names: Sequence[str], seq: int, now_ms: int | None
) -> dict[str, Any] | None:
    """The row of the table if nothing comes after `seq`; else None."""
    if not seq or seq != _head(view.tail):
        return None
    if now_ms is None:
        now_ms = _time_of(view.tail, seq)
    if now_ms is None:
        return None
    try:
        view.refresh(names, eventual=False)
        return view.row_at(seq, key, names, now_ms)
    except (NotReady, ProjectionFailed):
        return None


def _head(tail: Tail) -> int:
    head = tail.head
    return 0 if head is None else head.seq


def _time_of(tail: Tail, seq: int) -> int | None:
    """The time of a record; None if it is gone."""
    page = tail.read_columns(seq - 1, 1, 0)
    if page is None or int.from_bytes(page.columns.seqs[:8], "little") != seq:
        return None
    return _last_ts(page)


def _last_ts(page: ColumnsPage) -> int:
    return int.from_bytes(page.columns.tss[-_TS_BYTES:], "little", signed=True)


def with_features(plan: TablePlan, names: Sequence[str]) -> TablePlan:
    """The plan of the table with these features alone."""
    kept = tuple(feature for feature in plan.features if feature.name in names)
    return dataclasses.replace(plan, features=kept)


def folded(part: TablePart, tail: Tail, seq: int, key: Sequence[Any]) -> int:
    """Fold the events of a key up to a seq; the time of the last record. Raises HistoryGone."""
    after = last_ts = 0
    while after < seq:
        page = _page(tail, after, seq)
        if page is None:
            break
        if page.columns.count:
            part.apply_key(page.columns, key)
            last_ts = _last_ts(page)
        after = page.next_seq
        if page.caught_up:
            break
    return last_ts


def _page(tail: Tail, after: int, seq: int) -> ColumnsPage | None:
    """The next records, none of them past `seq`; None: there are no more."""
    page = _whole(tail, after, min(limits.READ_RECORDS_MAX, seq - after), seq)
    if page is None or not page.columns.count or page.next_seq <= seq:
        return page
    # Deletes left holes, and it reads past the end.
    seqs = np.frombuffer(page.columns.seqs, np.int64)
    count = int(np.searchsorted(seqs, seq, "right"))
    return _whole(tail, after, count, seq) if count else None


def _whole(tail: Tail, after: int, limit: int, seq: int) -> ColumnsPage | None:
    """A page before which no records are missing, as far as the log knows."""
    page = tail.read_columns(after, limit, DATA)
    if page is None:
        return None
    gap = page.gap
    if gap is not None and gap.first <= seq:
        raise HistoryGone.of(tail.topic, gap.first, gap.last, seq)
    if page.earliest_seq > after + 1:
        raise HistoryGone.of(tail.topic, after + 1, page.earliest_seq - 1, seq)
    return page
