"""What workers asked of queues and were answered, and what is wrong with it.

Knows nothing of the code under test. Read from the journal of `queue_worker`; times are monotonic
and of one machine. Anomalies have a kind as their first word, so that a rig can say what it caught.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

SLACK_S = 0.02  # clocks are read in whole milliseconds, and a restart reads them anew
ENDING = ("ack", "nack")


@dataclass(frozen=True)
class Rules:
    """What a queue promises."""

    lease_s: float
    keeps_leases: bool = False  # over a restart
    deliveries_max: int = 0  # before a job is dead; 0: never


@dataclass(frozen=True)
class End:
    """A queue that is left alone: what it still has, and which jobs are dead."""

    ready: int
    in_flight: int
    delayed: int
    dead_lettered: int
    dead: list[int]  # seqs, as the dead letters have them


@dataclass(eq=False)
class Call:
    """One request of a worker, and its answer if one came."""

    name: str
    verb: str
    topic: str
    life: int  # of the server
    worker: str
    t0: float
    jobs: list[tuple[int, str]]
    t1: float | None = None
    skipped: frozenset[int] = frozenset()


@dataclass(eq=False)
class Hand:
    """A job in somebody's hands: one delivery."""

    seq: int
    lease: int
    deliveries: int
    number: int
    call: Call
    given_at: float  # by then it was
    settles: list[Call] = field(default_factory=list)

    def held_until(self, lease_s: float, before: Call | None = None) -> float:
        """It was this worker's at least until then: as it was given or prolonged, unless it gave
        it up. `before` is a call that may not have changed that."""
        until = self.call.t0 + lease_s
        for settle in self.settles:
            if settle is before:
                break
            if settle.verb in ENDING:
                return min(until, settle.t0) - SLACK_S
            if settle.t1 is not None and self.seq not in settle.skipped:
                until = max(until, settle.t0 + lease_s)
        return until - SLACK_S

    def __str__(self) -> str:
        return f"lease {self.lease:x} (delivery {self.deliveries}, {self.call.name})"


