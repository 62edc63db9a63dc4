"""What can be seen of a running projection."""

from __future__ import annotations

from typing import Literal

import msgspec

from penstock.types import Offset

RunnerState = Literal["replaying", "ready", "failed"]


class RunnerCounts(msgspec.Struct):
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
    snapshot_ms: float = 0.0
    snapshot_errors: int = 0
    snapshot_error: str = ""
    ready_ms: float = 0.0  # from its beginning to the first time at the head

    def copy(self) -> RunnerCounts:
        return msgspec.structs.replace(self)


class RunnerStatus(msgspec.Struct, frozen=True):
    """One moment. `state` is `failed` for the reason given; the offsets are None where there is
    none."""

    state: RunnerState
    reason: str
    applied: Offset | None  # what the state contains
    snapshot: Offset | None  # what the saved state contains
    head: Offset | None  # of the topic; None: it does not exist
    lag: int  # seqs between the two
    bytes: int  # of memory
    counts: RunnerCounts
