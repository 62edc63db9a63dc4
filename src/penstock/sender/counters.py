"""What a sender counts. Numbers only grow; each has one thread that writes it."""

from __future__ import annotations

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


class SenderStatus(msgspec.Struct, frozen=True):
    """A sender as of now."""

    counters: Counters
    published_fsn: int
    acked_fsn: int
    spool_bytes: int
    oldest_unacked_ms: float
    is_connected: bool
    host: str
    errors_dropped: int
    halted: str  # why, or empty
    orphans: dict[str, str] = {}  # slots of others, and what became of them
    dead_letters: int = 0  # refused frames that the slot keeps
    torn_bytes: int = 0  # that were no frame behind the newest one, at the opening
