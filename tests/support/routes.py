"""Routers at work on a disk that can crash: what readers could see, and what must be left of it.

A `Picture` is what any reader could see at one instant, taken without bringing anything along the
routers. A `Story` remembers what was sent, shown and promised; `Story.objections` holds a picture
taken after a crash against it.
"""

from __future__ import annotations

import copy
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec.structs import replace

from penstock.directory.copy_origin import MARK
from penstock.engine import read
from penstock.engine.engine import Log
from penstock.engine.handle import Handle
from penstock.types import Record, RouterRules

Restart = Literal["kill", "cut"]
STRENGTHS = ("ephemeral", "memory", "disk", "fsync")
_WANTED = read.options(None, None, None)


# Seeing.


@dataclass(frozen=True, slots=True)
class Sight:
    """A topic as its readers see it."""

    id: int
    name: str
    durability: str
    cap: int
    discard: str
    head: int
    records: dict[int, Record]
    gaps: list[tuple[int, int, str]]

    def why_gone(self, seq: int) -> str:
        """The reason readers are told; empty when they are told none."""
        return next((why for first, last, why in self.gaps if first <= seq <= last), "")

    def has_gap_up_to(self, seq: int) -> bool:
        return any(first <= seq for first, _, _ in self.gaps)

    @property
    def is_kept(self) -> bool:
        return self.durability != "ephemeral"

    @property
    def may_evict(self) -> bool:
        return bool(self.cap) and self.discard == "old"


@dataclass(frozen=True, slots=True)
class RouterSight:
    name: str
    source_id: int
    dest_id: int
    cursor: int
    forwarded: int
    rules: RouterRules


@dataclass(frozen=True, slots=True)
class Picture:
    topics: dict[int, Sight]
    routers: dict[str, RouterSight]

    def lasting(self) -> tuple[dict[int, Sight], dict[str, RouterSight]]:
        """What a kill must leave exactly as it is."""
        kept = {one.id: one for one in self.topics.values() if one.is_kept}
        return kept, {one.name: one for one in self.routers.values() if one.dest_id in kept}


