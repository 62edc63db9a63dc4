"""The path of a copy: read the source, number the copies, log what was taken, publish.

Copies are not written to the log a second time. What is logged is one small entry: which seqs of
the source were taken and where their bytes lie in the log. Only where those bytes may not be
there when they are needed, or would be weaker than the destination promises, the copies are
logged like any append. Either way copies and position are one entry, so neither is ever there
without the other.
"""

from __future__ import annotations

from penstock import limits
from penstock.clock import Clock
from penstock.codec.entry import encode_entry
from penstock.engine import copies as copying
from penstock.engine import read
from penstock.engine.append import Appender, Held, check_open
from penstock.engine.copies import Copies
from penstock.engine.handle import Handle
from penstock.engine.read import ReadOptions
from penstock.engine.route import Route
from penstock.engine.trail import References, Step
from penstock.errors import Overloaded, PenstockError, RecordTooLarge, TopicFull
from penstock.storage.wal.ticket import Ticket
from penstock.topics.registry import Registry
from penstock.topics.routers import runs_of
from penstock.types import (
    COPIES_DURABLE,
    BatchStarted,
    CopiesLogged,
    FramesPage,
    Place,
    RecordsRouted,
    RouterRules,
    TagMatch,
)

_IN_FLIGHT_MAX = 4
FULL = "the destination is full"
Pages = dict[tuple[int, int, TagMatch | None, int], FramesPage]
"""What was read of a source in one go, for all routers that want the same."""


class _Subject:
    """What a ticket carries: a step on its way."""

    __slots__ = ("entry", "needs", "route", "token")

    def __init__(
        self, route: Route, entry: RecordsRouted, needs: tuple[Place, ...], token: object
    ) -> None:
        self.route = route
        self.entry = entry
        self.needs = needs  # what the copies refer to, if they do
        self.token = token


