"""The counters and the status of a sender. Each counter has one thread that writes it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Counters(msgspec.Struct):
    rows_appended: int = 0
    frames_flushed: int = 0
    frames_sent: int = 0
    frames_replayed: int = 0  # of those sent, how many were sent before
    frames_acked: int = 0
    frames_rejected: int = 0
    frames_lost: int = 0  # to damage of the spool
    bytes_sent: int = 0
    connects: int = 0
    connect_attempts: int = 0
    backpressure_stalls: int = 0


def total(many: Iterable[Counters]) -> Counters:
    """The sums of several sets of counters."""
    found = [msgspec.structs.asdict(one) for one in many]
    names = Counters.__struct_fields__
    return Counters(**{name: sum(one[name] for one in found) for name in names})


class SenderStatus(msgspec.Struct, frozen=True):
    """The current state of a sender."""

    counters: Counters
    published_fsn: int
    acked_fsn: int
    spool_bytes: int
    oldest_unacked_ms: float
    is_connected: bool
    host: str
    errors_dropped: int
    halted: str  # why, or empty
    orphans: dict[str, str] = {}  # slots of other senders, and their outcomes
    dead_letters: int = 0  # refused frames that the slot keeps
    torn_bytes: int = 0  # bytes after the newest frame that were no frame, at the opening
    orphan_counters: Counters = msgspec.field(default_factory=Counters)  # of drained slots
    spool_bytes_max: int = 0  # the cap of the spool
    server_away_ms: int = 0  # how long there has been no connection
    calls_unanswered: int = 0  # connection attempts since then
    trouble: str = ""  # the error of the last attempt
