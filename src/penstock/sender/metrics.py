"""The metrics of a sender as a page for Prometheus. Pure."""

from __future__ import annotations

from typing import Final

from penstock.sender.counters import SenderStatus

_COUNTERS: Final = {
    "rows_appended": "Rows that were appended.",
    "frames_flushed": "Frames that were written to the spool.",
    "frames_sent": "Frames that were sent, including resent ones.",
    "frames_replayed": "Frames that were sent again.",
    "frames_acked": "Frames that the server acknowledged.",
    "frames_rejected": "Frames that the server rejected.",
    "frames_lost": "Frames that were lost to damage of the spool.",
    "bytes_sent": "Bytes of frames that were sent.",
    "connects": "Connections that were made.",
    "connect_attempts": "Connection attempts.",
    "backpressure_stalls": "Times that a caller waited for room in the spool.",
}
_GAUGES: Final = {
    "spool_bytes": "Bytes of the spool, including preallocated segments.",
    "spool_bytes_max": "Maximum bytes of the spool.",
    "published_fsn": "Number of the newest frame.",
    "acked_fsn": "Number of the newest acknowledged frame.",
    "dead_letters": "Rejected frames that the slot keeps.",
    "torn_bytes": "Bytes after the newest frame that were not a frame when the spool was opened.",
}


_OF_ORPHANS: Final = (  # a drainer appends nothing
    "frames_sent",
    "frames_replayed",
    "frames_acked",
    "frames_rejected",
    "frames_lost",
    "bytes_sent",
    "connects",
    "connect_attempts",
)


def page(sender_id: str, status: SenderStatus) -> str:
    """Text exposition format 0.0.4; whole numbers keep all their digits."""
    lines: list[str] = []

    def add(name: str, kind: str, text: str, value: float) -> None:
        full = f"penstock_sender_{name}"
        lines.append(f"# HELP {full} {text}")
        lines.append(f"# TYPE {full} {kind}")
        lines.append(f'{full}{{sender_id="{sender_id}"}} {value!r}')

    for name, text in _COUNTERS.items():
        add(f"{name}_total", "counter", text, getattr(status.counters, name))
    for name in _OF_ORPHANS:
        text = f"Of drained orphaned slots: {_COUNTERS[name]}"
        add(f"orphan_{name}_total", "counter", text, getattr(status.orphan_counters, name))
    for name, text in _GAUGES.items():
        add(name, "gauge", text, getattr(status, name))
    oldest_s = status.oldest_unacked_ms / 1000
    add("oldest_unacked_seconds", "gauge", "Age of the oldest frame in the spool.", oldest_s)
    away_s = status.server_away_ms / 1000
    add("server_away_seconds", "gauge", "Time without a connection; 0 while connected.", away_s)
    add("connected", "gauge", "1 while there is a connection.", int(status.is_connected))
    add("halted", "gauge", "1 when sending has stopped.", int(bool(status.halted)))
    add(
        "errors_dropped_total",
        "counter",
        "Errors dropped from the full error inbox.",
        status.errors_dropped,
    )
    return "\n".join(lines) + "\n"