class Eye:
    """Takes pictures of one log. What did not change is not read again."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[int, tuple[object, Sight]] = {}

    def look(self) -> Picture:
        topics: dict[int, Sight] = {}
        routers: dict[str, RouterSight] = {}
        for name, handle in list(self._log.core.parts.handles.items()):
            if name.startswith("_"):
                continue
            topic = handle.topic
            topics[topic.id] = self._sight(handle)
            for one in topic.routers.values():
                routers[one.name] = RouterSight(
                    one.name, one.source_id, topic.id, one.cursor, one.forwarded, one.rules
                )
        return Picture(topics, dict(sorted(routers.items())))

    def _sight(self, handle: Handle) -> Sight:
        topic = handle.topic
        state = (topic.head, topic.live, topic.removals, tuple(topic.losses), topic.config)
        known = self._known.get(topic.id)
        if known is not None and known[0] == state:
            return known[1]
        sight = _walked(handle)
        self._known[topic.id] = (state, sight)
        return sight


def _walked(handle: Handle) -> Sight:
    records: dict[int, Record] = {}
    gaps: list[tuple[int, int, str]] = []
    after = 0
    while True:
        page = read.read(handle, after, None, _WANTED)
        if page.gap is not None:
            gaps.append((page.gap.first, page.gap.last, page.gap.reason))
        records |= {record.seq: record for record in page.records}
        if page.caught_up:
            break
        assert page.next_seq > after, ("a read does not move on", page)
        after = page.next_seq
    topic = handle.topic
    config = topic.config
    return Sight(
        topic.id,
        topic.name,
        config.durability,
        config.cap_records,
        config.discard,
        topic.head,
        records,
        gaps,
    )


# Remembering.


@dataclass(slots=True)
class Birth:
    """A router from its creation on. `laws` are its rules and from behind which seq of its source
    they hold; `totals` how many copies it had made when it stood at a seq."""

    name: str
    source_id: int
    dest_id: int
    since: int
    laws: list[tuple[int, RouterRules]]
    totals: dict[int, int] = field(default_factory=dict)

    def law(self, seq: int, now: RouterRules) -> RouterRules:
        """The rules under which a record was looked at, if those of today are `now`: a crash
        while they were being changed may have left the ones before."""
        laws = self.laws if self.laws[-1][1] == now else self.laws[:-1] or self.laws
        return next(rules for since, rules in reversed(laws) if seq > since or since == self.since)


def _id_of(record: Record) -> str:
    return str(record.data["id"])


@dataclass(slots=True)
class Story:
    """What was sent, seen and promised so far, by topic id.

    `frail` seqs may be in the newest snapshot alone: a power cut took the WAL they were in, or
    they were in no WAL ever. `spent` are records that went without a power cut, and `batches`
    those that were appended to several topics at once.
    """

    sent: dict[str, str] = field(default_factory=dict)  # record id -> topic it was written to
    seen: dict[int, dict[int, Record]] = field(default_factory=lambda: defaultdict(dict))
    seqs: dict[int, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    deleted: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    hard: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    births: dict[str, Birth] = field(default_factory=dict)
    fed: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))  # by what, ever
    was_cut: bool = False
    weakest: dict[int, str] = field(default_factory=dict)  # the class of each topic, at its weakest
    weaker: dict[int, str] = field(default_factory=dict)  # while its class changes
    frail: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    spent: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    batches: list[dict[int, set[str]]] = field(default_factory=list)
    pending: dict[int, set[str]] = field(default_factory=dict)  # the batch that is under way

    def copy(self) -> Story:
        return copy.deepcopy(self)

    def learn(self, picture: Picture) -> None:
        """Somebody may have seen this."""
        for topic_id, sight in picture.topics.items():
            known = self.weakest.get(topic_id, "fsync")
            self.weakest[topic_id] = min(known, sight.durability, key=STRENGTHS.index)
            self.seen[topic_id] |= sight.records
            for seq, record in sight.records.items():
                self.seqs[topic_id][_id_of(record)] = seq
        for name, router in picture.routers.items():
            if name in self.births:
                self.births[name].totals[router.cursor] = router.forwarded

    def bear(self, before: Picture, after: Picture, name: str) -> None:
        """A router was made, or was given other rules."""
        old, now = before.routers.get(name), after.routers[name]
        if old is not None:
            self.births[name].laws.append((old.cursor, now.rules))
            return
        self.fed[now.dest_id].add(now.source_id)
        laws = [(now.cursor, now.rules)]
        self.births[name] = Birth(name, now.source_id, now.dest_id, now.cursor, laws)

    def sync_all(self, picture: Picture) -> None:
        """All of this is past a sync now, whatever its class."""
        for topic_id, sight in picture.topics.items():
            if sight.is_kept:
                self.hard[topic_id] |= set(sight.records)

    def reclass(self, before: Picture, after: Picture) -> None:
        """A topic has another class now. What it had keeps the promise of class fsync, if it has
        come to that; what was in memory before is in a snapshot, and in no WAL."""
        for topic_id, sight in after.topics.items():
            old = before.topics.get(topic_id)
            if old is None or old.durability == sight.durability:
                continue
            if sight.durability == "fsync" or (sight.is_kept and not old.is_kept):
                self.hard[topic_id] |= set(old.records)  # not what routers brought meanwhile
            if not old.is_kept:
                self.frail[topic_id] |= set(sight.records)

    def restart(self, picture: Picture, how: Restart) -> None:
        """Life goes on from here. What was lost and told is no longer expected."""
        self.was_cut |= how == "cut"
        for topic_id, shown in list(self.seen.items()):
            sight = picture.topics.get(topic_id)
            if sight is None:
                del self.seen[topic_id]
                continue
            if how == "kill":
                gone = shown.keys() - sight.records.keys()
                self.spent[topic_id] |= {_id_of(shown[seq]) for seq in gone}
            else:
                self.frail[topic_id] |= sight.records.keys() - self.hard[topic_id]
            self.seen[topic_id] = {
                seq: record for seq, record in shown.items() if not sight.why_gone(seq)
            }
        for birth in self.births.values():
            birth.totals = {}
        self.learn(picture)
        self.sync_all(picture)

    # Judging.

    def objections(
        self,
        before: Picture,
        after: Picture,
        how: Restart,
        *,
        stopped: Iterable[str] = (),
        may_go: Iterable[int] = (),
        may_end: Iterable[str] = (),
        is_spare: bool = False,
    ) -> Iterator[str]:
        """What is wrong with `after`, seen once everything was sent on after a crash at the
        instant of `before`. Topics in `may_go` and routers in `may_end` were being dropped,
        routers in `stopped` have no room at their destination. `is_spare`: the newest snapshot
        could not be read."""
        for topic_id, sight in before.topics.items():
            now = after.topics.get(topic_id)
            if now is None:
                if topic_id not in may_go:
                    yield f"topic {sight.name} is gone"
                continue
            yield from self._kept(sight, now, how, is_spare=is_spare)
        for sight in after.topics.values():
            yield from self._whole(sight, after, how)
            if not (is_spare and self.was_cut):  # where routers stood may be frail, too
                yield from self._not_again(sight, how)
        for batch in self.batches:
            yield from self._all_or_nothing(batch, after)
        for name, old in before.routers.items():
            is_gone = name not in after.routers and name not in may_end
            if is_gone and {old.source_id, old.dest_id} <= after.topics.keys():
                yield f"router {name} is gone"
        for router in after.routers.values():
            yield from self._exactly_once(router, after, is_stopped=router.name in stopped)

    def _kept(self, before: Sight, now: Sight, how: Restart, *, is_spare: bool) -> Iterator[str]:
        """Nothing that was seen is another record now, and nothing promised is gone."""
        where = f"{before.durability} topic {before.name}"
        if now.head < before.head:
            yield f"the head of {where} went back from {before.head} to {now.head}"
        for seq, record in self.seen[before.id].items():
            if now.records.get(seq, record) != record:
                yield f"{where}: seq {seq} is another record"
        for seq, record in before.records.items():
            if seq in now.records:
                continue
            why = now.why_gone(seq)
            if not why and _id_of(record) not in self.deleted[before.id]:
                yield f"{where}: seq {seq} is gone in silence"
            elif why == "cap" and not now.may_evict:
                yield f"{where}: seq {seq} was evicted without a cap"
            elif why not in ("", "cap") and not self._may_lose(now, seq, how, is_spare=is_spare):
                yield f"{where}: seq {seq} is gone after a {how}, reason {why}"

    def _may_lose(self, sight: Sight, seq: int, how: Restart, *, is_spare: bool) -> bool:
        durability = self.weaker.get(sight.id, sight.durability)
        if durability == "ephemeral" or not sight.is_kept:
            return True
        if is_spare and seq in self.frail[sight.id]:
            return True
        return how == "cut" and durability != "fsync" and seq not in self.hard[sight.id]

    def _not_again(self, sight: Sight, how: Restart) -> Iterator[str]:
        """What a topic lost without a power cut does not come a second time: its router knows
        that it has been there."""
        where = f"{sight.durability} topic {sight.name}"
        for seq, record in sight.records.items():
            one = _id_of(record)
            if one in self.pending.get(sight.id, ()):
                continue  # its promise is kept after the restart
            if one in self.spent[sight.id]:
                yield f"{where}: a record that was gone came again"
            if how == "kill" and self._is_moved(sight.id, one, seq):
                yield f"{where}: a record came again after a kill"

    def _is_moved(self, topic_id: int, one: str, seq: int) -> bool:
        known = self.seqs[topic_id].get(one, seq)
        return known != seq and known in self.seen[topic_id]

    def _all_or_nothing(self, batch: dict[int, set[str]], after: Picture) -> Iterator[str]:
        """Those parts that nothing may have taken since are there, or none is."""
        found: set[bool] = set()
        for topic_id, ids in batch.items():
            sight = after.topics.get(topic_id)
            if sight is None or sight.may_evict or self.weakest.get(topic_id) == "ephemeral":
                continue
            here = {_id_of(record) for record in sight.records.values()}
            found |= {one in here for one in ids - self.deleted[topic_id]}
        if len(found) > 1:
            yield "a batch over several topics is there in part"

    def _whole(self, sight: Sight, after: Picture, how: Restart) -> Iterator[str]:
        """Every record once, all of them known, and no gap where nothing could be lost."""
        where = f"{sight.durability} topic {sight.name}"
        ids = [_id_of(record) for record in sight.records.values()]
        for one, count in _counted(ids):
            if count > 1:
                yield f"{where}: a record is there {count} times"
            if one not in self.sent:
                yield f"{where}: a record that nobody sent"
        if sight.gaps and self._is_safe(sight, after, how, frozenset()):
            yield f"{where}: a gap where nothing can be lost, after a {how}: {sight.gaps[0][2]}"

    def _is_safe(self, sight: Sight, after: Picture, how: Restart, known: frozenset[int]) -> bool:
        is_calm = how == "kill" and not self.was_cut
        ever = self.weakest.get(sight.id, sight.durability)
        weakest = min(ever, sight.durability, key=STRENGTHS.index)
        if weakest == "ephemeral" or sight.may_evict or (weakest != "fsync" and not is_calm):
            return False
        known |= {sight.id}
        return all(
            one in after.topics and self._is_safe(after.topics[one], after, how, known)
            for one in self.fed[sight.id] - known
        )

    def _exactly_once(
        self, router: RouterSight, after: Picture, *, is_stopped: bool
    ) -> Iterator[str]:
        source = after.topics.get(router.source_id)
        dest = after.topics[router.dest_id]
        birth = self.births.get(router.name)
        if source is None or birth is None or birth.source_id != router.source_id:
            yield f"router {router.name} is not the one that was made"
            return
        where = f"router {source.durability} {source.name} to {dest.durability} {dest.name}"
        if router.cursor > source.head:
            yield f"{where}: cursor {router.cursor} above the head {source.head}"
        if router.cursor < source.head and not is_stopped:
            yield f"{where}: did not go on"
        places = {_id_of(record): seq for seq, record in dest.records.items()}
        here = {_id_of(record): seq for seq, record in source.records.items()}
        came = sorted(
            (seq, places[one])
            for one, seq in (self.seqs[source.id] | here).items()
            if one in places
            and seq > birth.since
            and self._is_for(router, birth, source, dest, seq)
        )
        ends = [place for _, place in came]
        if ends != sorted(ends):
            yield f"{where}: out of order"
        for seq, place in came:
            original = source.records.get(seq) or self.seen[source.id].get(seq)
            if original is not None:
                yield from self._same(router, birth, source, original, dest.records[place])
        for seq, record in source.records.items():
            if not birth.since < seq <= router.cursor or _id_of(record) in places:
                continue
            if not self._is_for(router, birth, source, dest, seq):
                continue
            if _id_of(record) in self.deleted[dest.id] or self._is_told(seq, came, dest):
                continue
            yield f"{where}: a record is missing in silence"

    def _is_for(
        self, router: RouterSight, birth: Birth, source: Sight, dest: Sight, seq: int
    ) -> bool:
        """Does this router take that record?"""
        record = source.records.get(seq) or self.seen[source.id].get(seq)
        if record is None or self.sent.get(_id_of(record)) == dest.name:
            return False  # written there in the first place, it does not come back
        match = birth.law(seq, router.rules).match
        if match is None:
            return True
        tag = (record.tag or "").encode()
        return record.tag is not None and (
            tag.startswith(match.value) if match.is_prefix else tag == match.value
        )

    def _same(
        self,
        router: RouterSight,
        birth: Birth,
        source: Sight,
        original: Record,
        made: Record,
    ) -> Iterator[str]:
        rules = birth.law(original.seq, router.rules)
        if replace(made, seq=0, ts=0) != _as_copied(original, router, source, rules):
            yield f"router {router.name}: a copy differs from what it is a copy of"

    def _is_told(self, seq: int, came: list[tuple[int, int]], dest: Sight) -> bool:
        """Is there a gap at the destination where the copy of this seq would have to be?"""
        low = max((place for other, place in came if other < seq), default=0)
        high = min((place for other, place in came if other > seq), default=dest.head + 1)
        return any(first < high and last > low for first, last, _ in dest.gaps)

    def totals(self, found: Picture, after: Picture) -> Iterator[str]:
        """`found` is right after the opening, `after` when everything was sent on."""
        for name, router in found.routers.items():
            birth = self.births.get(name)
            known = None if birth is None else birth.totals.get(router.cursor)
            if known is None or known == router.forwarded:
                continue
            # A crash may take a position with its copies, and by then their originals may be gone
            # too, by the crash or by a cap. A recovery tells of that and moves the router past
            # them; one that is crashed itself is found there with fewer copies.
            source = found.topics.get(router.source_id)
            may_have_less = source is None or source.has_gap_up_to(router.cursor)
            if router.forwarded > known or not may_have_less:
                yield f"router {name}: {router.forwarded} copies counted, they were {known}"
        for dest_id, sight in after.topics.items():
            old = found.topics.get(dest_id)
            ours = [one for one in after.routers.values() if one.dest_id == dest_id]
            if old is None or sight.may_evict or not ours:
                continue
            counted = sum(one.forwarded - found.routers[one.name].forwarded for one in ours)
            if counted != sum(seq > old.head for seq in sight.records):
                yield f"topic {sight.name}: {counted} copies counted that are not there"


def _counted(ids: list[str]) -> Iterator[tuple[str, int]]:
    for one, same in itertools.groupby(sorted(ids)):
        yield one, len(list(same))


def _as_copied(record: Record, router: RouterSight, source: Sight, rules: RouterRules) -> Record:
    meta: Any = record.meta
    if rules.exactly_once:
        mark = {
            "idempotency_key": f"router:{router.name}:{source.id}:{source.id}:{record.seq}",
            "router": router.name,
            "source_topic": source.name,
            "source_topic_id": source.id,
            "source_epoch": source.id,
            "source_seq": record.seq,
        }
        meta = {**(meta or {}), MARK: mark}
    return Record(
        data=record.data,
        tag=record.tag if rules.preserve_tag else None,
        node=record.node if rules.preserve_node else None,
        meta=meta,
    )
