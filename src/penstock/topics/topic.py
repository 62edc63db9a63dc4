"""One topic's state: its head, its floors, its losses, and the spans of its records.

Only `apply_*` methods change it, and they run the same live and on replay. The owner's lock
guards it; the time is always an argument.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from penstock.atomic_steps import Step, perform
from penstock.entries import (
    FloorMoved,
    PositionMoved,
    RecordsAppended,
    RecordsDeleted,
    RecordsRouted,
    RouterCreated,
    RouterLogged,
)
from penstock.topics import idempotency, loss_ranges, retention
from penstock.topics.bitmap import pack_indices
from penstock.topics.idempotency import Producers
from penstock.topics.leases import Queue
from penstock.topics.router import Router
from penstock.topics.spans import Run, Span
from penstock.types import (
    Cause,
    LossRange,
    TagMatch,
    TopicConfig,
)

_LAST = attrgetter("last")

RunFactory = Callable[[RecordsAppended, Run | None], tuple[Run, bool]]
"""Place appended frames: (run, is_new). A run that still has room is extended in place."""


class Topic:
    """Floors hold the highest seq lost to each cause; they only rise."""

    __slots__ = (
        "bytes",
        "ceiling",
        "config",
        "consumers",
        "created_ts",
        "delete_floor",
        "evict_floor",
        "expiry_floor",
        "head",
        "id",
        "keys",
        "last_ts",
        "live",
        "losses",
        "name",
        "position",
        "producers",
        "queue",
        "removals",
        "routers",
        "spans",
        "undo",
    )

    def __init__(self, topic_id: int, name: str, config: TopicConfig, created_ts: int) -> None:
        self.id = topic_id
        self.name = name
        self.config = config
        self.created_ts = created_ts
        self.head = 0
        self.last_ts = 0
        self.ceiling = 0
        self.live = 0
        self.bytes = 0
        self.evict_floor = 0
        self.expiry_floor = 0
        self.delete_floor = 0
        self.position = (0, 0)  # where in the log the last applied entry stands
        self.losses: list[LossRange] = []
        self.spans: list[Span] = []
        self.keys: idempotency.Keys = {}
        self.producers = Producers()
        self.consumers: dict[str, tuple[int, int]] = {}  # name -> seq it has come to, ts
        self.queue = Queue()  # of a log it stays empty
        self.routers: dict[str, Router] = {}  # those that end here
        self.undo: tuple[Any, ...] | None = None  # while an append may be interrupted: see `guard`
        self.removals = 0  # how often live records went, for those who keep something by seq

    # What readers ask.

    @property
    def epoch(self) -> int:
        """A recreated topic gets a new id, so the id tells every recreation."""
        return self.id

    @property
    def lost_floor(self) -> int:
        """Highest seq of the involuntarily lost prefix."""
        return max(self.evict_floor, self.expiry_floor)

    @property
    def evict_earliest(self) -> int:
        return min(self.lost_floor, self.head) + 1

    @property
    def earliest(self) -> int:
        """The first live seq; head + 1 when nothing lives."""
        if self.spans:
            first = self.spans[0].earliest
            if first < self.evict_earliest:
                raise AssertionError((self.name, "floor above a live record", first))
            return first
        return self.head + 1

    # How it changes.

    def apply_append(
        self, entry: RecordsAppended, place: RunFactory, jump_cause: Cause = Cause.LOST
    ) -> None:
        """Add new records; a batch at or below the head was added before and is skipped."""
        if not self.add_records(entry, place, jump_cause):
            return
        if entry.key:
            self.remember(
                entry.key, entry.first_seq, entry.first_seq + entry.count - 1, entry.last_ts
            )
        config = self.config
        if config.cap_records or config.cap_bytes or config.durability == "ephemeral":
            self.enforce_caps()

    def add_records(
        self, entry: RecordsAppended, place: RunFactory, jump_cause: Cause = Cause.LOST
    ) -> bool:
        """Add the records without their key; false when they were added before."""
        first, count = entry.first_seq, entry.count
        last = first + count - 1
        if first != self.head + 1 and not self._is_next(entry, last, jump_cause):
            return False
        tail = self.spans[-1] if self.spans else None
        joins = tail is not None and tail.first + tail.count == first
        run, is_new = place(entry, tail.run if tail is not None and joins else None)
        if is_new or tail is None:
            size = entry.payload_bytes
            self.spans.append(Span(run, first=first, count=count, live=count, payload_bytes=size))
        else:
            tail.count += count
            tail.live += count
            tail.bytes += entry.payload_bytes
        self.head = last
        self.live += count
        self.bytes += entry.payload_bytes
        if entry.last_ts > self.last_ts:
            self.last_ts = entry.last_ts
        return True

    def guard(self) -> None:
        """Before an append on a thread that an asynchronous exception may interrupt: save the
        state. The next caller that finds `undo` set rolls back first."""
        spans = self.spans
        was = self.head, self.live, self.bytes, self.last_ts, self.position
        if spans:
            tail = spans[-1]
            tail_was = tail.count, tail.live, tail.bytes
            self.undo = len(spans), was, tail, tail_was, tail.run.mark
        else:
            self.undo = 0, was, None, None, None

    def roll_back(self) -> None:
        """Roll back an interrupted append. May itself be interrupted and repeated."""
        if self.undo is None:
            return
        spans, was, tail, tail_was, mark = self.undo
        del self.spans[spans:]
        if tail is not None:
            tail.count, tail.live, tail.bytes = tail_was
            if mark is not None:
                tail.run.reset(mark)
        self.head, self.live, self.bytes, self.last_ts, self.position = was
        self.undo = None

    def _is_next(self, entry: RecordsAppended, last: int, jump_cause: Cause) -> bool:
        """An append that does not continue at the head: seen before, or after a loss."""
        if last <= self.head:
            if entry.key:
                self.remember(entry.key, entry.first_seq, last, entry.last_ts)
            return False
        if entry.first_seq <= self.head:
            raise AssertionError((self.name, "records handed over twice", entry.first_seq))
        self.lose(self.head + 1, entry.first_seq - 1, jump_cause)
        return True

    def apply_delete(self, entry: RecordsDeleted) -> int:
        """Remove records permanently, without a gap; returns how many were live."""
        before = self.live
        bound = entry.bound_seq
        if entry.before_seq is not None:
            bound = min(bound, entry.before_seq - 1)
        if entry.match is None and not entry.seqs:
            self.delete_floor = max(self.delete_floor, bound)
            self._cut_below(bound + 1)
        else:
            if entry.match is not None:
                self._kill_tagged(entry.match, bound)
                self._front()
            if entry.seqs:
                perform(self._removing(entry.seqs, bound)[0])
                if self.queue.groups is not None:
                    self.queue.forget(entry.seqs)
        return before - self.live

    def deleting(self, entry: RecordsDeleted) -> tuple[list[Step], int] | None:
        """The steps of a delete that can be applied in one step, and how many records it removes.
        None for other deletes: they are applied by `apply_delete` alone."""
        if entry.match is not None or entry.before_seq is not None or not entry.seqs:
            return None
        if self.queue.groups is not None:  # a group counts its jobs in several steps
            return None
        return self._removing(entry.seqs, entry.bound_seq)

    def apply_floor(self, entry: FloorMoved) -> None:
        """Floors as they were logged; used for TTL, whose clock replay does not share."""
        if entry.earliest > self.head + 1:  # records that were in memory only: see `ephemeral`
            self.lose(self.head + 1, entry.earliest - 1, Cause.LOST)
        self.evict_floor = max(self.evict_floor, min(entry.evict, self.head))
        self.expiry_floor = max(self.expiry_floor, min(entry.expiry, self.head))
        self._cut_below(self.lost_floor + 1)

    def apply_position(self, entry: PositionMoved) -> None:
        if entry.is_removed:
            self.consumers.pop(entry.name, None)
        else:
            self.consumers[entry.name] = (entry.seq, entry.ts)

    def apply_router(self, entry: RouterCreated) -> None:
        """A router that ends here: a new one, or other rules for a known one."""
        known = self.routers.get(entry.name)
        if known is None:
            self.routers[entry.name] = Router.of(entry)
        else:
            known.obey(entry)

    def apply_router_logged(self, entry: RouterLogged) -> None:
        router = self.routers.get(entry.router)
        if router is not None:
            router.logged = (entry.cursor, entry.total)

    def apply_route(
        self, entry: RecordsRouted, place: RunFactory, jump_cause: Cause = Cause.LOST
    ) -> None:
        """Add copies and move the cursor of their router in one step, so that no copy is missing or
        repeated."""
        if entry.lost:
            self.trim(self.head + 1, self.head + entry.lost, entry.lost_hops)
        count = 0
        if entry.copies is not None:
            self.apply_append(entry.copies, place, jump_cause)
            count = entry.copies.count
        router = self.routers.get(entry.router)
        if router is not None:
            router.went_on(entry.cursor, count)

    def configure(self, config: TopicConfig, *, defers_caps: bool = False) -> None:
        """A tighter cap takes effect at once."""
        self.config = config
        if not defers_caps:
            self.enforce_caps()

    def enforce_caps(self) -> None:
        """Evict the oldest live records until the caps hold. A function of state alone."""
        while (last := retention.over_caps(self)) is not None:
            self._cut_below(last + 1, evicts=True)

    def expired_to(self, now_ms: int) -> int:
        """The last live seq that is past its TTL; 0 when none is."""
        return retention.expired_to(self.spans, self.config.ttl_ms, now_ms)

    def trim(self, first: int, last: int, hops: int) -> None:
        """Record these seqs as lost in the router's source."""
        self.lose(first, last, int(Cause.SOURCE_TRIM) | hops << 4)

    def lose(self, first: int, last: int, cause: int) -> None:
        """Record seqs first..last as a loss that readers are told of. Raises the head when above
        it."""
        if last < first:
            return
        self.head = max(self.head, last)
        self.losses = loss_ranges.added(self.losses, first, last, cause)

    def drop_unreadable(self, first: int, last: int, cause: Cause) -> None:
        """Records first..last are unreadable: drop them and report them as lost."""
        for span in self.spans:
            if span.last < first or span.first > last:
                continue
            start = max(span.start, first - span.first)
            stop = min(span.count, last - span.first + 1)
            dead = span.dead
            self._kill(
                span, pack_indices(i for i in range(start, stop) if dead is None or i not in dead)
            )
        self._drop_dead_spans()
        self._front()
        self.lose(first, last, cause)

    def remember(self, key: bytes, first: int, last: int, ts: int) -> None:
        perform(self.remembering(key, first, last, ts))

    def remembering(self, key: bytes, first: int, last: int, ts: int) -> list[Step]:
        """The steps that remember an idempotency key."""
        return idempotency.remembering(self.keys, self.producers, key, (first, last, ts))

    def forget_keys(self, now_ms: int, keep_max: int) -> None:
        """Drop idempotency keys that left their window."""
        idempotency.forget(self.keys, now_ms - self.config.idempotency_window_ms, keep_max)

    def replace_spans(self, old: list[Span], new: Span) -> None:
        """Replace spans by spans of the same records in another place (sealed or rewritten)."""
        at = self.spans.index(old[0])
        if self.spans[at : at + len(old)] != old:
            raise AssertionError((self.name, "spans moved while they were being sealed"))
        self.spans[at : at + len(old)] = [new] if new.live else []
        self._front()

    # Inside.

    def _cut_below(self, seq: int, *, evicts: bool = False) -> None:
        """Drop all records below `seq`, in one step: an append to an `ephemeral` topic evicts on
        its caller's thread, where an asynchronous exception may interrupt it."""
        spans = self.spans
        live, size, gone = self.live, self.bytes, 0
        steps: list[Step] = []
        for span in spans:
            if span.first >= seq:
                break
            start, span_live, span_bytes = span.cut_at(seq - span.first)
            live -= span.live - span_live
            size -= span.bytes - span_bytes
            if start < span.count:
                steps += (
                    (setattr, span, "start", start),
                    (setattr, span, "live", span_live),
                    (setattr, span, "bytes", span_bytes),
                )
                break
            gone += 1
        evict_floor = max(self.evict_floor, seq - 1) if evicts else self.evict_floor
        lost_floor = max(evict_floor, self.expiry_floor)
        losses = self.losses
        if losses and losses[0].last <= lost_floor:  # told by the floor from now on
            losses = [loss for loss in losses if loss.last > lost_floor]
        perform(
            (
                *steps,
                (spans.__delitem__, slice(0, gone)),
                (setattr, self, "live", live),
                (setattr, self, "bytes", size),
                (setattr, self, "evict_floor", evict_floor),
                (setattr, self, "losses", losses),
                (setattr, self, "removals", self.removals + 1),
            )
        )
        self._front()

    def _kill(self, span: Span, indices: bytes) -> None:
        records, size = span.kill(indices)
        self.removals += 1
        self.live -= records
        self.bytes -= size

    def _kill_tagged(self, match: TagMatch, bound: int) -> None:
        for span in self.spans:
            if span.first > bound:
                break
            stop = min(span.count, bound - span.first + 1)
            if span.start < stop:
                found = span.run.find_tags(
                    span.start, stop, span.bits, match.value, is_prefix=match.is_prefix
                )
                self._kill(span, found)
        self._drop_dead_spans()

    def _drop_dead_spans(self) -> None:
        self.spans[:] = [span for span in self.spans if span.live]

    def _removing(self, seqs: tuple[int, ...], bound: int) -> tuple[list[Step], int]:
        """The steps that remove records by their seqs, also from the queue without a scan of all
        other jobs; and how many they are. A queue with groups forgets its jobs next."""
        spans, queue = self.spans, self.queue
        steps: list[Step] = []
        killed: dict[int, list[int]] = {}  # number of a span -> indices
        live, size = self.live, self.bytes
        for number, indices in self._found(sorted(set(seqs)), bound):
            killed[number] = indices
            changes, span_bytes = spans[number].killing(indices)
            steps += changes
            live -= len(indices)
            size -= span_bytes
        removals = self.removals
        if killed:
            removals += 1
            dead = [number for number, some in killed.items() if len(some) == spans[number].live]
            front = 0
            while front < len(dead) and dead[front] == front:
                front += 1
            if front < len(spans) and (front or front in killed):
                start = spans[front].first_live_without(killed.get(front, ()))
                steps.append((setattr, spans[front], "start", start))
            steps += (
                *[(spans.__delitem__, number) for number in reversed(dead)],
                (setattr, self, "live", live),
                (setattr, self, "bytes", size),
                (setattr, self, "removals", removals),
            )
        if self.config.type == "queue":
            if queue.groups is None:
                steps += queue.forgetting(seqs)
            if queue.pruned == self.removals:
                steps.append((setattr, queue, "pruned", removals))
        return steps, self.live - live

    def _found(self, wanted: list[int], bound: int) -> Iterator[tuple[int, list[int]]]:
        """The live records of these seqs, ascending, up to `bound`: the number of each span that
        has any, and their indices."""
        spans = self.spans
        at = number = 0
        end = bisect_right(wanted, bound)
        while at < end:
            number = bisect_left(spans, wanted[at], number, key=_LAST)
            if number == len(spans):
                return
            span = spans[number]
            first, dead = span.first, span.dead
            at = bisect_left(wanted, first + span.start, at, end)
            stop = bisect_right(wanted, span.last, at, end)
            alive = [seq - first for seq in wanted[at:stop]]
            if dead is not None and alive and dead.count(alive[0], alive[-1] + 1):
                alive = [index for index in alive if index not in dead]
            if alive:
                yield number, alive
            at = stop

    def _front(self) -> None:
        while self.spans:
            self.spans[0].skip_dead()
            if self.spans[0].live:
                return
            del self.spans[0]
