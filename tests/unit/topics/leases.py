"""A queue beside a clerk who writes everything down: whatever is done to both, they must agree.

The clerk knows no heap, no cursor and no entry that may be applied twice. He has one line for
each job, and reads all of them whenever he is asked something.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from penstock.entries import LeaseEvent, LeasesChanged
from penstock.topics.leases import Lease, Queue, deal, lease_names
from penstock.types import QueueCounts

NODES: Final = ("ann", "bob", "cy")
TOPIC: Final = 7
LEASES_MS: Final = (100, 300, 1_000)
WAITS_MS: Final = (0, 1, 50, 99, 100, 101, 400, 2_000)
DELAYS_MS: Final = (1, 100, 700)
CLOCK_SHIFTS_MS: Final = (0, 0, 1, 250, 5_000)
PERIODS_MS: Final = (1, 100, 700)  # of jobs that come again

Given = tuple[int, str, int]  # seq, node, lease id
State = tuple[
    dict[int, Lease], dict[int, int], dict[int, int], dict[int, int], dict[int, str], int, int
]

_READY: Final = ("ready", 0, 0)


def is_held_by(queue: Queue, seq: int, node: str, lease_id: int) -> bool:
    """One job of those that a call may name."""
    held, others = queue.held(node, [seq], [lease_id])
    # The short way of those who give names has to see the same.
    assert queue.holds_all(node, [seq], lease_names((lease_id,))) == (bool(held) and lease_id > 0)
    assert (held, others) in (((seq,), []), ((), [seq]))
    return bool(held)


class Line:
    """What the clerk has on one job."""

    __slots__ = (
        "deliveries",
        "id",
        "is_noted",
        "is_vague",
        "lease_ms",
        "node",
        "noted",
        "period_ms",
        "state",
        "until_ms",
    )

    def __init__(self, period_ms: int = 0) -> None:
        self.period_ms = period_ms  # when it is done it comes again after so long; 0: it does not
        self.state = "fresh"  # or ready (again), offered, leased, delayed
        self.deliveries = 0
        self.node = ""
        self.id = 0
        self.until_ms = 0
        self.lease_ms = 0  # or how long it was put off for, if it was out before
        self.is_noted = True  # has the delay an entry?
        self.is_vague = False  # fresh or ready again? A restart may have forgotten that
        self.noted = ("fresh", 0, 0)  # the last thing in the log: state, until, for how long

    @property
    def is_ready(self) -> bool:
        return self.state in ("fresh", "ready")


class Desk:
    """Every verb does the same to the queue and to the clerk's lines, and compares.

    `keeps_leases` is what the queue's configuration says; without it less is logged.
    """

    def __init__(self, *, keeps_leases: bool = True) -> None:
        self.keeps_leases = keeps_leases
        self.queue = Queue()
        self.lines: dict[int, Line] = {}
        self.base: State = ({}, {}, {}, {}, {}, 0, 1)  # the log goes on from here
        self.log: list[LeasesChanged] = []
        self.given: list[Given] = []  # every lease that ever was, also those that are over
        self.now_ms = 1_000
        self.head = 0
        self.last_id = 0
        self.dead_lettered = 0

    # Jobs come and go.

    def append(self, count: int, delay_ms: int = 0, period_ms: int = 0) -> None:
        """Jobs for now, for later as their sender says, or for again and again."""
        seqs = tuple(range(self.head + 1, self.head + count + 1))
        self.head += count
        self.lines |= {seq: Line(period_ms) for seq in seqs}
        if period_ms:
            self._schedule(seqs)
        elif delay_ms:
            until_ms = self.now_ms + delay_ms
            self._apply(LeaseEvent.DELAYED, seqs, until_ms=until_ms)
            for seq in seqs:
                line = self.lines[seq]
                line.state, line.until_ms = "delayed", until_ms
                line.noted = ("delayed", until_ms, 0)

    def vanish(self, seqs: Sequence[int]) -> None:
        """By a cap, an age, or somebody's delete."""
        for seq in seqs:
            self.lines.pop(seq, None)
        self.queue.prune(self.lines.__contains__)

    # Handing out.

    def offer(self, most: int) -> list[int]:
        """What is ready, the ones that were out before first, each kind in its order."""
        self._sweep()
        again = sorted(seq for seq, line in self.lines.items() if line.state == "ready")
        fresh = sorted(seq for seq, line in self.lines.items() if line.state == "fresh")
        found = self._pick(most)
        if any(self.lines[seq].is_vague for seq in fresh):
            assert len(found) == min(most, len(again) + len(fresh)), (found, again, fresh)
            assert len({*found, *again, *fresh}) == len(again) + len(fresh)
        else:
            assert found == [*again, *fresh][:most], (found, again, fresh)
        for seq in found:
            line = self.lines[seq]
            assert line.is_ready, "one job found twice"
            line.state, line.is_vague = "offered", False
        return found

    def _pick(self, most: int) -> list[int]:
        """As the engine does it, on lines instead of spans."""
        queue = self.queue
        found: list[int] = []
        for seq in queue.reclaimed():
            if seq in self.lines:
                found.append(seq)
                queue.offered.add(seq)
            if len(found) == most:
                return found
        for seq in [seq for seq in self.lines if seq > queue.cursor]:
            if len(found) == most:
                break
            queue.cursor = seq
            if queue.fresh([seq]):
                found.append(seq)
                queue.offered.add(seq)
        return found

    def lease(self, seqs: Sequence[int], nodes: Sequence[str], lease_ms: int) -> None:
        """To these nodes, dealt out evenly."""
        queue = self.queue
        hands = deal(seqs, [len(seqs)] * len(nodes))
        for node, hand in zip(nodes, hands, strict=True):
            if not hand:
                continue
            first_id = queue.next_lease_id
            assert first_id > self.last_id, "a lease id was given twice"
            until_ms = self.now_ms + lease_ms
            counts = tuple(queue.deliveries.get(seq, 0) + 1 for seq in hand)
            self._apply(LeaseEvent.CLAIMED, tuple(hand), counts, node, first_id, until_ms, lease_ms)
            queue.offered.difference_update(hand)
            for number, seq in enumerate(hand):
                line = self.lines[seq]
                assert line.state == "offered", "a job in two hands"
                line.state, line.node, line.id = "leased", node, first_id + number
                line.until_ms, line.lease_ms = until_ms, lease_ms
                line.noted = ("leased", until_ms, lease_ms)
                line.deliveries += 1
                assert counts[number] == line.deliveries
                self.given.append((seq, node, line.id))
            self.last_id = first_id + len(hand) - 1

    def withdraw(self, seqs: Sequence[int]) -> None:
        """The disk did not take the leases: as if nobody had asked."""
        for seq in seqs:
            self.queue.offered.discard(seq)
            self.queue.put_back(seq)
            self.lines[seq].state = "ready"

    def pass_over(self, seqs: Sequence[int], later_ms: int) -> None:
        """They cannot be read just now."""
        until_ms = self.now_ms + later_ms
        for seq in seqs:
            self.queue.offered.discard(seq)
            self.queue.put_off(seq, until_ms)
            line = self.lines[seq]
            line.state, line.until_ms, line.is_noted = "delayed", until_ms, False

    def claim(self, most: int, nodes: Sequence[str], lease_ms: int) -> list[int]:
        found = self.offer(most)
        self.lease(found, nodes, lease_ms)
        return found

    # Settling. Each returns the seqs that counted.

    def ack(self, given: Sequence[Given]) -> list[int]:
        held = self._held(given)
        for seq in held:
            self.queue.leases.pop(seq)
            self.queue.offered.add(seq)  # until its removal is on disk
            self.lines[seq].state = "offered"
        self.check()
        self._finish(held)
        return held

    def nack(self, given: Sequence[Given], delay_ms: int) -> list[int]:
        held = self._held(given)
        until_ms = self.now_ms + delay_ms if delay_ms else 0
        event = LeaseEvent.DELAYED if delay_ms else LeaseEvent.RELEASED
        if held:
            self._apply(event, tuple(held), until_ms=until_ms, lease_ms=delay_ms)
        for seq in held:
            line = self.lines[seq]
            line.state, line.until_ms = ("delayed", until_ms) if delay_ms else ("ready", 0)
            line.lease_ms, line.is_noted = delay_ms, True
            line.noted = (line.state, until_ms, delay_ms)
        return held

    def extend(self, given: Sequence[Given], lease_ms: int) -> list[int]:
        held = self._held(given)
        until_ms = self.now_ms + lease_ms
        if held:
            self._apply(LeaseEvent.EXTENDED, tuple(held), until_ms=until_ms, lease_ms=lease_ms)
        for seq in held:
            line = self.lines[seq]
            line.until_ms, line.lease_ms = until_ms, lease_ms
            line.noted = ("leased", until_ms, lease_ms)
        return held

    def bury(self, seqs: Sequence[int]) -> None:
        """To the dead letters, out of what is offered."""
        self.dead_lettered += len(seqs)
        self._apply(LeaseEvent.DEAD, tuple(seqs), lease_id=self.dead_lettered)
        self._finish(seqs)

    def _finish(self, seqs: Sequence[int]) -> None:
        """They are deleted, or due again later."""
        again = [seq for seq in seqs if self.lines[seq].period_ms]
        self._schedule(again)
        done = [seq for seq in seqs if seq not in again]
        for seq in done:
            del self.lines[seq]
        self.queue.forget(done)

    def _schedule(self, seqs: Sequence[int]) -> None:
        """As if they had never been out."""
        for period_ms in {self.lines[seq].period_ms for seq in seqs}:
            some = tuple(seq for seq in seqs if self.lines[seq].period_ms == period_ms)
            until_ms = self.now_ms + period_ms
            cron = f"every {period_ms}"
            self._apply(LeaseEvent.SCHEDULED, some, node=cron, until_ms=until_ms)
            for seq in some:
                line = self.lines[seq] = Line(period_ms)
                line.state, line.until_ms = "delayed", until_ms
                line.noted = ("delayed", until_ms, 0)

    def _held(self, given: Sequence[Given]) -> list[int]:
        """Those that still have that very lease, or any of that node's when the id is 0."""
        self._sweep()
        held: list[int] = []
        for seq, node, lease_id in given:
            line = self.lines.get(seq)
            is_held = line is not None and line.state == "leased" and line.node == node
            is_held = is_held and line is not None and lease_id in (0, line.id)
            assert is_held_by(self.queue, seq, node, lease_id) == is_held, (seq, node, lease_id)
            if is_held and seq not in held:
                held.append(seq)
        return held

    # Time, and the end of processes.

    def wait(self, ms: int) -> None:
        self.now_ms += ms

    def restart(self, shift_ms: int, again: int, *, from_snapshot: bool) -> None:
        """A new process: from the whole log, or from a snapshot of now; and then the last `again`
        entries once more. The wall clock may be another one."""
        log = self.log
        again = min(again, len(log))
        start, entries = self.base, [*log, *log[len(log) - again :]]
        if from_snapshot:
            start, entries = self._state(), log[len(log) - again :]
        self.now_ms = max(1_000, self.now_ms + shift_ms)
        self.queue = _restored(start)
        for entry in entries:
            self.queue.apply(entry)
        self.queue.restart(self.now_ms, keeps_leases=self.keeps_leases)
        self.queue.prune(self.lines.__contains__)
        for line in self.lines.values():
            self._after_restart(line)
        if shift_ms < 0:  # leases may be shorter now than the log says: it begins anew
            self._begin_anew()

    def _begin_anew(self) -> None:
        """The log starts from a snapshot of now."""
        self._sweep()
        self.base, self.log = self._state(), []
        for line in self.lines.values():
            is_timed = line.state in ("leased", "delayed")
            line.noted = (line.state, line.until_ms, line.lease_ms) if is_timed else _READY

    def _state(self) -> State:
        """What a snapshot holds. A delay without an entry is nothing to keep."""
        queue = self.queue
        delayed = {seq: at for seq, at in queue.delayed.items() if self.lines[seq].is_noted}
        rests = {seq: rest for seq, rest in queue.rests.items() if seq in delayed}
        told = dict(queue.deliveries), dict(queue.crons), queue.dead_lettered, queue.next_lease_id
        return dict(queue.leases), delayed, rests, *told

    def _after_restart(self, line: Line) -> None:
        """All that counts is the last entry about this job, and how often it was out."""
        state, until_ms, lease_ms = line.noted
        line.state, line.is_noted = "ready" if line.deliveries else "fresh", True
        if state == "delayed" and not line.deliveries and until_ms <= self.now_ms:
            line.is_vague = True
        if not self.keeps_leases and line.deliveries:
            return
        if state == "leased":
            until_ms = min(until_ms, self.now_ms + lease_ms)
            if until_ms >= self.now_ms:
                line.state, line.until_ms, line.lease_ms = "leased", until_ms, lease_ms
        elif state == "delayed" and until_ms > self.now_ms:
            if lease_ms:  # a rest is no longer than it was when it began
                until_ms = min(until_ms, self.now_ms + lease_ms)
            line.state, line.until_ms, line.lease_ms = "delayed", until_ms, lease_ms

    def end(self) -> None:
        """Nothing is stuck: when every time has passed, every job is offered again."""
        self.withdraw([seq for seq, line in self.lines.items() if line.state == "offered"])
        times = [line.until_ms for line in self.lines.values() if not line.is_ready]
        self.now_ms = max([self.now_ms, *times]) + 1
        assert sorted(self.offer(len(self.lines) + 1)) == sorted(self.lines)
        self.check()

    # What always holds.

    def check(self) -> None:
        self._sweep()
        queue, lines = self.queue, self.lines
        leased = {s: (n.node, n.id, n.until_ms) for s, n in queue.leases.items()}
        busy = [line for line in lines.values() if line.state in ("leased", "delayed")]
        assert leased == {
            seq: (line.node, line.id, line.until_ms)
            for seq, line in lines.items()
            if line.state == "leased"
        }
        assert queue.delayed == {s: n.until_ms for s, n in lines.items() if n.state == "delayed"}
        assert queue.deliveries == {s: n.deliveries for s, n in lines.items() if n.deliveries}
        crons = {s: f"every {n.period_ms}" for s, n in lines.items() if n.period_ms}
        # Those of removed jobs may stay, which is a test of its own and fails.
        assert queue.crons == crons
        assert queue.offered == {seq for seq, line in lines.items() if line.state == "offered"}
        assert len({lease_id for _, lease_id, _ in leased.values()}) == len(leased)
        self._check_counts(queue.counts(len(lines)))
        assert queue.next_lease_id == self.last_id + 1
        ripe_ms = queue.next_change_ms()
        assert not busy or (ripe_ms is not None and ripe_ms <= min(one.until_ms for one in busy))

    def _check_counts(self, counts: QueueCounts) -> None:
        states = [line.state for line in self.lines.values()]
        leased, delayed = states.count("leased"), states.count("delayed")
        ready = states.count("fresh") + states.count("ready")
        assert counts == QueueCounts(ready, leased, delayed, self.dead_lettered)

    def _sweep(self) -> None:
        self.queue.sweep(self.now_ms)
        for line in self.lines.values():
            is_over = line.state == "leased" and line.until_ms < self.now_ms
            if is_over or (line.state == "delayed" and line.until_ms <= self.now_ms):
                line.state, line.is_noted = "ready", True

    def _apply(
        self,
        event: LeaseEvent,
        seqs: tuple[int, ...],
        deliveries: tuple[int, ...] = (),
        node: str = "",
        lease_id: int = 0,
        until_ms: int = 0,
        lease_ms: int = 0,
    ) -> None:
        entry = LeasesChanged(TOPIC, event, seqs, deliveries, node, lease_id, until_ms, lease_ms)
        self.queue.apply(entry)
        if self.keeps_leases or event not in (LeaseEvent.RELEASED, LeaseEvent.EXTENDED):
            self.log.append(entry)


