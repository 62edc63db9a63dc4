"""Keys that other clients of this kind of connect string know: taken by another name, or refused
with the reason. Pure."""

from __future__ import annotations

from typing import Final

ALIASES: Final = {"tls_roots": "tls_ca"}

_READING = "it is for reading, and a sender only sends: leave it out"
_POOL = "a sender is one connection, and threads share it: leave it out"
_ANY_HOST = "every server in addr is tried, in that order: leave it out"
_PACKING = "frames travel as they lie in the spool: leave it out"

REFUSED: Final = {
    "acquire_timeout_ms": _POOL,
    "catch_up_cap_gap_min_escalation_window_millis": "frames stand alone, nothing is caught up",
    "client_id": "a sender is known by its sender_id",
    "compression": _PACKING,
    "connection_listener_inbox_capacity": "status() tells of the connection; there is no listener",
    "failover": _ANY_HOST,
    "idle_timeout_ms": _POOL,
    "lazy_connect": "initial_connect_retry says how the first connection is waited for",
    "max_batch_rows": _READING,
    "max_in_flight": "how much may be on its way is not a setting",
    "pool_reap": _POOL,
    "query_pool_max": _READING,
    "query_pool_min": _READING,
    "sender_pool_max": _POOL,
    "sender_pool_min": _POOL,
    "target": _ANY_HOST,
    "tls_roots_password": "tls_roots is a file in PEM, which has no password",
    "transaction": "every frame is all or nothing: leave it out",
    "zone": _ANY_HOST,
}
_FAMILIES: Final = {"failover_": _ANY_HOST, "compression_": _PACKING}


def why_refused(key: str) -> str | None:
    """Why this key of others is not taken here and what to use; None for a key nobody has."""
    for start, why in _FAMILIES.items():
        if key.startswith(start):
            return why
    return REFUSED.get(key)
