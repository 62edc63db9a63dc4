"""Values of tables and other projections, as embedded callers and clients get them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from penstock.types import Offset

GapPolicy = Literal["accept", "rebuild", "fail"]
"""When records were lost that the state does not contain: mark the loss and go on, fold again what
the log still has, or stop."""

ProjectionState = Literal["replaying", "ready", "failed"]

TableKey = bool | int | str


class ProjectionCounts(msgspec.Struct):
    """What happened since the log was opened."""

    records: int = 0  # folded
    gaps: int = 0  # accepted
    lost_seqs: int = 0  # in these gaps
    rebuilds: int = 0  # begun again, not counting the first time
    rebuild_reason: str = ""  # of the last one
    discarded: int = 0  # saved states that could not be used
    discard_reason: str = ""
    snapshots: int = 0
    snapshot_bytes: int = 0  # of the newest one
    snapshot_ms: float = 0.0  # 0: an earlier process saved it
    snapshot_ts: int = 0  # when it was saved, ms since 1970
    snapshot_errors: int = 0
    snapshot_error: str = ""
    ready_ms: float = 0.0  # from its beginning to the first time at the head

    def copy(self) -> ProjectionCounts:
        return msgspec.structs.replace(self)


class ProjectionStatus(msgspec.Struct, frozen=True):
    """One moment. `state` is `failed` for the reason given; the offsets are None where there is
    none."""

    state: ProjectionState
    reason: str
    applied: Offset | None  # what the state contains
    snapshot: Offset | None  # what the saved state contains
    head: Offset | None  # of the topic; None: it does not exist
    lag: int  # seqs between `applied` and `head`
    bytes: int  # of memory
    counts: ProjectionCounts


class TableInfo(msgspec.Struct, frozen=True):
    """A keyed table as of now."""

    name: str
    topic: str
    key: str
    on_gap: GapPolicy
    bytes_max: int
    rows: int
    skipped: int  # records without a usable key
    status: ProjectionStatus


class TableRow(msgspec.Struct, frozen=True):
    """The newest record of a key."""

    key: TableKey
    value: Any  # the record's data
    seq: int
    ts: int


class TablePage(msgspec.Struct, frozen=True):
    """Rows in the order of their keys. Pass `next_after` as the next `after`; None: there are no
    more. `offset` is what the table contained; None: its topic does not exist."""

    rows: list[TableRow]
    next_after: TableKey | None
    offset: Offset | None
    count: int  # of all rows of the table


class TableChange(msgspec.Struct, frozen=True):
    """One record, as a change of a table. `offset` is the place to go on from."""

    key: TableKey
    value: Any
    is_deleted: bool
    seq: int
    ts: int
    offset: Offset
