"""The path of a copy: read the source, number the copies, log what was taken, publish.

Copies are not written to the log a second time. One small entry is logged: the seqs that were taken
from the source, and the positions of their bytes in the log. Where `copy_references` finds none
that may be used, the copies are logged like any append. Either way copies and cursor are one entry,
so neither exists without the other.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from penstock import limits
from penstock.clock import Clock
from penstock.codec.entry import encode_entry
from penstock.directory import copied_records as copying
from penstock.directory.copied_records import Copies
from penstock.engine import read
from penstock.engine.append import Appender, Held
from penstock.engine.copy_references import CopyReferences
from penstock.engine.handle import Handle
from penstock.engine.journal import Journal, check_open
from penstock.engine.read import ReadOptions
from penstock.engine.router_gaps import NO_LOSS, RECORD_LOSS, RouterLoss, loss_of
from penstock.engine.router_state import ActiveRouter
from penstock.engine.wal_positions import References, WalStep
from penstock.entries import (
    COPIES_DURABLE,
    COPIES_HOPS_SHIFT,
    BatchStarted,
    CopiesLogged,
    RecordsAppended,
    RecordsRouted,
    RouterLogged,
    WalRange,
)
from penstock.errors import Overloaded, PenstockError, RecordTooLarge, TopicFull
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.topics.router import runs_of
from penstock.types import (
    FramesPage,
    RouterRules,
    TagMatch,
)

_IN_FLIGHT_MAX = 4
_IN_MEMORY = WalRange("", 0, 0, 0)  # where copies that were never written lie
FULL = "the destination is full"
Pages = dict[tuple[int, int, TagMatch | None, int], FramesPage]
"""One read of a source, shared by all routers that need the same records."""


@dataclass(slots=True)
class _Draft:
    """A step that is being prepared."""

    route: ActiveRouter
    rules: RouterRules  # as they were when it began
    page: FramesPage
    cursor: int
    loss: RouterLoss = NO_LOSS
    ts: int = 0
    made: Copies | None = None
    step: WalStep | None = None  # where the bytes lie, if the copies refer to them
    token: object = None

    @property
    def copies(self) -> RecordsAppended | None:
        return None if self.made is None else self.made.entry

    @property
    def entry(self) -> RecordsRouted:
        name = self.route.router.name
        topic_id = self.route.dest.topic.id
        return RecordsRouted(
            topic_id, name, self.cursor, self.loss.lost, self.copies, self.loss.hops
        )

    @property
    def count(self) -> int:
        return self.loss.lost + (0 if self.made is None else self.made.entry.count)

    def logged(self) -> CopiesLogged:
        """The logged form of the step, without the bytes."""
        dest, router, step = self.route.dest.topic, self.route.router, self.step
        options = self.rules.bits | self.loss.hops << COPIES_HOPS_SHIFT
        if dest.config.durability == "fsync":
            options |= COPIES_DURABLE
        return CopiesLogged(
            dest.id,
            self.route.dest.next_seq,
            self.ts,
            router.name,
            options,
            self.cursor,
            self.loss.lost,
            router.source_id,
            "" if step is None else router.source,
            None if step is None else step.place,
            () if self.made is None or step is None else runs_of(self.made.seqs),
        )

    def frames(self) -> bytes:
        copies = self.copies
        if copies is None or self.step is not None:
            return encode_entry(self.logged(), self.ts)
        name = self.route.router.name
        started = BatchStarted(
            copies.topic_id, copies.first_seq, copies.count, b"", self.ts, name, self.cursor
        )
        return encode_entry(started, self.ts) + copies.frames


class _Changed(Exception):
    """The class of the destination has changed: repeat the step."""


class RouterSteps:
    """Makes the steps of routes. The route's lock is held."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        appender: Appender,
        references: References,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._appender = appender
        self._references = CopyReferences(references)
        self.derived_bytes = 0
        self.derived_total = 0  # copies that were logged as references
        self.logged_total = 0  # copies that were logged with their bytes

    def step(self, route: ActiveRouter, pages: Pages) -> bool:
        """Stage one step; false when there is none to make now. The destination's shard must be
        pushed afterwards."""
        if route.is_gone or route.in_flight >= _IN_FLIGHT_MAX:
            return False
        if route.staged >= route.source.topic.head:
            route.stopped = ""
            return False
        outlook = route.outlook()
        if route.full == outlook:
            return False
        try:
            try:
                is_made = self._step(route, pages)
            except _Changed:
                is_made = self._step(route, pages)
        except (Held, Overloaded, _Changed):
            return False  # for a moment
        except PenstockError as error:
            route.stopped = str(error)
            return False
        route.stopped, route.full = ("", None) if is_made else (FULL, outlook)
        return is_made

    def _step(self, route: ActiveRouter, pages: Pages) -> bool:
        rules = route.router.rules
        most = limits.ROUTE_RECORDS_MAX
        while True:
            draft = self._draft(route, rules, pages, most)
            try:
                self._stage(draft)
            except TopicFull:
                if draft.page.count == 1:
                    return False
            except RecordTooLarge:
                if draft.page.count == 1:  # it will never fit: reported as a loss, without waiting
                    self._stage(_Draft(route, rules, draft.page, draft.cursor, RECORD_LOSS))
                    return True
            else:
                return True
            most = draft.page.count // 2  # as many as fit

    def _draft(self, route: ActiveRouter, rules: RouterRules, pages: Pages, most: int) -> _Draft:
        source = route.source
        key = (source.topic.id, route.staged, rules.match, most)
        page = pages.get(key)
        if page is None:
            wanted = ReadOptions(most, limits.ROUTE_BYTES_MAX, (), rules.match)
            page = pages[key] = read.read_frames(source, route.staged, None, wanted)
        if page.gap is None:
            draft = _Draft(route, rules, page, page.next_seq)
        else:
            draft = _Draft(route, rules, page, page.gap.last, loss_of(route, page.gap))
        if draft.cursor <= route.staged:
            raise AssertionError((route.router.name, "a step that leads nowhere", draft.cursor))
        return draft

    def _stage(self, draft: _Draft) -> None:
        dest = draft.route.dest
        has_records = bool(draft.page.count) and not draft.loss.lost and draft.page.gap is None
        if dest.topic.config.durability == "ephemeral":
            self._keep(draft, has_records=has_records)
            return
        if has_records:
            route, page = draft.route, draft.page
            draft.step, draft.token = self._references.find(route, page, draft.cursor)
        try:
            with dest.lock:
                self._begin(draft, has_records=has_records)
                self._submit(draft)
        except BaseException:
            self._references.release(draft.token)
            raise
        draft.route.staged = draft.cursor

    def _begin(self, draft: _Draft, *, has_records: bool) -> None:
        """Make the copies as the next records of the destination. Its lock is held."""
        route = draft.route
        dest = route.dest
        check_open(dest)
        if dest.holder is not None:
            raise Held
        config = dest.topic.config
        draft.ts = max(self._clock.now_ms(), dest.last_ts)
        if not has_records:
            return
        draft.made = copying.make(
            draft.page.frames,
            dest.topic.id,
            dest.next_seq,
            draft.ts,
            draft.rules,
            route.origin,
            durable=config.durability == "fsync",
            hops_max=route.hops_max,
        )
        if draft.made is not None and config.discard == "reject":
            self._appender.admit(dest, draft.made.entry.count, draft.made.entry.payload_bytes)

    def _keep(self, draft: _Draft, *, has_records: bool) -> None:
        """For a RAM-only destination only the cursor is logged, and first: after a restart the
        copies are lost like all its records, and are not made a second time."""
        dest = draft.route.dest
        self._reserve(dest, max(draft.loss.lost, draft.page.count))
        router = draft.route.router
        with dest.lock:  # how many there will be
            self._begin(draft, has_records=has_records)
            total = router.forwarded + (0 if draft.made is None else draft.made.entry.count)
        moved = CopiesLogged(
            dest.topic.id,
            0,
            0,
            router.name,
            draft.rules.bits,
            draft.cursor,
            0,
            router.source_id,
            "",
            _IN_MEMORY,
            (0, total),
        )

        entry = RouterLogged(dest.topic.id, router.name, draft.cursor, total)
        frames = encode_entry(moved, self._clock.now_ms())
        with dest.lock:
            check_open(dest)
            commit = self._journal.submit(dest, (entry,), frames=frames, durable=False)
        self._journal.wait(dest, commit)
        with dest.lock:
            self._begin(draft, has_records=has_records)
            if draft.count and dest.next_seq + draft.count - 1 > dest.durable_ceiling:
                raise Overloaded("seqs must be reserved first", retry_after_ms=1)
            self._journal.apply_unlogged(dest, (draft.entry,))
            dest.next_seq += draft.count
            dest.last_ts = draft.ts
        draft.route.staged = draft.cursor
        dest.wake()

    def _reserve(self, dest: Handle, count: int) -> None:
        """Reserve the seqs of a RAM-only topic before they are used."""
        commit = self._appender.reserve(dest, count) if count else None
        if commit is not None:
            self._journal.wait(dest, commit)

    def _submit(self, draft: _Draft) -> None:
        """The destination's lock is held."""
        route, copies = draft.route, draft.copies
        dest = route.dest
        is_fsync = dest.topic.config.durability == "fsync"
        if draft.step is not None and self._references.is_too_weak(route):
            raise _Changed
        if copies is None:
            self._references.release(draft.token)
            draft.step = draft.token = None
        count, last = draft.count, dest.next_seq + draft.count - 1
        durable = is_fsync and count > 0
        if count and not is_fsync and last > dest.reserved:
            self._appender.promise(dest, last, draft.ts)
        self._journal.submit(
            dest,
            (draft.entry,),
            frames=draft.frames(),
            durable=durable,
            on_applied=functools.partial(self._applied, draft),
            callback=functools.partial(self._over, draft),
            notifies=True,
        )
        route.step_sent()
        dest.next_seq = last + 1
        dest.last_ts = draft.ts
        if copies is not None:
            dest.staged_bytes += copies.payload_bytes
            if draft.step is None:
                self.logged_total += copies.count
            else:
                self.derived_total += copies.count
                self.derived_bytes += len(copies.frames)

    def _applied(self, draft: _Draft, commit: PendingCommit) -> None:
        """Publish the copies. The destination's lock is held."""
        dest, copies = draft.route.dest, draft.copies
        if copies is None:
            return
        dest.staged_bytes -= copies.payload_bytes
        if dest.wal_positions is not None:
            last = copies.first_seq + copies.count - 1
            needs = () if draft.step is None else draft.step.needs
            place = self._journal.wal_range(dest, commit)
            dest.wal_positions.note(copies.first_seq, last, place, needs)

    def _over(self, draft: _Draft, commit: PendingCommit) -> None:
        self._references.release(draft.token)
        draft.route.step_ended(failed=commit.error is not None)