def _restored(state: State) -> Queue:
    queue = Queue()
    leases, delayed, rests, deliveries, crons, queue.dead_lettered, queue.next_lease_id = state
    queue.leases, queue.delayed, queue.rests = dict(leases), dict(delayed), dict(rests)
    queue.deliveries, queue.crons = dict(deliveries), dict(crons)
    return queue


def play(choose: Random, steps: int) -> Desk:
    """One history of so many operations, checked after each, and brought to its end."""
    view = Desk(keeps_leases=choose.random() < 0.7)
    view.append(choose.randrange(1, 6))
    for _ in range(steps):
        _step(view, choose)
        view.check()
    view.end()
    return view


def _step(view: Desk, choose: Random) -> None:
    roll = choose.random()
    if roll < 0.30:
        _claim(view, choose)
    elif roll < 0.42:
        view.ack(some_given(view, choose))
    elif roll < 0.52:
        view.nack(some_given(view, choose), 0)
    elif roll < 0.60:
        view.nack(some_given(view, choose), choose.choice(DELAYS_MS))
    elif roll < 0.66:
        view.extend(some_given(view, choose), choose.choice(LEASES_MS))
    elif roll < 0.82:
        view.wait(choose.choice(WAITS_MS))
    elif roll < 0.88:
        period_ms = choose.choice(PERIODS_MS) if choose.random() < 0.3 else 0
        view.append(choose.randrange(1, 4), choose.choice((0, 0, *DELAYS_MS)), period_ms)
    elif roll < 0.92:
        view.vanish([seq for seq in view.lines if choose.random() < 0.25])
    else:
        from_snapshot = choose.random() < 0.5
        shift_ms = choose.choice(CLOCK_SHIFTS_MS)
        if not from_snapshot and choose.random() < 0.3:
            shift_ms = -shift_ms  # somebody set the clock back
        again = choose.randrange(len(view.log) + 1)
        view.restart(shift_ms, again, from_snapshot=from_snapshot)


def _claim(view: Desk, choose: Random) -> None:
    found = view.offer(choose.randrange(1, 5))
    roll = choose.random()
    if roll < 0.08:
        view.withdraw(found)
    elif roll < 0.14:
        view.pass_over(found, 200)
    elif roll < 0.18:
        view.bury(found)
    elif roll < 0.22:
        view.withdraw([])  # left on offer: whoever is at it has not finished
    else:
        view.lease(found, NODES[: choose.randrange(1, 4)], choose.choice(LEASES_MS))


def some_given(view: Desk, choose: Random) -> list[Given]:
    """Leases that are held, that were, and that never were; the younger the likelier."""
    given = view.given[-8:]
    chosen = [choose.choice(given) for _ in range(choose.randrange(1, 3))] if given else []
    roll = choose.random()
    if roll < 0.15:
        return [(seq, node, 0) for seq, node, _ in chosen]
    if roll < 0.25:
        return [(seq, choose.choice(NODES), lease_id) for seq, node, lease_id in chosen]
    if roll < 0.30:
        return [*chosen, (choose.randrange(1, view.head + 2), choose.choice(NODES), 1)]
    return chosen
