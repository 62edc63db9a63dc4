"""The desk of a queue with groups: jobs with one tag go out one at a time and in their order.

The clerk holds a queue to what is promised of groups, whatever the way it is done:

- of the jobs with one tag one is out at a time, and the next goes when that one is done;
- it is the oldest that goes, retries included, and a rest of one holds up its group;
- other groups, and jobs without a tag, go on meanwhile;
- a job that waits for its time (its sender's, its schedule's, or until it can be read) holds up
  nobody, and has its place when its time has come;
- those that were out before go first, then the others, each in their order;
- leases and rests that hold over a restart hold up their groups there, too. Where they do not,
  every job is ready again, and the oldest goes first.

After each step he has a copy of the queue hand out all it can, and must have foreseen exactly
that, and how many are ready.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Final

from penstock.topics.leases import Queue
from penstock.topics.queue_groups import QueueGroups
from penstock.types import QueueCounts
from tests.unit.topics.leases import (
    CLOCK_SHIFTS_MS,
    DELAYS_MS,
    LEASES_MS,
    NODES,
    PERIODS_MS,
    WAITS_MS,
    Desk,
    Line,
    some_given,
)

TAGS: Final = ("a", "a", "a", "b", "b", None)
Claims = list[list[int]]  # what was picked by those who still read it


def tell(queue: Queue, seqs: Iterable[int], tags: Mapping[int, str], last: int) -> None:
    """As the engine does it."""
    assert queue.groups is not None
    queue.groups.tell(seqs, tags, queue)
    queue.groups.known = max(queue.groups.known, last)


def pick(queue: Queue, lines: Mapping[int, Line], most: int) -> list[int]:
    """As the engine does it, on lines instead of spans."""
    assert queue.groups is not None
    found: list[int] = []
    while len(found) < most:
        seq = queue.groups.pick(queue)
        if seq is None:
            break
        if seq in lines:
            found.append(seq)
            queue.offered.add(seq)
        else:
            queue.forget([seq])
    return found


def copy_of(queue: Queue) -> Queue:
    twin = _copied(queue)
    assert isinstance(twin, Queue)
    assert queue.groups is not None
    twin.groups = groups = _copied(queue.groups)
    groups._waiting = {tag: heap.copy() for tag, heap in queue.groups._waiting.items()}
    return twin


def _copied(one: Queue | QueueGroups) -> Queue | QueueGroups:
    twin = type(one).__new__(type(one))
    for name in type(one).__slots__:
        held = getattr(one, name)
        setattr(twin, name, held if isinstance(held, int | QueueGroups) else held.copy())
    return twin


class GroupDesk(Desk):
    """A claim has two halves here, as in the engine: it picks jobs (`offer`), reads them without
    the lock, and then they go out (`lease`) or back. Others may come in between. And a queue
    learns the tags of its jobs when it is told, which may be long after they came."""

    def __init__(self, *, keeps_leases: bool = True) -> None:
        super().__init__(keeps_leases=keeps_leases)
        self.queue.use_groups(True)
        self.tags: dict[int, str] = {}
        self.told = 0  # the last seq that the queue was told of
        self.began_at = 0  # the head when this process began
        self.turns: dict[str, int] = {}  # group -> the last that was out, while it is not done
        self.picked: set[int] = set()  # those that somebody reads, and nobody has yet

    # Jobs come and go.

    def append(
        self,
        count: int,
        delay_ms: int = 0,
        period_ms: int = 0,
        *,
        tags: Sequence[str | None] = (),
    ) -> None:
        first = self.head + 1
        super().append(count, delay_ms, period_ms)
        for seq, tag in enumerate(tags, first):
            if tag is not None:
                self.tags[seq] = tag

    def vanish(self, seqs: Sequence[int]) -> None:
        super().vanish(seqs)
        self.picked &= self.lines.keys()

    def tell(self, most: int | None = None, over: Iterable[int] = ()) -> None:
        """Let the queue know the next `most` jobs, or all. `over` are those with a lease or a rest
        that has ended, and nobody looked since."""
        seqs = [seq for seq in self.lines if seq > self.told]
        part = seqs[:most]
        last = self.head if len(part) == len(seqs) else part[-1]
        tell(self.queue, part, self._tags_of(part), last)
        self.told = last
        for seq in part:
            if seq in self.tags and (seq in over or _is_held(self.lines[seq])):
                self.turns[self.tags[seq]] = seq

    def _tags_of(self, seqs: Iterable[int]) -> dict[int, str]:
        return {seq: self.tags[seq] for seq in seqs if seq in self.tags}

    # Handing out.

    def offer(self, most: int, *, tells: bool = True) -> list[int]:
        """Those whose turn it is. Without `tells`, some came too late to be told."""
        self._sweep()
        if tells:
            self.tell()
        foreseen = self._next(self.told)[:most]
        found = pick(self.queue, self.lines, most)
        assert found == foreseen, (found, foreseen)
        for seq in found:
            line = self.lines[seq]
            line.state = "offered"
            if line.deliveries and seq in self.tags:  # a fresh one has no turn before it is out
                self.turns[self.tags[seq]] = seq
        self.picked.update(found)
        return found

    def lease(self, seqs: Sequence[int], nodes: Sequence[str], lease_ms: int) -> None:
        seqs = self._taken(seqs)
        super().lease(seqs, nodes, lease_ms)
        for seq in seqs:
            if seq in self.tags:
                self.turns[self.tags[seq]] = seq

    def withdraw(self, seqs: Sequence[int]) -> None:
        super().withdraw(self._taken(seqs))

    def pass_over(self, seqs: Sequence[int], later_ms: int) -> None:
        """As the engine does it: nobody waits for what cannot be read."""
        assert self.queue.groups is not None
        seqs = self._taken(seqs)
        super().pass_over(seqs, later_ms)
        for seq in seqs:
            self.queue.groups.release(seq, self.queue)
        self._end_turns(seqs)

    def bury(self, seqs: Sequence[int]) -> None:
        super().bury(self._taken(seqs))

    def _taken(self, seqs: Sequence[int]) -> list[int]:
        """Those that are still there and in nobody's hands, and now in the caller's."""
        taken = [seq for seq in seqs if seq in self.picked]
        self.picked.difference_update(taken)
        return taken

    def _finish(self, seqs: Sequence[int]) -> None:
        self._end_turns(seqs)
        super()._finish(seqs)

    def _end_turns(self, seqs: Iterable[int]) -> None:
        for seq in seqs:
            if self.turns.get(self.tags.get(seq, "")) == seq:
                del self.turns[self.tags[seq]]

    # The end of a process.

    def restart(
        self, shift_ms: int, again: int, *, from_snapshot: bool, is_told_first: bool = False
    ) -> None:
        """With `is_told_first` the queue learns the tags before anybody asks what has ended."""
        super().restart(shift_ms, again, from_snapshot=from_snapshot)
        self.queue.use_groups(True)
        self.picked.clear()
        self.turns.clear()
        self.told, self.began_at = 0, self.head
        if not is_told_first or from_snapshot or shift_ms < 0:
            self._sweep()
        else:
            self.tell(over=self.lent() if self.keeps_leases else ())

    def lent(self) -> list[int]:
        """Jobs with a lease or a rest in the log, whether it has ended or not."""
        return [
            seq
            for seq, line in self.lines.items()
            if line.deliveries and line.noted[0] in ("leased", "delayed")
        ]

    def end(self) -> None:
        """Nothing is stuck: work that goes on comes to its end, and in order. What recurs is
        done twice, and then deleted."""
        self.withdraw(list(self.picked))
        rounds: Counter[int] = Counter()
        while self.lines:
            hand = self.claim(len(self.lines), NODES[:1], LEASES_MS[0])
            if hand:
                self.ack([(seq, NODES[0], 0) for seq in hand])
                rounds.update(hand)
                self.vanish([seq for seq in hand if rounds[seq] == 2])
                continue
            times = [line.until_ms for line in self.lines.values() if not line.is_ready]
            assert times, "jobs are ready, and nobody gets them"
            self.now_ms = max(self.now_ms, *times) + 1
        self.check()

    # What always holds.

    def check(self) -> None:
        super().check()
        out = [
            self.tags[seq]
            for seq, line in self.lines.items()
            if seq in self.tags and line.state == "leased"
        ]
        assert len(set(out)) == len(out), "two of one group are out"
        foreseen = self._next(self.head)
        claimable = self._claimable()
        assert claimable == foreseen, (claimable, foreseen)

    def _check_counts(self, counts: QueueCounts) -> None:
        """Those that were not told yet count as if they had no group."""
        states = [line.state for line in self.lines.values()]
        idle = [seq for seq, line in self.lines.items() if line.is_ready]
        ready = len(self._next(self.told)) + len([seq for seq in idle if seq > self.told])
        assert counts == QueueCounts(
            ready, states.count("leased"), states.count("delayed"), self.dead_lettered
        )
        assert len(self._next(self.head)) <= counts.ready <= len(idle)

    def _claimable(self) -> list[int]:
        """What a claim without bounds would get now."""
        twin = copy_of(self.queue)
        untold = [seq for seq in self.lines if seq > self.told]
        tell(twin, untold, self._tags_of(untold), self.head)
        return pick(twin, self.lines, len(self.lines) + 1)

    def _next(self, last: int) -> list[int]:
        """Those of the jobs up to `last` that may go out now, in the order in which they do."""
        found: list[int] = []
        groups: dict[str, dict[int, Line]] = {}
        for seq, line in self.lines.items():
            if seq > last:
                continue
            if seq in self.tags:
                groups.setdefault(self.tags[seq], {})[seq] = line
            elif line.is_ready:
                found.append(seq)
        for tag, lines in groups.items():
            found += self._next_of(tag, lines)
        return sorted(found, key=lambda seq: (not self.lines[seq].deliveries, seq))

    def _next_of(self, tag: str, lines: Mapping[int, Line]) -> list[int]:
        """The one of this group that may go out now, if any may."""
        if any(line.state == "offered" or _is_held(line) for line in lines.values()):
            return []
        turn = self.turns.get(tag, 0)
        if turn in lines:
            return [turn] if lines[turn].is_ready else []
        return [seq for seq, line in lines.items() if line.is_ready][:1]


def _is_held(line: Line) -> bool:
    """Is it out, or resting between two deliveries?"""
    is_resting = line.state == "delayed" and line.deliveries > 0 and line.is_noted
    return line.state == "leased" or is_resting


# Histories.


def play(choose: Random, steps: int) -> GroupDesk:
    """One history of so many operations, checked after each, and brought to its end."""
    view = GroupDesk(keeps_leases=choose.random() < 0.7)
    claims: Claims = []
    _append(view, choose, choose.randrange(2, 7))
    for _ in range(steps):
        _step(view, choose, claims)
        view.check()
    if choose.random() < 0.3:
        view.restart(0, 0, from_snapshot=choose.random() < 0.5)
    view.end()
    return view


def _append(view: GroupDesk, choose: Random, count: int) -> None:
    delay_ms = choose.choice(DELAYS_MS) if choose.random() < 0.4 else 0
    period_ms = choose.choice(PERIODS_MS) if choose.random() < 0.2 else 0
    view.append(count, delay_ms, period_ms, tags=[choose.choice(TAGS) for _ in range(count)])


def _step(view: GroupDesk, choose: Random, claims: Claims) -> None:
    roll = choose.random()
    if roll < 0.30:
        _claim(view, choose, claims)
    elif roll < 0.46:
        view.ack(some_given(view, choose))
    elif roll < 0.54:
        view.nack(some_given(view, choose), 0)
    elif roll < 0.62:
        view.nack(some_given(view, choose), choose.choice(DELAYS_MS))
    elif roll < 0.65:
        view.extend(some_given(view, choose), choose.choice(LEASES_MS))
    elif roll < 0.77:
        view.wait(choose.choice(WAITS_MS))
    elif roll < 0.86:
        _append(view, choose, choose.randrange(1, 4))
    elif roll < 0.89:
        view.tell(choose.randrange(1, 4))
    elif roll < 0.93:
        view.vanish([seq for seq in view.lines if choose.random() < 0.25])
    else:
        _restart(view, choose)
        claims.clear()


def _restart(view: GroupDesk, choose: Random) -> None:
    from_snapshot = choose.random() < 0.5
    shift_ms = choose.choice(CLOCK_SHIFTS_MS)
    if not from_snapshot and choose.random() < 0.3:
        shift_ms = -shift_ms  # somebody set the clock back
    again = choose.randrange(len(view.log) + 1)
    is_told_first = choose.random() < 0.5
    restart(view, shift_ms, again, from_snapshot, is_told_first)


def restart(
    view: GroupDesk, shift_ms: int, again: int, from_snapshot: bool, is_told_first: bool
) -> None:
    """Not so that two of one group have the turn: that is a test of its own, which fails."""
    lent = [view.tags[seq] for seq in view.lent() if seq in view.tags]
    if len(set(lent)) < len(lent):
        shift_ms, is_told_first = abs(shift_ms), False
    view.restart(shift_ms, again, from_snapshot=from_snapshot, is_told_first=is_told_first)


def _claim(view: GroupDesk, choose: Random, claims: Claims) -> None:
    """A whole claim, or a half of one: to pick jobs, or to be done with some."""
    most, nodes = choose.randrange(1, 4), NODES[: choose.randrange(1, 4)]
    roll = choose.random()
    if roll < 0.6:
        view.claim(most, nodes, choose.choice(LEASES_MS))
        return
    if claims and roll < 0.8:
        found = claims.pop(choose.randrange(len(claims)))
    else:
        found = view.offer(most, tells=choose.random() < 0.7 or view.told < view.began_at)
        if roll < 0.75:
            claims.append(found)
            return
    roll = choose.random()
    if roll < 0.2:
        view.withdraw(found)
    elif roll < 0.35:
        view.pass_over([seq for seq in found if choose.random() < 0.5], 200)
    elif roll < 0.5:
        view.bury([seq for seq in found if choose.random() < 0.5])
    elif roll < 0.6:
        view.withdraw(found[1:])  # they did not fit
    view.lease(found, nodes, choose.choice(LEASES_MS))
