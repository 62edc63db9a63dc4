"""The server's route table, without a server."""

from __future__ import annotations

import inspect
from typing import Any

from penstock.compat.qwp import adapter as qwp
from penstock.server.http.route_table import route_table
from penstock.server.http.routes import Route


class Handlers:
    """Stands where a class of handlers would: every name is there and does nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def routes() -> tuple[Route, ...]:
    """Those of the server itself, and of the protocols that `penstock serve` adds."""
    own = [name for name in inspect.signature(route_table).parameters if name != "more"]
    more = qwp.routes(Handlers())  # type: ignore[arg-type]
    return route_table(*[Handlers() for _ in own], more).all  # type: ignore[arg-type]
