"""Tickets: short-lived, single-use stand-ins for a key, for callers that cannot set headers.

A browser's EventSource and WebSocket take only a URL. A key in a URL ends up in logs; a ticket
in one is worthless a moment later.
"""

from __future__ import annotations

import secrets

from penstock.clock import Clock
from penstock.server.auth import ApiKey

TICKET_TTL_S = 30.0
_MOST = 1_000  # of one key


class AuthTickets:
    """Event loop only; in memory only. When a key has too many tickets, its oldest are removed: no
    caller can displace the tickets of another."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._issued: dict[str, tuple[ApiKey, float]] = {}
        self._by_key: dict[ApiKey, dict[str, float]] = {}  # ticket -> its end, oldest first

    def issue(self, key: ApiKey) -> str:
        now = self._clock.monotonic()
        own = self._by_key.setdefault(key, {})
        while own:
            oldest = next(iter(own))
            if own[oldest] > now and len(own) < _MOST:
                break
            del own[oldest]
            self._issued.pop(oldest, None)
        ticket = "tkt_" + secrets.token_urlsafe(24)
        own[ticket] = now + TICKET_TTL_S
        self._issued[ticket] = key, now + TICKET_TTL_S
        return ticket

    def redeem(self, ticket: str) -> ApiKey | None:
        """The key of a ticket. A ticket is valid once and until it expires."""
        key, until = self._issued.pop(ticket, (None, 0.0))
        if key is not None:
            self._by_key[key].pop(ticket, None)
        return key if self._clock.monotonic() < until else None
