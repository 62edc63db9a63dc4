"""The error of an append that found no room in the spool until its deadline: it tells a slow server
from an absent one."""

from __future__ import annotations

from penstock.errors import Backpressure, SpoolFull
from penstock.sender.delivery_loop import DeliveryLoop


def backpressure(
    sender_id: str, full: SpoolFull, waited_s: float, delivery_loop: DeliveryLoop
) -> Backpressure:
    """Why the spool is full, as of now."""
    outage, halted = delivery_loop.outage, delivery_loop.halted
    if halted is not None:
        why = f"sending has stopped: {halted.message}"
    elif outage is None:
        host = delivery_loop.host
        why = f"the server at {host} is slower than this sender (waited {waited_s:g} s)"
    else:
        why = f"no connection since {outage.since}, {outage.attempts} attempts ({outage.why})"
    return Backpressure(
        f"slot {sender_id!r}: {why}",
        stored_bytes=full.stored_bytes,
        total_bytes_max=full.total_bytes_max,
        is_server_away=outage is not None,
    )
