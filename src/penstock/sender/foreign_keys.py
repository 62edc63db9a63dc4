"""Keys of other clients with this form of connect string: aliases, and unsupported keys with the
reason. Pure."""

from __future__ import annotations

from typing import Final

ALIASES: Final = {"tls_roots": "tls_ca"}

_READING = "it is for reading, and a sender only writes: remove it"
_POOL = "a sender has one connection for all threads: remove it"
_ANY_HOST = "the sender tries every server in addr, in that order: remove it"
_PACKING = "frames are sent as they are stored: remove it"

REFUSED: Final = {
    "acquire_timeout_ms": _POOL,
    "catch_up_cap_gap_min_escalation_window_millis": "frames are independent: remove it",
    "client_id": "use sender_id",
    "compression": _PACKING,
    "connection_listener_inbox_capacity": "there is no connection listener: use status()",
    "failover": _ANY_HOST,
    "idle_timeout_ms": _POOL,
    "lazy_connect": "use initial_connect_retry",
    "max_batch_rows": _READING,
    "max_in_flight": "the window of unacknowledged bytes is fixed: remove it",
    "pool_reap": _POOL,
    "query_pool_max": _READING,
    "query_pool_min": _READING,
    "sender_pool_max": _POOL,
    "sender_pool_min": _POOL,
    "target": _ANY_HOST,
    "tls_roots_password": "tls_roots must be a PEM file, which has no password: remove it",
    "transaction": "every frame is atomic: remove it",
    "zone": _ANY_HOST,
}
_FAMILIES: Final = {"failover_": _ANY_HOST, "compression_": _PACKING}


def why_refused(key: str) -> str | None:
    """Why a key is not supported and what to use instead; None for an unknown key."""
    for start, why in _FAMILIES.items():
        if key.startswith(start):
            return why
    return REFUSED.get(key)
