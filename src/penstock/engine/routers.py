"""Routers: making and unmaking them, and bringing a topic up to date with what feeds it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from penstock import limits
from penstock.engine.append import Appender
from penstock.engine.catalogue import Catalogue
from penstock.engine.forward import Forward, Pages
from penstock.engine.forwarder import Forwarder
from penstock.engine.handle import Handle
from penstock.engine.opening import Parts
from penstock.engine.route import Route
from penstock.engine.trail import Trail
from penstock.errors import (
    InvalidArgument,
    Overloaded,
    RouterCycle,
    RouterNotFound,
    TopicExists,
    TopicNotFound,
)
from penstock.topics import names, reading, routers
from penstock.types import RouterCreated, RouterDropped, RouterInfo, RouterRules

_LOOK_S = 0.02  # at the latest: a topic that is held, or a full queue, tells nobody


class Routers:
    """All routers of an open log. Creations and removals go one at a time, under the
    catalogue's `changing`; copying takes the lock of its route."""

    def __init__(self, parts: Parts, catalogue: Catalogue, appender: Appender) -> None:
        self._parts = parts
        self._catalogue = catalogue
        self._clock = parts.clock
        self._timeout_s = parts.settings.append_timeout_s
        self.forward = Forward(
            parts.registry, parts.clock, appender, parts.references, self._timeout_s
        )
        self._routes: dict[str, Route] = {}
        self.forwarder = Forwarder(parts.clock, self._send, is_threaded=parts.settings.background)
        catalogue.settle = self.settle
        parts.derived_bytes = lambda: self.forward.derived_bytes
        self._load()

    # What callers ask.

    def put(
        self, name: str, source: str, dest: str, rules: RouterRules, *, create_dest: bool = True
    ) -> RouterInfo:
        """Make a router, or give an existing one these rules. Durable on return."""
        names.router_name(name)
        names.topic_name(source, "source topic")
        names.topic_name(dest, "destination topic")
        if source == dest:
            raise InvalidArgument(f"a router leads from one topic to another, not {source!r} twice")
        catalogue = self._catalogue
        with catalogue.changing:
            catalogue.check_open()
            target = catalogue.find(dest)
            if target is None and not create_dest:
                raise TopicNotFound(dest)
            known = self._routes.get(name)
            self._check(name, source, dest, rules, known)
            self._check_topics(source, dest)
            if known is not None:
                self.settle(known.dest)  # by the rules of before
                ends = known.source, known.dest
                self._catalogue.commit(known.dest, _entry(name, *ends, rules, known.router.cursor))
                return self.info(name)
            origin = catalogue.find(source) or catalogue.create(
                source, catalogue.config(source, {})
            )
            target = target or catalogue.create(dest, catalogue.config(dest, {}))
            self.settle(origin)  # what is on its way to the source was there before this router
            route = self._create(name, origin, target, rules)
            self._add(route)
            self._count_hops()
            return self._info(route, created=True)

    def drop(self, name: str) -> bool:
        """Remove a router; false when there is none. What it copied stays, and what its source
        has by now is copied first."""
        leaving = self._routes.get(name)
        if leaving is not None:
            self.settle(leaving.dest)
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
            names.router_name(name)
            raise RouterNotFound(name)
        self.settle(route.dest)
        return self._info(route)

    def ends(self, name: str) -> tuple[str, str]:
        """Where a router begins and where it ends."""
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
        """Source seqs that routers have not looked at yet, in all."""
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

    def leave(self, handle: Handle) -> list[Route]:
        """A topic is about to go, and its routers with it: they make no more steps. `changing`
        is held; tell `left` when it is gone."""
        routes = [self._routes[name] for name in self.touching(handle.topic.name)]
        for route in routes:
            self._halt(route)
        return routes

    def finish(self, topic: str) -> None:
        """Before a topic goes: what it has by now is copied to where its routers lead."""
        handle = self._catalogue.find(topic)
        for dest in () if handle is None else {route.dest for route in handle.outlets}:
            self.settle(dest)

    def left(self, handle: Handle, routes: list[Route]) -> None:
        """The topic is gone. Were the process killed before this, the next one would find that
        the sources of these routers are."""
        for route in routes:
            self._end(route, is_logged=route.dest is not handle)
        self._count_hops()

    # Copying.

    def settle(self, handle: Handle) -> None:
        """Return when everything that its sources had when this was called is here, unless it
        cannot be brought: then the reader gets what there is."""
        way = handle.upstream()
        if len(way) > 1 and way[-1].feeds:
            way.append(way[-1].feeds[0].source)  # a round trip: it begins where it ends
        for fed in reversed(way):
            for route in fed.feeds:
                if not self._parts.is_troubled and not self._catalogue.is_closed:
                    self._bring(route, route.source.topic.head)

    def stop(self) -> None:
        """No more copies on our own account. What was staged is still published."""
        self.forwarder.stop()

    def run(self) -> None:
        """Send everything on that can be, without a thread."""
        for _ in range(limits.HOPS_MAX + 1):
            behind = {one.dest for one in self._routes.copy().values() if one.is_behind}
            for dest in behind:
                self.settle(dest)
            if not behind:
                return

    def _bring(self, route: Route, target: int) -> None:
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
            if left_s <= 0 or self._parts.is_troubled:
                return
            with route.moved:
                if route.stopped and not route.in_flight:
                    return  # and what could be sent before that has arrived
                is_waiting = route.in_flight or not steps
                if is_waiting and route.router.cursor < target:
                    self._clock.wait(route.moved, min(left_s, _LOOK_S))

    def _send(self, source: Handle) -> bool:
        """One step on every route from this topic; true when there is more to do."""
        if self._parts.is_troubled:
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
        """Nothing is copied into this topic, and nothing out of it, meanwhile."""
        with contextlib.ExitStack() as stack:
            for route in sorted({*handle.feeds, *handle.outlets}, key=lambda one: one.router.name):
                stack.enter_context(route.lock)
            yield

    # Inside.

    def _load(self) -> None:
        """Routers as recovered. One whose source is gone was cut short in going with it."""
        by_id = {handle.topic.id: handle for handle in self._parts.handles.values()}
        for dest in list(self._parts.handles.values()):
            for router in list(dest.topic.routers.values()):
                source = by_id.get(router.source_id)
                if source is None:
                    del dest.topic.routers[router.name]
                    continue
                # A source may have lost its newest seqs, which are then never used again.
                self._add(Route(router, source, dest))
        self._count_hops()
        for route in self._routes.values():
            self.forwarder.mark(route.source)

    def _check(
        self, name: str, source: str, dest: str, rules: RouterRules, known: Route | None
    ) -> None:
        """Everything that may be refused, in the order in which it is looked at."""
        target = self._catalogue.find(dest)
        for feed in () if target is None else target.feeds:
            if feed.router.source != source and feed.router.name != name:
                raise TopicExists(
                    f"topic {dest!r} is fed from another topic already; a second source is not "
                    "possible",
                    reason="router_dest_fan_in",
                )
        if known is not None and (known.router.source, known.dest.topic.name) != (source, dest):
            raise TopicExists(
                f"router {name!r} leads elsewhere; drop it first to lead it here",
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

    def _check_topics(self, *topics: str) -> None:
        """Is there room for those that must be created? Both or none."""
        most = self._parts.settings.max_topics
        missing = [topic for topic in topics if self._catalogue.find(topic) is None]
        if most and missing and self._catalogue.count + len(missing) > most:
            raise Overloaded(
                f"there are {self._catalogue.count} topics already (max_topics)",
                retry_after_ms=1000,
                limit=("max_topics", most),
            )

    def _create(self, name: str, source: Handle, dest: Handle, rules: RouterRules) -> Route:
        with source.lock:
            if source.trail is None:
                source.trail = Trail()
            cursor = source.topic.head
        self._catalogue.commit(dest, _entry(name, source, dest, rules, cursor))
        return Route(dest.topic.routers[name], source, dest)

    def _add(self, route: Route) -> None:
        self._routes[route.router.name] = route
        with route.source.lock:
            if route.source.trail is None:
                route.source.trail = Trail()
            is_first = not route.source.outlets
            route.source.outlets = (*route.source.outlets, route)
        with route.dest.lock:
            route.dest.feeds = (*route.dest.feeds, route)
        if is_first:
            self.forwarder.watch(route.source)

    def _end(self, route: Route, *, is_logged: bool = True) -> None:
        """Its last step is staged before the entry that ends it: a router made anew under this
        name must not get the position of the old one."""
        self._halt(route)
        if is_logged:
            entry = RouterDropped(route.router.name, route.dest.topic.id)
            self._catalogue.commit(route.dest, entry)
        self._remove(route)

    def _halt(self, route: Route) -> None:
        with route.lock:
            route.is_gone = True

    def _remove(self, route: Route) -> None:
        self._routes.pop(route.router.name, None)
        source, dest = route.source, route.dest
        with source.lock:
            source.outlets = tuple(one for one in source.outlets if one is not route)
            if not source.outlets:
                source.trail = None
        with dest.lock:
            dest.feeds = tuple(one for one in dest.feeds if one is not route)
        if not source.outlets:
            self.forwarder.unwatch(source)

    def _sources(self, without: str = "") -> dict[str, str]:
        """For each fed topic, what feeds it."""
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

    def _info(self, route: Route, *, created: bool = False) -> RouterInfo:
        router = route.router
        with route.source.lock:
            ((lag, _),) = reading.unread(route.source.topic, [router.cursor])
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