class Forward:
    """Sends routes on, step by step. The route's lock is held."""

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        appender: Appender,
        references: References,
        timeout_s: float,
    ) -> None:
        self._timeout_s = timeout_s
        self._registry = registry
        self._clock = clock
        self._appender = appender
        self._references = references
        self._publisher = self._publish
        self.derived_bytes = 0
        self.derived_total = 0  # copies that were logged as references
        self.logged_total = 0  # copies that were logged with their bytes

    def step(self, route: Route, pages: Pages) -> bool:
        """Stage one step; false when there is none to make now. The destination's shard must be
        pushed afterwards."""
        source = route.source
        if route.is_gone or route.in_flight >= _IN_FLIGHT_MAX:
            return False
        if route.staged >= source.topic.head:
            route.stopped = ""
            return False
        most = limits.ROUTE_RECORDS_MAX
        rules = route.router.rules  # others may be given meanwhile: one step obeys one set
        try:
            while True:
                page = self._page(route, rules, pages, most)
                try:
                    self._stage(route, rules, page)
                except (TopicFull, RecordTooLarge) as error:
                    if page.count > 1:
                        most = page.count // 2  # as many as fit
                        continue
                    if isinstance(error, TopicFull):
                        route.stopped = FULL
                        return False
                    self._stage(
                        route, rules, page, lost=1
                    )  # it never will fit: told, not waited for
                route.stopped = ""
                return True
        except (Held, Overloaded):
            return False  # for a moment
        except PenstockError as error:
            route.stopped = str(error)
            return False

    def _page(self, route: Route, rules: RouterRules, pages: Pages, most: int) -> FramesPage:
        match = rules.match
        key = (route.source.topic.id, route.staged, match, most)
        page = pages.get(key)
        if page is None:
            wanted = ReadOptions(most, limits.ROUTE_BYTES_MAX, (), match)
            page = pages[key] = read.read_frames(route.source, route.staged, None, wanted)
        return page

    def _stage(self, route: Route, rules: RouterRules, page: FramesPage, lost: int = 0) -> None:
        dest = route.dest
        cursor = page.next_seq
        if page.gap is not None:
            lost = page.gap.last - page.gap.first + 1
            cursor = page.gap.last
        if cursor <= route.staged:
            raise AssertionError((route.router.name, "a step that leads nowhere", cursor))
        step = self._reference(route, cursor)
        if dest.topic.config.durability == "ephemeral":
            self._reserve(dest, max(lost, page.count))
        with dest.lock:
            check_open(dest)
            if dest.holder is not None:
                raise Held
            ts = max(self._clock.now_ms(), dest.last_ts)
            made: Copies | None = None
            if page.count and not lost:
                made = self._copies(route, rules, page, dest.next_seq, ts)
            is_kept = self._submit(route, rules, made, lost, cursor, ts, step)
        route.staged = cursor
        if is_kept:
            dest.wake()

    def _reserve(self, dest: Handle, count: int) -> None:
        """Seqs of a RAM-only topic are promised before they are used."""
        ticket = self._appender.reserve(dest, count) if count else None
        if ticket is not None:
            dest.shard.drive(ticket)
            ticket.wait(self._timeout_s)

    def _reference(self, route: Route, cursor: int) -> Step | None:
        """Where the records up to `cursor` lie in the log, if copies may count on that."""
        source, dest = route.source, route.dest
        if dest.topic.config.durability == "fsync" != source.topic.config.durability:
            return None  # the copies would be weaker than their topic promises
        with source.lock:
            if source.trail is None:
                return None
            source.trail.prune(min([one.staged for one in source.outlets], default=0))
            return source.trail.between(route.staged + 1, cursor)

    def _copies(
        self, route: Route, rules: RouterRules, page: FramesPage, first: int, ts: int
    ) -> Copies | None:
        dest = route.dest
        made = copying.make(
            page.frames,
            dest.topic.id,
            first,
            ts,
            rules,
            route.origin,
            durable=dest.topic.config.durability == "fsync",
            hops_max=route.hops_max,
        )
        if made is not None and dest.topic.config.discard == "reject":
            self._appender.admit(dest, made.entry.count, made.entry.payload_bytes)
        return made

    def _submit(
        self,
        route: Route,
        rules: RouterRules,
        made: Copies | None,
        lost: int,
        cursor: int,
        ts: int,
        step: Step | None,
    ) -> bool:
        """True when the copies are kept in memory alone. The destination's lock is held."""
        dest = route.dest
        topic = dest.topic
        copies = None if made is None else made.entry
        entry = RecordsRouted(topic.id, route.router.name, cursor, lost, copies)
        count = lost + (0 if copies is None else copies.count)
        last = dest.next_seq + count - 1
        if topic.config.durability == "ephemeral":
            if count and last > dest.durable_ceiling:
                raise Overloaded("seqs must be reserved first", retry_after_ms=1)
            self._registry.apply(entry)
            dest.next_seq = last + 1
            dest.last_ts = ts
            return True
        is_fsync = topic.config.durability == "fsync"
        token: object | None = None
        if made is not None and step is not None and step.has(made.seqs[0], made.seqs[-1]):
            token = self._references.admit(step.needs)
        frames = self._frames(route, rules, made, lost, cursor, ts, None if token is None else step)
        needs = () if token is None or step is None else step.needs
        subject = _Subject(route, entry, needs, token)
        durable = is_fsync and count > 0
        ticket = Ticket(frames, self._publisher, durable, topic.id, subject, self._over)
        try:
            if count and not is_fsync and last > dest.reserved:
                self._appender.promise(dest, last, ts)
            dest.shard.submit(ticket)
        except BaseException:
            if token is not None:
                self._references.settle(token)
            raise
        route.sent()
        dest.next_seq = last + 1
        dest.last_ts = ts
        if copies is not None:
            dest.staged_bytes += copies.payload_bytes
            if token is None:
                self.logged_total += copies.count
            else:
                self.derived_total += copies.count
                self.derived_bytes += len(copies.frames)
        return False

    def _frames(
        self,
        route: Route,
        rules: RouterRules,
        made: Copies | None,
        lost: int,
        cursor: int,
        ts: int,
        step: Step | None,
    ) -> bytes:
        if made is None or step is not None:
            return encode_entry(self._logged(route, rules, ts, cursor, lost, made, step), ts)
        copies = made.entry
        started = BatchStarted(
            copies.topic_id, copies.first_seq, copies.count, b"", ts, route.router.name, cursor
        )
        return encode_entry(started, ts) + copies.frames

    def _logged(
        self,
        route: Route,
        rules: RouterRules,
        ts: int,
        cursor: int,
        lost: int,
        made: Copies | None,
        step: Step | None,
    ) -> CopiesLogged:
        router = route.router
        options = rules.bits
        if route.dest.topic.config.durability == "fsync":
            options |= COPIES_DURABLE
        return CopiesLogged(
            route.dest.topic.id,
            route.dest.next_seq,
            ts,
            router.name,
            options,
            cursor,
            lost,
            router.source_id,
            "" if step is None else router.source,
            None if step is None else step.place,
            () if made is None or step is None else runs_of(made.seqs),
        )

    def _publish(self, tickets: list[Ticket]) -> None:
        """Visible from here on. All tickets are of one destination and follow each other."""
        dest: Handle = tickets[0].subject.route.dest
        with dest.lock:
            for ticket in tickets:
                subject: _Subject = ticket.subject
                entry = subject.entry
                if not dest.is_dropped:
                    self._registry.apply(entry)
                    dest.topic.position = ticket.start
                if entry.copies is None:
                    continue
                dest.staged_bytes -= entry.copies.payload_bytes
                if dest.trail is not None:
                    first = entry.copies.first_seq
                    place = self._appender.place_of(dest, ticket)
                    dest.trail.note(first, first + entry.copies.count - 1, place, subject.needs)
        if dest.listeners:
            dest.wake()

    def _over(self, ticket: Ticket) -> None:
        subject: _Subject = ticket.subject
        if subject.token is not None:
            self._references.settle(subject.token)
        subject.route.settled(failed=ticket.error is not None)
