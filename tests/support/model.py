"""What a log promises, in memory: no bytes, no files, no threads. The measure for the real one.

A `Model` knows what was acknowledged. `expect_page` says what a read must give; after a restart
`settle` says whether what is seen is among the things that the restart may leave, and goes on
from there.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from penstock.types import Record, TopicConfig

Restart = Literal["close", "kill", "cut"]
_encode = msgspec.json.encode
_NEAR = 256
_FLOOR_WORDS = {(True, False): "cap", (False, True): "ttl", (True, True): "mixed"}


class Ranges:
    """A set of seqs as sorted, disjoint, never touching, inclusive ranges."""

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()) -> None:
        self.pairs: list[tuple[int, int]] = []
        for first, last in pairs:
            self.add(first, last)

    def add(self, first: int, last: int) -> None:
        if last < first:
            return
        apart = [pair for pair in self.pairs if pair[1] + 1 < first or pair[0] > last + 1]
        met = [pair for pair in self.pairs if pair[1] + 1 >= first and pair[0] <= last + 1]
        joined = (min([first, *(p[0] for p in met)]), max([last, *(p[1] for p in met)]))
        self.pairs = sorted([*apart, joined])

    def __contains__(self, seq: int) -> bool:
        return any(first <= seq <= last for first, last in self.pairs)

    def holds(self, first: int, last: int) -> bool:
        """Is every seq of first..last in here?"""
        return last < first or any(low <= first and last <= high for low, high in self.pairs)

    def past(self, seq: int) -> Ranges:
        return Ranges((max(first, seq + 1), last) for first, last in self.pairs if last > seq)


@dataclass(frozen=True, slots=True)
class Fact:
    """One acknowledged record."""

    seq: int
    ts: int
    record: Record
    batch: int

    @property
    def size(self) -> int:
        meta = self.record.meta
        return len(_encode(self.record.data)) + (0 if meta is None else len(_encode(meta)))

    def as_read(self) -> Record:
        return msgspec.structs.replace(self.record, seq=self.seq, ts=self.ts)


@dataclass(slots=True)
class Walk:
    """All that a reader sees of one topic from seq 0 on."""

    epoch: int
    config: TopicConfig
    head: int
    records: dict[int, Record]
    gaps: list[tuple[int, int, str]]
    evict_floor: int = 0
    expiry_floor: int = 0
    positions: dict[str, tuple[int, int]] = field(default_factory=dict)  # name -> seq, ts

    @property
    def told(self) -> Ranges:
        return Ranges((first, last) for first, last, _ in self.gaps)


@dataclass(slots=True)
class ModelTopic:
    """`told` are the seqs a reader is told of; what is neither told nor live is silence."""

    name: str
    epoch: int
    config: TopicConfig
    head: int = 0
    last_ts: int = 0
    live: dict[int, Fact] = field(default_factory=dict)
    told: Ranges = field(default_factory=Ranges)
    evict_floor: int = 0
    expiry_floor: int = 0
    keys: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    vague: dict[str, tuple[int, int, int]] = field(default_factory=dict)  # keys: see `adopt`
    positions: dict[str, tuple[int, int]] = field(default_factory=dict)  # name -> seq, ts
    soft: set[int] = field(default_factory=set)  # acknowledged before a sync: a cut may take them
    ram: set[int] = field(default_factory=set)  # nowhere but in memory: any restart may
    comeback: dict[int, Fact] = field(default_factory=dict)  # evicted since the last sync
    was_ephemeral: bool = False

    @property
    def is_ephemeral(self) -> bool:
        return self.config.durability == "ephemeral"

    @property
    def bytes(self) -> int:
        return sum(fact.size for fact in self.live.values())

    @property
    def earliest(self) -> int:
        return min(self.live, default=self.head + 1)

    @property
    def floor(self) -> int:
        return max(self.evict_floor, self.expiry_floor)

    # Changes.

    def append(self, records: Sequence[Record], ts: int, key: str | None) -> tuple[int, int]:
        first = self.head + 1
        self.last_ts = max(ts, self.last_ts)
        for record in records:
            self.head += 1
            self.live[self.head] = Fact(self.head, self.last_ts, record, first)
            if self.config.durability != "fsync":
                self.soft.add(self.head)
            if self.is_ephemeral:
                self.ram.add(self.head)
        if key is not None:
            self.keys[key] = (first, self.head, self.last_ts)
        self.enforce_caps()
        return first, self.head

    def seen(self, key: str, now_ms: int) -> tuple[int, int] | None:
        hit = self.keys.get(key)
        if hit is None or hit[2] < now_ms - self.config.idempotency_window_ms:
            return None
        return hit[:2]

    def fits(self, records: Sequence[Record]) -> bool:
        config = self.config
        size = sum(Fact(0, 0, record, 0).size for record in records)
        return config.discard != "reject" or not (
            (config.cap_records and len(self.live) + len(records) > config.cap_records)
            or (config.cap_bytes and self.bytes + size > config.cap_bytes)
        )

    def configure(self, config: TopicConfig) -> None:
        if config.durability == "ephemeral" and config != self.config:
            self.was_ephemeral = True
        self.config = config
        self.enforce_caps()

    def delete(
        self,
        *,
        before_seq: int | None = None,
        prefix: str | None = None,
        tag: str | None = None,
        seqs: Sequence[int] = (),
    ) -> int:
        """Remove silently; the three last are bounded by the first."""
        chosen = [
            seq
            for seq, fact in self.live.items()
            if (before_seq is None or seq < before_seq)
            and (
                (prefix is None and tag is None and not seqs)
                or (prefix is not None and (fact.record.tag or "").startswith(prefix or "\0"))
                or (prefix == "" and fact.record.tag is not None)
                or (tag is not None and fact.record.tag == tag)
                or seq in seqs
            )
        ]
        for seq in chosen:
            del self.live[seq]
        return len(chosen)

    def enforce_caps(self) -> None:
        config = self.config
        if config.discard != "old":
            return
        while self.live and (
            (config.cap_records and len(self.live) > config.cap_records)
            or (config.cap_bytes and self.bytes > config.cap_bytes)
        ):
            seq, fact = next(iter(self.live.items()))
            del self.live[seq]
            self.comeback[seq] = fact
            self.told.add(1, seq)
            self.evict_floor = seq

    def expire(self, now_ms: int) -> None:
        ttl_ms = self.config.ttl_ms
        expired = [seq for seq, fact in self.live.items() if fact.ts < now_ms - ttl_ms]
        if not ttl_ms or not expired:
            return
        for seq in expired:
            self.comeback[seq] = self.live.pop(seq)
        self.told.add(1, expired[-1])
        self.expiry_floor = expired[-1]

    def sync_all(self) -> None:
        """Everything so far is past a sync."""
        self.soft &= self.ram
        if not self.was_ephemeral and not self.is_ephemeral:
            self.comeback.clear()

    # Reading.

    def gap_at(self, after: int) -> tuple[int, int, str] | None:
        """The gap a read past `after` must begin with."""
        if after > self.head:
            return 1, self.head, "recreated"
        if after < self.floor:
            word = _FLOOR_WORDS[self.evict_floor > after, self.expiry_floor > after]
            return after + 1, self.floor, word
        for first, last in self.told.pairs:
            if first <= after + 1 <= last:
                return after + 1, last, "lost"
        return None

    def lag(self, seq: int, now_ms: int) -> tuple[int, int]:
        """Live records past `seq`, and the age of the oldest."""
        ahead = [fact for at, fact in self.live.items() if at > seq]
        return len(ahead), max(0, now_ms - ahead[0].ts) if ahead else 0

    # Restarting.

    def objections(self, seen: Walk, restart: Restart) -> list[str]:
        """What a restart of this kind must not leave and did. Empty when all is well."""
        wrong = []
        if (seen.epoch, seen.config) != (self.epoch, self.config):
            wrong.append(f"epoch {seen.epoch}, {seen.config}, not {self.epoch}, {self.config}")
        if seen.positions != self.positions:  # whatever their topic's class
            wrong.append(f"positions are {seen.positions}, not {self.positions}")
        told, fragile = seen.told, self._fragile(restart)
        is_exact = restart != "cut" and not self.was_ephemeral
        comeback = {} if is_exact else self.comeback
        known_seqs = self._known_seqs()
        # Of a RAM-only topic nobody remembers which of the lost seqs had been deleted.
        spared = {*known_seqs} if self.was_ephemeral or comeback else fragile
        for seq in known_seqs:
            fact, record = self.live.get(seq), seen.records.get(seq)
            if record is not None:
                known = fact or comeback.get(seq)
                if known is None:
                    wrong.append(f"seq {seq} came back")
                elif record != known.as_read():
                    wrong.append(f"seq {seq} reads {record}, not {known}")
            elif fact is not None and seq not in fragile:
                wrong.append(f"seq {seq} is lost")
            elif fact is not None and seq not in told:
                wrong.append(f"seq {seq} is gone in silence")
            elif seq in self.told and seq not in told and not comeback:
                wrong.append(f"the loss of seq {seq} is no longer told")
            elif seq in told and seq not in self.told and seq not in spared:
                wrong.append(f"false alarm: nothing happened to seq {seq}")
        wrong += self._partial_batches(seen, fragile)
        beyond = sorted(seq for seq in seen.records if seq > self.head)
        if beyond:
            wrong.append(f"nobody appended {beyond}")
        if seen.head < self.head:
            wrong.append(f"head fell from {self.head} to {seen.head}")
        if not told.holds(self.head + 1, seen.head):
            wrong.append(f"seqs {self.head + 1}..{seen.head} vanished in silence")
        if is_exact:
            mine = (self.head, self.evict_floor, self.expiry_floor, self.told.pairs)
            found = (seen.head, seen.evict_floor, seen.expiry_floor, told.pairs)
            if mine != found:
                wrong.append(f"head, floors, gaps are {found}, not {mine}")
        return wrong

    def adopt(self, seen: Walk, restart: Restart) -> None:
        """Go on from what was seen, which has been found right."""
        fragile = self._fragile(restart)
        known = {**self.comeback, **self.live}
        was_live, keys = set(self.live), dict(self.keys)
        self.live = {seq: known[seq] for seq in sorted(seen.records)}
        self.told = seen.told
        self.evict_floor, self.expiry_floor = seen.evict_floor, seen.expiry_floor
        self.keys = {
            key: hit
            for key, hit in self.keys.items()
            if fragile.isdisjoint(range(hit[0], hit[1] + 1))
            or not self.live.keys().isdisjoint(range(hit[0], hit[1] + 1))
        }
        # The key of a record that was lost must be forgotten. Where it had been deleted or
        # evicted before, nobody is misled by either answer.
        for key in keys.keys() - self.keys.keys():
            if was_live.isdisjoint(range(keys[key][0], keys[key][1] + 1)):
                self.vague[key] = keys[key]
        self.head = seen.head
        self.soft.clear()
        self.ram.clear()
        self.comeback.clear()

    def _fragile(self, restart: Restart) -> set[int]:
        return self.soft | self.ram if restart == "cut" else self.ram

    def _known_seqs(self) -> list[int]:
        """Every seq something is known of; of the wide ranges after a power cut, the edges."""
        edges = {edge for pair in self.told.pairs for edge in pair}
        near = range(1, min(self.head, _NEAR) + 1)
        return sorted({*near, *edges, *self.live, *self.comeback})

    def _partial_batches(self, seen: Walk, fragile: set[int]) -> list[str]:
        """Of a batch that a crash may take it takes all or nothing."""
        gone = {
            fact.batch
            for seq, fact in self.live.items()
            if seq in fragile and seq not in seen.records
        }
        return [
            f"batch {fact.batch} is torn: seq {seq} is there"
            for seq, fact in self.live.items()
            if fact.batch in gone and seq in seen.records
        ]


class Model:
    """All topics of a log."""

    def __init__(self, shards: int = 1) -> None:
        self.shards = shards
        self.topics: dict[str, ModelTopic] = {}
        self.epochs: dict[str, int] = {}  # the highest ever seen, by name

    def copy(self) -> Model:
        return copy.deepcopy(self)

    def create(self, name: str, epoch: int, config: TopicConfig) -> ModelTopic:
        assert epoch > self.epochs.get(name, 0), (name, epoch)
        self.epochs[name] = epoch
        topic = self.topics[name] = ModelTopic(name, epoch, config)
        topic.was_ephemeral = topic.is_ephemeral
        return topic

    def sync_all(self) -> None:
        for topic in self.topics.values():
            topic.sync_all()

    def synced(self, name: str) -> None:
        """The shard of this topic was synced: that covers all that was written to it before."""
        if self.shards == 1:
            self.sync_all()
        elif name in self.topics:
            self.topics[name].sync_all()

    def objections(self, seen: dict[str, Walk], restart: Restart) -> list[str]:
        wrong = [f"topic {name} is gone" for name in self.topics.keys() - seen.keys()]
        wrong += [f"topic {name} came back" for name in seen.keys() - self.topics.keys()]
        for name in self.topics.keys() & seen.keys():
            found = self.topics[name].objections(seen[name], restart)
            wrong += [f"{name}: {text}" for text in found]
        return wrong

    def settle(self, seen: dict[str, Walk], restart: Restart) -> None:
        wrong = self.objections(seen, restart)
        assert not wrong, (restart, wrong)
        for name, topic in self.topics.items():
            topic.adopt(seen[name], restart)
