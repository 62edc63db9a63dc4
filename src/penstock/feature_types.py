"""Values of feature tables, as embedded callers and clients get them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from penstock.projection_types import GapPolicy
from penstock.types import Offset

FeatureKey = bool | int | str | list[bool | int | str] | tuple[bool | int | str, ...] | None
"""A table with one key column takes its value, one with several takes them in order, one without a
key takes None."""

PushSync = Literal["periodic", "per_event"]
"""`periodic`: acknowledged when it is written to the log's file, which is stronger than memory: a
kill of the process takes nothing, a power cut at most the last `sync_tick_ms` (50 ms) and the
duration of two syncs. `per_event`: acknowledged after its sync."""

FeatureTableState = Literal["ready", "building", "failed"]


class Registered(msgspec.Struct, frozen=True):
    """The answer of a registration. `changes` says what it changed, or would change."""

    version: int  # counts the registrations that changed something
    is_changed: bool
    changes: list[dict[str, Any]]
    tables: dict[str, FeatureTableState]
    is_dry_run: bool = False


class Pushed(msgspec.Struct, frozen=True):
    """The answer of a push. Without new events `first_seq` and `last_seq` are those of the first
    event that was known already."""

    event: str
    topic: str
    first_seq: int
    last_seq: int
    count: int  # new events
    deduped: int  # events that were in the log already
    ts: int
    version: int


class EventWatermarks(msgspec.Struct, frozen=True):
    """How far the events of a table are, as seqs of its topic."""

    committed: int  # visible to readers
    written: int  # a kill of the process takes none of these
    synced: int  # a power cut takes none of these
    acked: int  # acknowledged: `committed`, or with `per_event` what is synced
    applied: int  # in the state of every part
    snapshot: int  # in the saved state of every part


class FeaturePartStatus(msgspec.Struct, frozen=True):
    """One part of a table: the state of some of its features."""

    id: str
    features: list[str]
    state: Literal["replaying", "ready", "failed"]
    reason: str
    applied: Offset | None
    snapshot: Offset | None
    lag: int  # seqs
    keys: int
    keys_on_disk: int  # of these
    bytes: int  # of memory
    bytes_max: int  # then keys are moved to disk
    disk_bytes: int  # of the keys on disk, and of what is dead beside them
    evicted: int  # keys that were moved to disk, since the state was loaded
    reloaded: int  # keys that came back
    counters: dict[str, int]
    bad_reasons: list[str]  # of the first few bad records since the log was opened
    lost_seqs: int  # records that were gone before they could be folded
    ready_ms: float
    snapshot_ms: float
    snapshot_ts: int  # when it was saved, ms since 1970; 0: never
    snapshot_bytes: int
    rebuilds: int


class EventIdsStatus(msgspec.Struct, frozen=True):
    """The ids of an event type that were seen within its dedupe window."""

    field: str
    window_ms: int
    state: Literal["replaying", "ready", "failed"]
    reason: str
    ids: int
    bytes: int  # of memory
    bytes_max: int  # then pushes of new ids are refused


class FeatureTableStatus(msgspec.Struct, frozen=True):
    """A feature table as of now."""

    name: str
    event: str
    topic: str
    key: list[str]
    key_types: list[str]  # i64, str or bool
    features: list[str]
    log_id: str  # of the log, hex: no other log has it
    state: FeatureTableState
    sync: PushSync
    on_gap: GapPolicy
    watermarks: EventWatermarks
    ids: EventIdsStatus | None  # None: the event has no dedupe window
    parts: list[FeaturePartStatus]


class FeatureKeyRow(msgspec.Struct, frozen=True):
    """A row with its key: one value for each key column."""

    key: list[bool | int | str]
    row: dict[str, Any]


class FeaturePlace(msgspec.Struct, frozen=True):
    """How far the topic was folded into some features when rows were read."""

    features: list[str]
    applied: Offset | None


class FeatureScan(msgspec.Struct, frozen=True):
    """A page of rows, in no particular order, perhaps none. `next_after` is the next `after`, below
    2^53; None at the end."""

    rows: list[FeatureKeyRow]
    places: list[FeaturePlace]
    now_ms: int
    next_after: int | None


class FeatureLoaded(msgspec.Struct, frozen=True):
    """A snapshot that was loaded."""

    table: str
    parts: list[str]  # that took it over
    snapshot: Offset  # the records that are in it
    applied: Offset  # those that are in the state now
    keys: int
    is_saved: bool  # false: the next interval tries again, and a restart before it begins again


class FeatureRead(msgspec.Struct, frozen=True):
    """One read of a batch."""

    table: str
    key: FeatureKey = None
    features: list[str] | None = None


class FeatureError(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one read of a batch has instead of a row: an error as the HTTP API has it."""

    code: str
    message: str
    detail: dict[str, Any] | None = None
