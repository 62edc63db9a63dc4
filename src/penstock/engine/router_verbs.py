"""The verbs of routers that a log has."""

from __future__ import annotations

import abc
from typing import Any

from penstock.engine.routers import Routers
from penstock.topics import names
from penstock.types import RouterInfo, RouterRules


class RouterVerbs(abc.ABC):
    """A part of `Log`, which makes this one."""

    routing: Routers  # for servers

    def create_router(
        self,
        name: str,
        source: str,
        dest: str,
        *,
        filter: Any = None,
        preserve_node: bool = True,
        preserve_tag: bool = True,
        allow_cycle: bool = False,
        exactly_once: bool = False,
        create_dest: bool = True,
    ) -> RouterInfo:
        """Copy what is appended to `source` from now on into `dest`, or give an existing router
        these rules. With `filter` (a trailing `*` is a prefix) only records with such a tag.
        Missing topics are created. `exactly_once` notes the origin in the meta of each copy.
        Durable on return."""
        match = None if filter is None else names.tag_match(filter)
        rules = RouterRules(preserve_node, preserve_tag, allow_cycle, exactly_once, match)
        return self.routing.put(name, source, dest, rules, create_dest=create_dest)

    def router(self, name: str) -> RouterInfo:
        """One router, up to date with what its source has now."""
        return self.routing.info(name)

    def routers(self, prefix: str = "", *, source: str = "", dest: str = "") -> list[RouterInfo]:
        """All routers, or those of this name, source or destination, sorted by name."""
        return self.routing.all(prefix, source, dest)

    def drop_router(self, name: str) -> bool:
        """Remove a router; false when there is none. What it copied stays. Durable on return."""
        return self.routing.drop(name)
