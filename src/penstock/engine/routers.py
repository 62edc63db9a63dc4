"""Routers: create and remove them, and bring a topic up to date with its sources."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from penstock import limits
from penstock.engine.append import Appender
from penstock.engine.catalogue import Catalogue
from penstock.engine.handle import Handle
from penstock.engine.opening import LogContext
from penstock.engine.router_state import ActiveRouter
from penstock.engine.router_step import Pages, RouterSteps
from penstock.engine.router_thread import RouterThread
from penstock.engine.wal_positions import WalPositions
from penstock.entries import RouterCreated, RouterDropped
from penstock.errors import (
    InvalidArgument,
    Overloaded,
    RouterCycle,
    RouterNotFound,
    TopicExists,
    TopicNotFound,
)
from penstock.topics import read_plan, validation
from penstock.topics import router as routers
from penstock.types import RouterInfo, RouterRules

_LOOK_S = 0.02  # at the latest: a held topic or a full queue sends no notification


class Routers:
    """All routers of an open log. One creation or removal at a time, under the catalogue's
    `changing`; copying takes the lock of its route."""

    def __init__(self, parts: LogContext, catalogue: Catalogue, appender: Appender) -> None:
        self._parts = parts
        self._catalogue = catalogue
        self._clock = parts.clock
        self._timeout_s = parts.settings.append_timeout_s
        self.forward = RouterSteps(parts.journal, parts.clock, appender, parts.references)
        self._routes: dict[str, ActiveRouter] = {}
        self.router_thread = RouterThread(
            parts.clock, self._send, is_threaded=parts.settings.background
        )
        catalogue.catch_up = self.catch_up
        parts.derived_bytes = lambda: self.forward.derived_bytes
        self._load()

    # What callers ask.

    def create(
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
        """The same as `put`, with the rules as keywords."""
        match = None if filter is None else validation.tag_match(filter)
        rules = RouterRules(preserve_node, preserve_tag, allow_cycle, exactly_once, match)
        return self.put(name, source, dest, rules, create_dest=create_dest)

    def put(
        self, name: str, source: str, dest: str, rules: RouterRules, *, create_dest: bool = True
    ) -> RouterInfo:
        """Create a router, or change the rules of an existing one. Durable on return."""
        validation.router_name(name)
        validation.topic_name(source, "source topic")
        validation.topic_name(dest, "destination topic")
        if source == dest:
            raise InvalidArgument(f"a router needs two different topics, not {source!r} twice")
        catalogue = self._catalogue
        with catalogue.changing:
            catalogue.check_open()
            target = catalogue.find(dest)
            if target is None and not create_dest:
                raise TopicNotFound(dest)
            known = self._routes.get(name)
            self._check(name, source, dest, rules, known)
            self._catalogue.check_room((source, dest))
            if known is not None:
                self.catch_up(known.dest)  # by the rules of before
                ends = known.source, known.dest
                self._catalogue.journal.commit(
                    known.dest, _entry(name, *ends, rules, known.router.cursor)
                )
                return self.info(name)
            origin = catalogue.get_or_create(source)[0]
            target = target or catalogue.get_or_create(dest)[0]
            self.catch_up(origin)  # pending records of the source are older than this router
            route = self._create(name, origin, target, rules)
            self._add(route)
            self._count_hops()
            return self._info(route, created=True)

    def drop(self, name: str) -> bool:
        """Remove a router; false when there is none. The present records of its source are copied
        first, and its copies stay."""
        leaving = self._routes.get(name)
        if leaving is not None:
            self.catch_up(leaving.dest)
        with self._catalogue.changing:
            self._catalogue.check_open()
            route = self._routes.get(name)
            if route is None:
                return False
            self._end(route)
            self._count_hops()
            return True

    def info(self, name: str) -> RouterInfo:
        """One router, up to date with what its source has now."""
        route = self._routes.get(name)
        if route is None:
            validation.router_name(name)
            raise RouterNotFound(name)
        self.catch_up(route.dest)
        return self._info(route)

    def ends(self, name: str) -> tuple[str, str]:
        """The source and the destination of a router."""
        route = self._routes.get(name)
        if route is None:
            raise RouterNotFound(name)
        return route.router.source, route.dest.topic.name

    def all(self, prefix: str = "", source: str = "", dest: str = "") -> list[RouterInfo]:
        """Sorted by name. Totals may lag behind."""
        chosen = [
            route
            for name, route in sorted(self._routes.copy().items())
            if name.startswith(prefix)
            and source in ("", route.router.source)
            and dest in ("", route.dest.topic.name)
        ]
        return [self._info(route) for route in chosen]

    @property
    def count(self) -> int:
        return len(self._routes)

    @property
    def lag_records(self) -> int:
        """The total of source seqs that routers have not examined yet."""
        return sum(
            max(0, route.source.topic.head - route.router.cursor)
            for route in self._routes.copy().values()
        )

    def touching(self, topic: str) -> list[str]:
        """The routers that begin or end in this topic, sorted."""
        return sorted(
            name
            for name, route in self._routes.copy().items()
            if topic in (route.router.source, route.dest.topic.name)
        )

    def stop_routers_of(self, handle: Handle) -> list[ActiveRouter]:
        """Stop the routers of a topic that is about to be removed. `changing` is held; call
        `end_routers_of` when the topic is removed."""
        routes = [self._routes[name] for name in self.touching(handle.topic.name)]
        for route in routes:
            self._halt(route)
        return routes

    def finish(self, topic: str) -> None:
        """Before the removal of a topic: copy its present records through its routers."""
        handle = self._catalogue.find(topic)
        for dest in () if handle is None else {route.dest for route in handle.outlets}:
            self.catch_up(dest)

    def end_routers_of(self, handle: Handle, routes: list[ActiveRouter]) -> None:
        """The topic is removed: remove its routers. If the process is killed before this, the next
        one finds that the sources of these routers are missing."""
        for route in routes:
            self._end(route, is_logged=route.dest is not handle)
        self._count_hops()

    # Copying.

    def catch_up(self, handle: Handle) -> None:
        """Return when all records that the sources had at the time of the call are copied, unless
        they cannot be copied: then the reader gets the present records."""
        way = handle.upstream()
        if len(way) > 1 and way[-1].feeds:
            way.append(way[-1].feeds[0].source)  # a round trip: it begins where it ends
        for fed in reversed(way):
            for route in fed.feeds:
                if not self._parts.failure.is_troubled and not self._catalogue.is_closed:
                    self._bring(route, route.source.topic.head)

    def stop(self) -> None:
        """Stop copying in the background. Staged steps are still published."""
        self.router_thread.stop()

    def run(self) -> None:
        """Copy everything that can be copied, on this thread."""
        for _ in range(limits.HOPS_MAX + 1):
            behind = {one.dest for one in self._routes.copy().values() if one.is_behind}
            for dest in behind:
                self.catch_up(dest)
            if not behind:
                return

    def _bring(self, route: ActiveRouter, target: int) -> None:
        deadline = self._clock.monotonic() + self._timeout_s
        while route.router.cursor < target and not route.is_gone:
            steps = 0
            if route.staged < target:
                with route.lock:
                    pages: Pages = {}
                    while route.staged < target and self.forward.step(route, pages):
                        steps += 1
                route.dest.push()
            left_s = deadline - self._clock.monotonic()
            if left_s <= 0 or self._parts.failure.is_troubled:
                return
            with route.moved:
                if route.stopped and not route.in_flight:
                    return  # and what could be sent before that has arrived
                is_waiting = route.in_flight or not steps
                if is_waiting and route.router.cursor < target:
                    self._clock.wait(route.moved, min(left_s, _LOOK_S))

    def _send(self, source: Handle) -> bool:
        """Make one step on every route from this topic; true when there is more to do."""
        if self._parts.failure.is_troubled:
            return False
        pages: Pages = {}
        shards = {}
        is_more = False
        self._catalogue.expire(source)
        for route in source.outlets:
            if route.staged >= source.topic.head:
                continue
            with route.lock:
                if self.forward.step(route, pages):
                    shards[route.dest.shard] = route.dest
            is_more = is_more or route.staged < source.topic.head
        for dest in shards.values():
            dest.push()
        return is_more

    @contextlib.contextmanager
    def held(self, handle: Handle) -> Iterator[None]:
        """Inside the block nothing is copied into or out of this topic."""
        with contextlib.ExitStack() as stack:
            for route in sorted({*handle.feeds, *handle.outlets}, key=lambda one: one.router.name):
                stack.enter_context(route.lock)
            yield

    # Inside.

    def _load(self) -> None:
        """Set up the recovered routers."""
        by_id = {handle.topic.id: handle for handle in self._parts.handles.values()}
        for dest in list(self._parts.handles.values()):
            for router in list(dest.topic.routers.values()):
                # A source may have lost its newest seqs, which are then never used again.
                self._add(ActiveRouter(router, by_id[router.source_id], dest))
        self._count_hops()
        for route in self._routes.values():
            self.router_thread.mark(route.source)

    def _check(
        self, name: str, source: str, dest: str, rules: RouterRules, known: ActiveRouter | None
    ) -> None:
        """All checks that may refuse a router, in their order."""
        target = self._catalogue.find(dest)
        for feed in () if target is None else target.feeds:
            if feed.router.source != source and feed.router.name != name:
                raise TopicExists(
                    f"routers from another source end in topic {dest!r}: a topic has at most one "
                    "source",
                    reason="router_dest_fan_in",
                )
        if known is not None and (known.router.source, known.dest.topic.name) != (source, dest):
            raise TopicExists(
                f"router {name!r} has other topics: drop it before you create it with these",
                reason="router_repoint_forbidden",
            )
        most = self._parts.settings.max_routers
        if known is None and most and len(self._routes) >= most:
            raise Overloaded(
                f"there are {len(self._routes)} routers already (max_routers)",
                retry_after_ms=1000,
                limit=("max_routers", most),
            )
        trip = routers.cycle(self._sources(without=name), source, dest)
        if trip is not None and not rules.allow_cycle:
            raise RouterCycle(trip)

    def _create(self, name: str, source: Handle, dest: Handle, rules: RouterRules) -> ActiveRouter:
        with source.lock:
            if source.wal_positions is None:
                source.wal_positions = WalPositions()
            cursor = source.topic.head
        self._catalogue.journal.commit(dest, _entry(name, source, dest, rules, cursor))
        return ActiveRouter(dest.topic.routers[name], source, dest)

    def _add(self, route: ActiveRouter) -> None:
        self._routes[route.router.name] = route
        with route.source.lock:
            if route.source.wal_positions is None:
                route.source.wal_positions = WalPositions()
            is_first = not route.source.outlets
            route.source.outlets = (*route.source.outlets, route)
        with route.dest.lock:
            route.dest.feeds = (*route.dest.feeds, route)
            route.dest.has_copies = True
        if is_first:
            self.router_thread.watch(route.source)

    def _end(self, route: ActiveRouter, *, is_logged: bool = True) -> None:
        """Stage its last step before the entry that removes it: a new router of this name must not
        get the position of the old one."""
        self._halt(route)
        if is_logged:
            entry = RouterDropped(route.router.name, route.dest.topic.id)
            self._catalogue.journal.commit(route.dest, entry)
        self._remove(route)

    def _halt(self, route: ActiveRouter) -> None:
        with route.lock:
            route.is_gone = True

    def _remove(self, route: ActiveRouter) -> None:
        self._routes.pop(route.router.name, None)
        source, dest = route.source, route.dest
        with source.lock:
            source.outlets = tuple(one for one in source.outlets if one is not route)
            if not source.outlets:
                source.wal_positions = None
        with dest.lock:
            dest.feeds = tuple(one for one in dest.feeds if one is not route)
        if not source.outlets:
            self.router_thread.unwatch(source)

    def _sources(self, without: str = "") -> dict[str, str]:
        """The source of each topic that has one."""
        return {
            route.dest.topic.name: route.router.source
            for name, route in self._routes.items()
            if name != without
        }

    def _count_hops(self) -> None:
        sources = self._sources()
        for route in self._routes.values():
            route.hops_max = routers.hops_allowed(
                sources, route.router.source, route.dest.topic.name
            )

    def _info(self, route: ActiveRouter, *, created: bool = False) -> RouterInfo:
        router = route.router
        with route.source.lock:
            ((lag, _),) = read_plan.unread(route.source.topic, [router.cursor])
        return RouterInfo(
            router.name,
            router.source,
            route.dest.topic.name,
            router.rules.preserve_node,
            router.rules.preserve_tag,
            router.rules.filter,
            router.rules.allow_cycle,
            router.rules.exactly_once,
            router.cursor,
            router.forwarded,
            lag,
            created,
            route.stopped,
        )


def _entry(
    name: str, source: Handle, dest: Handle, rules: RouterRules, cursor: int
) -> RouterCreated:
    return RouterCreated(
        name,
        source.topic.name,
        dest.topic.name,
        rules.bits,
        rules.match,
        cursor,
        dest.topic.head,
        dest.topic.id,
        source.topic.id,
    )
