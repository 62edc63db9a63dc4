"""Auto-flush: how many rows and bytes a sender buffers for a topic, and for how long, before it
flushes them to the spool by itself. `Sender.append` compares, `Sender._flush_due` is the timer."""

from __future__ import annotations

import sys
from typing import NamedTuple

from penstock import limits
from penstock.sender.connect_string import ConnectOptions


class FlushLimits(NamedTuple):
    """A buffer that reaches one of these is flushed."""

    rows_max: int
    bytes_max: int
    interval_s: float  # 0: no timer


def limits_of(options: ConnectOptions) -> FlushLimits:
    """Without auto-flush only the size of a frame flushes."""
    if not options.auto_flush:
        return FlushLimits(limits.BATCH_RECORDS_MAX, sys.maxsize, 0.0)
    return FlushLimits(
        options.auto_flush_rows or limits.BATCH_RECORDS_MAX,
        options.auto_flush_bytes or sys.maxsize,
        options.auto_flush_interval / 1000,
    )