class QueueHistory:
    """Read what is there at any time; judged again each time."""

    def __init__(self, rules: dict[str, Rules]) -> None:
        self.rules = rules
        self.appended: dict[str, dict[int, int]] = {topic: {} for topic in rules}  # seq -> number
        self.calls: dict[str, Call] = {}
        self.hands: defaultdict[tuple[str, int], list[Hand]] = defaultdict(list)
        self.counts: Counter[str] = Counter()
        self.anomalies: list[str] = []
        self._found: list[str] = []  # while reading
        self._by_lease: dict[tuple[str, int], Hand] = {}
        self._read = 0

    # Reading.

    def read(self, journal: Path) -> None:
        """What was written since."""
        if not journal.exists():
            return
        with journal.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text.rfind(b"\n") + 1
        self._read += whole
        for line in text[:whole].splitlines():
            self._take(msgspec.json.decode(line))

    def _take(self, event: dict[str, Any]) -> None:
        at, name = float(event["t"]), str(event["call"])
        if event["e"] == "asked":
            jobs = [(seq, lease) for seq, lease in event["jobs"]]
            call = Call(
                name, event["verb"], event["topic"], event["life"], event["worker"], at, jobs
            )
            self.calls[name] = call
            for _, lease in jobs:
                self._by_lease[call.topic, _number(lease)].settles.append(call)
            return
        call = self.calls[name]
        match event["e"]:
            case "claimed":
                call.t1 = at
                for seq, lease, deliveries, number in event["given"]:
                    self._give(Hand(seq, _number(lease), deliveries, number, call, at))
            case "settled":
                call.t1 = at
                call.skipped = frozenset(event["skipped"])
                self.counts[f"{call.verb}s skipped"] += len(call.skipped)
                self.counts[f"{call.verb}s"] += event["done"]
                if event["done"] != len(call.jobs) - len(call.skipped):
                    self._found.append(f"miscounted: {call} was answered {event}")
            case "refused":
                self._found.append(f"refused: {call.verb} of {call.topic}: {event['why']}")
            case "unknown":
                self.counts["unknown"] += 1
            case "unsent":
                self._forget(call)

    def _forget(self, call: Call) -> None:
        """It never reached a server."""
        self.counts["unsent"] += 1
        del self.calls[call.name]
        for _, lease in call.jobs:
            self._by_lease[call.topic, _number(lease)].settles.remove(call)

    def _give(self, hand: Hand) -> None:
        topic = hand.call.topic
        self.counts["deliveries"] += 1
        other = self._by_lease.setdefault((topic, hand.lease), hand)
        if other is not hand:
            self._found.append(f"lease-twice: {topic}:{hand.seq} has {hand}, {other.seq} {other}")
        self.hands[topic, hand.seq].append(hand)

    def held_by(self, worker: str) -> list[Hand]:
        """What it was given last and has not tried to end."""
        claims = [call for call in self.calls.values() if call.worker == worker and call.t1]
        last = next((call for call in reversed(claims) if call.verb == "claim"), None)
        return [
            hand
            for hand in itertools.chain.from_iterable(self.hands.values())
            if hand.call is last and not any(call.verb in ENDING for call in hand.settles)
        ]

    # Judging.

    def judge(self, ends: dict[str, End] | None = None) -> list[str]:
        """What is wrong so far; with `ends` everything that should have happened has."""
        self.anomalies = [*self._found]
        unknown = Counter(
            call.topic for call in self.calls.values() if call.verb == "claim" and call.t1 is None
        )
        for (topic, seq), hands in self.hands.items():
            hands.sort(key=lambda hand: hand.lease)
            where = f"{topic}:{seq}"
            self.anomalies += self._deliveries(topic, where, hands, unknown[topic])
            self.anomalies += self._hands(topic, where, hands)
            for hand in hands:
                self.anomalies += self._settles(topic, where, hand, hands)
        for topic, end in (ends or {}).items():
            self.anomalies += self._end(topic, end)
        return self.anomalies

    def _deliveries(self, topic: str, where: str, hands: list[Hand], unknown: int) -> Iterator[str]:
        """Each delivery is one more than the one before; those in between went to nobody we know,
        so there was a claim without an answer."""
        most = self.rules[topic].deliveries_max
        for one, other in itertools.pairwise(hands):
            if other.deliveries <= one.deliveries or other.given_at < one.call.t0:
                yield f"recounted: {where} had {one}, then {other}"
        if hands[-1].deliveries - len(hands) > unknown:
            known = f"{len(hands)} known, {unknown} claims without an answer"
            yield f"recounted: {where} has {hands[-1]}: {known}"
        if most and hands[-1].deliveries > most:
            yield f"overdelivered: {where} has {hands[-1]} of {most}"

    def _hands(self, topic: str, where: str, hands: list[Hand]) -> Iterator[str]:
        rules = self.rules[topic]
        for one, other in itertools.combinations(hands, 2):
            is_same_life = one.call.life == other.call.life
            if (rules.keeps_leases or is_same_life) and other.given_at < one.held_until(
                rules.lease_s
            ):
                yield f"two-hands: {where} was given as {other} while it had {one}"

    def _settles(self, topic: str, where: str, hand: Hand, hands: list[Hand]) -> Iterator[str]:
        rules = self.rules[topic]
        newer = [other for other in hands if other.lease > hand.lease]
        for call in hand.settles:
            if call.t1 is None:
                continue
            if hand.seq in call.skipped:
                is_kept = rules.keeps_leases or call.life == hand.call.life
                if is_kept and call.t1 < hand.held_until(rules.lease_s, call):
                    yield f"holder-refused: {call.verb} of {where} under {hand}"
                continue
            for other in newer:
                if other.given_at < call.t0:
                    yield f"unfenced: {call.verb} of {where} under {hand} counted after {other}"
                elif call.verb == "ack" and other.call.t0 > call.t1:
                    yield f"resurrected: {where} was done under {hand}, then given as {other}"
                elif call.verb == "ack":
                    yield f"unfenced: {where} was done under {hand} and given as {other} meanwhile"
        done = sum(self._times_done(one) for one in hands)
        if done > 1 and hand is hands[-1]:
            yield f"double-ack: {where} was done {done} times"

    def _times_done(self, hand: Hand) -> int:
        return sum(
            call.verb == "ack" and call.t1 is not None and hand.seq not in call.skipped
            for call in hand.settles
        )

    def _end(self, topic: str, end: End) -> Iterator[str]:
        if end.ready or end.in_flight or end.delayed:
            yield f"stuck: {topic} still has {end}"
        if end.dead_lettered != len(end.dead) or len(set(end.dead)) != len(end.dead):
            yield f"misburied: {topic} says {end}"
        appended = self.appended[topic]
        for where, seq in self.hands:
            if where == topic and seq not in appended:
                yield f"invented: {topic}:{seq} was given, and nobody appended it"
        for seq in set(end.dead) - appended.keys():
            yield f"invented: {topic}:{seq} is dead, and nobody appended it"
        for seq, number in appended.items():
            hands = self.hands.get((topic, seq), [])
            yield from self._fate(f"{topic}:{seq}", number, hands, self.rules[topic], end)

    def _fate(
        self, where: str, number: int, hands: list[Hand], rules: Rules, end: End
    ) -> Iterator[str]:
        """Done once, or dead after so many deliveries."""
        if any(hand.number != number for hand in hands):
            yield f"invented: {where} is {number} and was given as {[one.number for one in hands]}"
        is_done = any(self._times_done(hand) for hand in hands)
        # Who knows what a call without an answer did?
        may_be_done = any(
            call.verb == "ack" and call.t1 is None for hand in hands for call in hand.settles
        )
        if hands and hands[-1].seq in end.dead:
            if is_done:
                yield f"misburied: {where} was done and is dead"
            if hands[-1].deliveries != rules.deliveries_max:
                yield f"misburied: {where} is dead after {hands[-1]}"
        elif not hands:
            yield f"lost: {where} was never given to anybody"
        elif not is_done and not may_be_done:
            yield f"lost: {where} is gone and nobody did it: {', '.join(map(str, hands))}"


def _number(lease_id: str) -> int:
    return int(lease_id.removeprefix("lease_"), 16)
