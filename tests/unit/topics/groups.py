"""The desk of a queue with groups: jobs with one tag go out one at a time and in their order.

The clerk holds a queue to what the documents promise of groups, whatever the way it is done:

- of the jobs with one tag one is out at a time, and the next goes when that one is done;
- it is the oldest that goes, retries included, and a rest of one holds up its group;
- other groups, and jobs without a tag, go on meanwhile;
- a job whose sender put it off holds up nobody, and has its place when its time has come;
- leases and rests that hold over a restart hold up their groups there, too. Where they do not,
  every job is ready again, and the oldest goes first.

After each step he has a copy of the queue hand out all it can, and judges that.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from random import Random
from typing import Final

from penstock.topics.queues import Queue
from penstock.types import QueueCounts
from tests.unit.topics.leases import (
    CLOCK_SHIFTS_MS,
    DELAYS_MS,
    LEASES_MS,
    NODES,
    WAITS_MS,
    Desk,
    Line,
    some_given,
)

TAGS: Final = ("a", "a", "a", "b", "b", None)
WINDOW: Final = 64  # jobs that a claim looks at, at least: more than a history has
_ALL: Final = 1 << 30

# Where a queue falls short of its promises, as far as that is known: a desk overlooks these,
# and each has a test that fails until it is mended.
TOLERATED: Final = {
    "late": "a job whose time comes waits behind a younger one that has the turn and is not out",
    "slow": "while a claim still reads the oldest of a group, a younger one goes out",
    "kinds": "a job that was out before may come behind a fresh one that had to wait for its turn",
    "window": "a claim that does not look at everything takes what came back before what is older",
    "removed": "until the next claim, what waits behind a removed job is not counted as ready",
}


def look(queue: Queue, lines: Container[int], past: Sequence[int], most: int) -> list[int]:
    """Jobs that may be ready, as the engine finds them; `past` are those that live, ascending."""
    found: list[int] = []
    for seq in queue.reclaimed():
        if seq in lines:
            found.append(seq)
        else:
            queue.forget([seq])
        if len(found) == most:
            break
    else:
        taken = set(found)
        for seq in past:
            if len(found) == most:
                break
            if seq > queue.cursor:
                queue.cursor = seq
                if seq not in taken and queue.is_fresh(seq):
                    found.append(seq)
    queue.offered.update(found)
    return found


def in_turn(queue: Queue, seqs: Sequence[int], tags: Mapping[int, str]) -> list[int]:
    """Those of them whose turn it is, as the engine asks for it."""
    free: list[int] = []
    for seq in sorted(seqs):
        if queue.own(seq, tags.get(seq)):
            free.append(seq)
        else:
            queue.offered.discard(seq)
    return free


def copy_of(queue: Queue) -> Queue:
    twin = Queue.__new__(Queue)
    for name in Queue.__slots__:
        held = getattr(queue, name)
        setattr(twin, name, held if isinstance(held, int) else held.copy())
    twin._parked = {group: heap.copy() for group, heap in queue._parked.items()}
    return twin


class GroupDesk(Desk):
    """A claim has two halves here, as in the engine: it looks at jobs (`offer`), reads them
    without the lock, and then takes those whose turn it is (`lease`). Others may come in between.
    """

    def __init__(
        self,
        *,
        keeps_leases: bool = True,
        window: int = WINDOW,
        tolerates: Container[str] = TOLERATED,
    ) -> None:
        super().__init__(keeps_leases=keeps_leases)
        self.window = window
        self.is_narrow = window != WINDOW and "window" in tolerates
        self.tolerates = tolerates
        self.tags: dict[int, str] = {}
        self.since_ms: dict[int, float] = {}  # from when on a job is ready
        self.again_ms: dict[int, float] = {}  # the same, where somebody looked and left it
        self.late: set[int] = set()  # those that were not ready when they came
        self.turns: dict[str, int] = {}  # group -> the last that was out, while it is not done
        self.faded: dict[str, int] = {}  # the same of the process before, where nobody holds it
        self.looked: set[int] = set()  # on offer, and in nobody's hands yet
        self.slow: set[int] = set()  # those of them that somebody reads at leisure
        self.is_shaken = False  # did jobs go since the last claim?

    # Jobs come and go.

    def append(
        self, count: int, delay_ms: int = 0, tags: Sequence[str | None] = (None,) * 8
    ) -> None:
        first = self.head + 1
        super().append(count, delay_ms)
        for seq, tag in zip(range(first, self.head + 1), tags, strict=False):
            if tag is not None:
                self.tags[seq] = tag
            self.since_ms[seq] = self.again_ms[seq] = self.now_ms + delay_ms
            if delay_ms:
                self.late.add(seq)

    def vanish(self, seqs: Sequence[int]) -> None:
        super().vanish(seqs)
        self.is_shaken = self.is_shaken or bool(seqs)
        self.looked &= self.lines.keys()

    # Handing out.

    def offer(self, most: int) -> list[int]:
        """Look at more than are wanted: some of them wait behind others of their group."""
        self._sweep()
        self.is_shaken = False
        found = look(self.queue, self.lines, list(self.lines), self._breadth(most))
        for seq in found:
            assert self.lines[seq].is_ready, "a job that is nobody's was found"
            self.lines[seq].state = "offered"
        assert len(set(found)) == len(found), "one job found twice"
        self.looked.update(found)
        return found

    def _breadth(self, most: int) -> int:
        return max(most * 4 if self.window == WINDOW else most, self.window)

    def take(self, found: Sequence[int], most: int, nodes: Sequence[str], ms: int) -> list[int]:
        """The second half of a claim: up to `most` of what was found, the others are ready."""
        self._sweep()
        found = [seq for seq in found if seq in self.looked]
        for seq in found:
            self._let_go(seq)
        free = in_turn(self.queue, found, self.tags)
        hand, rest = free[:most], free[most:]
        for seq in rest:
            self.queue.offered.discard(seq)
            self.queue.put_back(seq)
        self._judge(hand)
        for seq in hand:
            self.lines[seq].state = "offered"
            tag = self.tags.get(seq)
            if tag is not None:
                self.turns[tag] = seq
                self.faded.pop(tag, None)
        self.lease(hand, nodes, ms)
        return hand

    def claim(self, most: int, nodes: Sequence[str], lease_ms: int) -> list[int]:
        """Both halves at once: whatever can be handed out is, up to `most`."""
        self._sweep()
        claimable = self._claimable()
        by_kind = sorted(claimable, key=lambda seq: (not self.lines[seq].deliveries, seq))
        hand = self.take(self.offer(most), most, nodes, lease_ms)
        if not self.is_narrow:
            is_good = hand == sorted(by_kind[:most])
            is_good = is_good or ("kinds" in self.tolerates and hand == claimable[:most])
            assert is_good, (hand, claimable)
        return hand

    def leave(self, found: Sequence[int]) -> None:
        """Whoever looks at these takes his time."""
        self.slow.update(found)

    def withdraw(self, seqs: Sequence[int]) -> None:
        seqs = [seq for seq in seqs if seq in self.looked]
        super().withdraw(seqs)
        for seq in seqs:
            self._let_go(seq)

    def pass_over(self, seqs: Sequence[int], later_ms: int) -> None:
        """They cannot be read just now, so nobody knows their tags."""
        seqs = [seq for seq in seqs if seq in self.looked]
        super().pass_over(seqs, later_ms)
        self.looked.difference_update(seqs)
        self.late.update(seqs)
        self.again_ms.update(dict.fromkeys(seqs, self.now_ms + later_ms))

    def bury(self, seqs: Sequence[int]) -> None:
        seqs = [seq for seq in seqs if seq in self.looked]
        super().bury(seqs)
        self.looked.difference_update(seqs)

    def _let_go(self, seq: int) -> None:
        """Whoever looked at it has finished."""
        self.looked.discard(seq)
        self.lines[seq].state = "ready"
        if seq in self.slow:
            self.slow.discard(seq)
            self.again_ms[seq] = self.now_ms + 0.5  # past all that this millisecond brought

    # The end of a process.

    def restart(self, shift_ms: int, again: int, *, from_snapshot: bool) -> None:
        super().restart(shift_ms, again, from_snapshot=from_snapshot)
        if from_snapshot:
            self._begin_anew()
        self.looked.clear()
        self.slow.clear()
        self.is_shaken = False
        last_out = self.faded | self.turns
        self.turns = {group: seq for group, seq in last_out.items() if self._is_held_up(seq)}
        self.faded = last_out if self.keeps_leases else {}
        for seq, line in self.lines.items():
            self.since_ms[seq] = self.now_ms if line.is_ready else line.until_ms
            self.again_ms[seq] = self.since_ms[seq]
            if line.deliveries:
                self.late.add(seq)

    def _is_held_up(self, seq: int) -> bool:
        """Is the lease of this job, or its rest, still there?"""
        line = self.lines.get(seq)
        return line is not None and not line.is_ready

    def _remember(self) -> None:
        """As the engine does it."""
        queue = self.queue
        for seq in sorted({*queue.leases, *(queue.delayed.keys() & queue.deliveries.keys())}):
            queue.own(seq, self.tags.get(seq))

    def end(self) -> None:
        """Nothing is stuck: work that goes on comes to its end, and in order."""
        self.withdraw(list(self.looked))
        while self.lines:
            hand = self.claim(len(self.lines), NODES[:1], LEASES_MS[0])
            if hand:
                self.ack([(seq, NODES[0], 0) for seq in hand])
                continue
            times = [line.until_ms for line in self.lines.values() if not line.is_ready]
            assert times, "jobs are ready, and nobody gets them"
            self.now_ms = max(self.now_ms, *times) + 1
        self.check()

    # What always holds.

    def check(self) -> None:
        super().check()
        out = [
            self.tags[s]
            for s, line in self.lines.items()
            if s in self.tags and line.state == "leased"
        ]
        assert len(set(out)) == len(out), "two of one group are out"

    def _check_counts(self, counts: QueueCounts) -> None:
        states = [line.state for line in self.lines.values()]
        idle = states.count("fresh") + states.count("ready")
        assert counts.in_flight == states.count("leased")
        assert counts.delayed == states.count("delayed")
        assert counts.dead_lettered == self.dead_lettered
        claimable = self._claimable()
        assert counts.ready <= idle
        is_low = self.is_narrow or (self.is_shaken and "removed" in self.tolerates)
        assert is_low or counts.ready >= len(claimable), (counts, claimable)

    def _claimable(self) -> list[int]:
        """What a claim without bounds would get now, judged."""
        twin = copy_of(self.queue)
        free = in_turn(twin, look(twin, self.lines, list(self.lines), _ALL), self.tags)
        standing = self._judge(free)
        untagged = [s for s, line in self.lines.items() if line.is_ready and s not in self.tags]
        assert [seq for seq in free if seq not in self.tags] == untagged
        found = {self.tags[seq] for seq in free if seq in self.tags}
        for group, (may, must) in standing.items():
            assert group in found or not (may and must), (group, "is stuck", may)
        return free

    def _judge(self, hand: Sequence[int]) -> dict[str, tuple[set[int], bool]]:
        """May these go out now?"""
        standing = {
            group: (self._may_go(group, lines), self._must_go(lines))
            for group, lines in self._groups().items()
        }
        tagged = [seq for seq in hand if seq in self.tags]
        assert len({self.tags[seq] for seq in tagged}) == len(tagged), "two of one group"
        for seq in tagged:
            may, _ = standing[self.tags[seq]]
            assert seq in may, (self.tags[seq], seq, "goes out of turn", may)
        return standing

    def _groups(self) -> dict[str, dict[int, Line]]:
        groups: dict[str, dict[int, Line]] = {}
        for seq, line in self.lines.items():
            if seq in self.tags:
                groups.setdefault(self.tags[seq], {})[seq] = line
        return groups

    def _may_go(self, group: str, lines: Mapping[int, Line]) -> set[int]:
        """Who of this group may be the next to go out."""
        for seq, line in lines.items():
            if line.state == "leased" or (line.state == "offered" and seq not in self.looked):
                return set()
        turn = self.turns.get(group, 0)
        if turn in lines:
            return {turn} if lines[turn].is_ready else set()
        ready = [seq for seq, line in lines.items() if line.is_ready]
        if "slow" not in self.tolerates:
            read_first = min(self.looked & lines.keys(), default=_ALL)
            ready = [seq for seq in ready if seq < read_first]
        may = set(ready[:1])
        if "late" in self.tolerates:
            since, again = self.since_ms, self.again_ms
            may |= {b for b in ready if all(since[b] < again[a] for a in ready if a < b)}
        if self.is_narrow:
            may |= self.late.intersection(ready)
        return may | {self.faded.get(group, 0)}.intersection(ready)

    def _must_go(self, lines: Mapping[int, Line]) -> bool:
        """Has somebody to be found, if anybody may go? Not while a claim looks at one of them, or
        one cannot be read: whether that one has the turn is not said anywhere."""
        return all(seq not in self.looked and line.is_noted for seq, line in lines.items())


def play(choose: Random, steps: int, tolerates: Container[str] = TOLERATED) -> GroupDesk:
    """One history of so many operations, checked after each, and brought to its end."""
    window = WINDOW if choose.random() < 0.7 else choose.randrange(1, 4)
    desk = GroupDesk(keeps_leases=choose.random() < 0.7, window=window, tolerates=tolerates)
    claims: list[tuple[list[int], int]] = []  # that are not finished
    _append(desk, choose, choose.randrange(2, 7))
    for _ in range(steps):
        _step(desk, choose, claims)
        desk.check()
    if choose.random() < 0.3:
        desk.restart(0, 0, from_snapshot=choose.random() < 0.5)
    desk.end()
    return desk


def _append(desk: GroupDesk, choose: Random, count: int) -> None:
    delay_ms = choose.choice(DELAYS_MS) if choose.random() < 0.4 else 0
    desk.append(count, delay_ms, [choose.choice(TAGS) for _ in range(count)])


def _step(desk: GroupDesk, choose: Random, claims: list[tuple[list[int], int]]) -> None:
    roll = choose.random()
    if roll < 0.30:
        _claim(desk, choose, claims)
    elif roll < 0.48:
        desk.ack(some_given(desk, choose))
    elif roll < 0.56:
        desk.nack(some_given(desk, choose), 0)
    elif roll < 0.64:
        desk.nack(some_given(desk, choose), choose.choice(DELAYS_MS))
    elif roll < 0.67:
        desk.extend(some_given(desk, choose), choose.choice(LEASES_MS))
    elif roll < 0.79:
        desk.wait(choose.choice(WAITS_MS))
    elif roll < 0.89:
        _append(desk, choose, choose.randrange(1, 4))
    elif roll < 0.93:
        desk.vanish([seq for seq in desk.lines if choose.random() < 0.25])
    else:
        from_snapshot = choose.random() < 0.5
        shift_ms = choose.choice(CLOCK_SHIFTS_MS)
        if not from_snapshot and choose.random() < 0.3:
            shift_ms = -shift_ms  # somebody set the clock back
        again = choose.randrange(len(desk.log) + 1)
        desk.restart(shift_ms, again, from_snapshot=from_snapshot)
        claims.clear()


def _claim(desk: GroupDesk, choose: Random, claims: list[tuple[list[int], int]]) -> None:
    """A whole claim, or a half of one: to look at jobs, or to be done with some."""
    most, nodes = choose.randrange(1, 4), NODES[: choose.randrange(1, 4)]
    roll = choose.random()
    if roll < 0.6:
        desk.claim(most, nodes, choose.choice(LEASES_MS))
        return
    if claims and roll < 0.8:
        found, most = claims.pop(choose.randrange(len(claims)))
    else:
        found = desk.offer(most)
        if roll < 0.7:
            desk.leave(found)
            claims.append((found, most))
            return
    roll = choose.random()
    if roll < 0.2:
        desk.withdraw(found)
        return
    if roll < 0.4:
        desk.pass_over([seq for seq in found if choose.random() < 0.3], 200)
    elif roll < 0.6:
        desk.bury([seq for seq in found if choose.random() < 0.3])
    desk.take(found, most, nodes, choose.choice(LEASES_MS))
