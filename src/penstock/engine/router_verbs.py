"""The verbs of `Log` for routers, as methods of it."""

from __future__ import annotations

from typing import Protocol, Unpack

from penstock import types
from penstock.engine.core import LogCore
from penstock.engine.interruptible_calls import uninterrupted
from penstock.verb_keywords import RouterKeywords


class _HasCore(Protocol):
    @property
    def core(self) -> LogCore: ...


@uninterrupted
def create_router(
    self: _HasCore, name: str, source: str, dest: str, **rules: Unpack[RouterKeywords]
) -> types.RouterInfo:
    """Create a router, or change the rules of an existing one. It copies the records appended to
    `source` from now on to `dest`: all of them, or with `filter` the matching ones. Missing topics
    are created. Durable on return."""
    return self.core.routing.create(name, source, dest, **rules)


def router(self: _HasCore, name: str) -> types.RouterInfo:
    """One router, up to date with what its source has now."""
    return self.core.routing.info(name)


def routers(
    self: _HasCore, prefix: str = "", *, source: str = "", dest: str = ""
) -> list[types.RouterInfo]:
    """All routers, or those of this name, source or destination, sorted by name."""
    return self.core.routing.all(prefix, source, dest)


@uninterrupted
def drop_router(self: _HasCore, name: str) -> bool:
    """Remove a router; false when there is none. Its copies stay. Durable on return."""
    return self.core.routing.drop(name)
