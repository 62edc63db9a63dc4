"""The seam for foreign protocols: what an adapter is given, and what it brings.

The server knows none of them. Whoever puts it together names them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.server.http.limits import Watchman
from penstock.server.http.routes import Route
from penstock.server.http.watches import Connections
from penstock.server.service import Service


@dataclass(frozen=True, slots=True)
class Site:
    """What there is to build on. Event loop only."""

    service: Service
    connections: Connections  # how many streams there may be, of all and of a key
    watchman: Watchman


Adapter = Callable[[Site], Iterable[Route]]
"""Routes that pass the same gate as all others: Host, Origin, key, scope."""
