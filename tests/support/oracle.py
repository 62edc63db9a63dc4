"""What a log must hold after its process died, told only by what that process said.

A writer says what it is about to do, and says again when the log has acknowledged it. From this
the oracle knows, for every record, whether it must be there, may be there, or must be gone; it
then reads the whole log and compares. What it finds becomes fact: a record seen once must stay,
one that has vanished must not come back.

The writers keep three rules that make this simple. A payload is a function of its id. A tag
belongs to one thread, which deletes it only after its appends were answered. A topic with a cap
belongs to one thread.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import penstock
from penstock import Log

WINDOW = "window"  # the topic with a cap
TOPICS: dict[str, dict[str, Any]] = {
    "orders": {"durability": "fsync"},
    "payments": {"durability": "fsync"},
    "clicks": {"durability": "disk"},
    WINDOW: {"durability": "fsync", "cap_records": 48},
}
CAPS = (48, 24)  # what the cap is changed between

Message = Sequence[Any]
_PAGE = 10_000
_HOLE_MAX = 100_000  # a longer hole without a gap is reported without looking at each seq
_PADS = tuple("abcdefghij"[n % 10] * n for n in (0, 7, 40, 90, 150, 260, 700, 1800))


def payload(record_id: str) -> dict[str, str]:
    """The content that belongs to an id."""
    return {"id": record_id, "pad": _PADS[zlib.crc32(record_id.encode()) % len(_PADS)]}


def payloads(uid: str, count: int) -> list[dict[str, str]]:
    return [payload(f"{uid}/{index}") for index in range(count)]


@dataclass(slots=True)
class Batch:
    """One append: what was meant, and what is known of it."""

    topic: str
    uid: str
    count: int
    tag: str | None
    key: str | None
    first: int = 0  # 0 until acknowledged or found
    is_acked: bool = False
    is_safe: bool = False  # a power cut must not take it
    is_deleted: bool = False
    is_delete_asked: bool = False

    @property
    def seqs(self) -> range:
        return range(self.first, self.first + self.count)


@dataclass(slots=True)
class Deletion:
    """One delete by tag, and everything it must take."""

    topic: str
    victims: list[Batch]
    is_acked: bool = False


@dataclass(slots=True)
class Gaps:
    """Ranges a reader was told are lost."""

    ranges: list[tuple[int, int]]

    def cover(self, seq: int) -> bool:
        return any(first <= seq <= last for first, last in self.ranges)

    def outside(self, first: int, last: int) -> Iterable[tuple[int, int]]:
        """The parts of first..last that no gap covers."""
        for low, high in self.ranges:
            if high < first:
                continue
            if low > last:
                break
            if low > first:
                yield first, low - 1
            first = high + 1
        if first <= last:
            yield first, last


@dataclass(slots=True)
class Known:
    """What is known of one topic. `alive` and below are facts, seen in an earlier reading."""

    name: str
    is_fsync: bool
    cap: int
    is_created: bool = False
    alive: dict[int, str] = field(default_factory=dict)  # seq -> id
    batches: dict[str, Batch] = field(default_factory=dict)  # uid -> those with a record alive
    deleted: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)  # acknowledged, then taken by a power cut
    gaps: list[tuple[int, int]] = field(default_factory=list)
    head: int = 0
    fresh: dict[str, Batch] = field(default_factory=dict)  # of the life just ended
    # With a cap: what is surely evicted, and what may be.
    floor_low: int = 0
    floor_high: int = 0
    top: int = 0
    cap_asked: int = 0

    def tagged(self, tag: str) -> list[Batch]:
        every = [*self.batches.values(), *self.fresh.values()]
        return [b for b in every if b.tag == tag and b.first and not b.is_deleted]


class Oracle:
    """Hears messages, then judges logs. `violations` holds what was wrong, for people."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.counts: Counter[str] = Counter()
        self._topics: dict[str, Known] = {
            name: Known(name, config["durability"] == "fsync", config.get("cap_records", 0))
            for name, config in TOPICS.items()
        }
        self._batches: dict[str, Batch] = {}  # by operation, of the life under way
        self._deletions: dict[str, Deletion] = {}
        self._in_doubt: list[tuple[Batch, bool]] = []  # keyed, unanswered; was it found?

    # What the writers say.

    def hear(self, messages: Iterable[Message]) -> None:
        """Everything one life said, in the order it was said."""
        for kind, *rest in messages:
            match kind:
                case "created":
                    self._topics[rest[0]].is_created = True
                case "append":
                    self._append_meant(*rest)
                case "appended":
                    self._append_acked(*rest)
                case "delete":
                    operation, topic, tag = rest
                    victims = self._topics[topic].tagged(tag)
                    for batch in victims:
                        batch.is_delete_asked = True
                    self._deletions[operation] = Deletion(topic, victims)
                case "deleted":
                    self._delete_acked(*rest)
                case "cap":
                    known = self._topics[rest[0]]
                    known.cap_asked = rest[1]
                    known.floor_high = max(known.floor_high, known.top - rest[1])
                case "capped":
                    known = self._topics[rest[0]]
                    known.cap, known.cap_asked = known.cap_asked, 0
                    known.floor_low = max(known.floor_low, known.top - known.cap)
                case "synced":
                    self._thread_synced(rest[0])
                case "failed":
                    self._wrong(f"the writer failed: {rest[0]}")
                case "ready" | "closed":
                    pass
                case _:
                    raise AssertionError(f"unknown message {kind!r}")

    def _append_meant(
        self, operation: str, topic: str, uid: str, count: int, tag: str | None, key: str | None
    ) -> None:
        known = self._topics[topic]
        batch = Batch(topic, uid, count, tag, key)
        self._batches[operation] = known.fresh[uid] = batch
        if known.cap:
            known.floor_high = max(known.floor_high, known.top + count - known.cap)

    def _append_acked(self, operation: str, first: int, last: int) -> None:
        batch = self._batches[operation]
        known = self._topics[batch.topic]
        if last - first + 1 != batch.count:
            self._wrong(f"{batch.uid}: {batch.count} records were answered with {first}..{last}")
        batch.first, batch.is_acked, batch.is_safe = first, True, known.is_fsync
        self.counts["acked records"] += batch.count
        if known.cap:
            known.top = last
            known.floor_low = max(known.floor_low, last - known.cap)

    def _delete_acked(self, operation: str, count: int) -> None:
        deletion = self._deletions[operation]
        deletion.is_acked = True
        wanted = sum(batch.count for batch in deletion.victims)
        if count != wanted:
            self._wrong(f"a delete in {deletion.topic} took {count} records and not {wanted}")
        for batch in deletion.victims:
            batch.is_deleted = True

    def _thread_synced(self, thread: str) -> None:
        for operation, batch in self._batches.items():
            if operation.startswith(f"{thread}.") and batch.is_acked:
                batch.is_safe = True

    # What the log says.

    def judge(self, log: Log, *, power_cut: bool = False) -> None:
        """Compare, and take what is found as fact for the lives to come."""
        for error in log.damage:
            self._wrong(f"damage: {error}")
        present = {info.name for info in log.topics()}
        self._in_doubt = []
        for known in self._topics.values():
            if known.name in present:
                known.is_created = True
                self._judge_topic(log, known, power_cut=power_cut)
            elif known.is_created:
                self._wrong(f"topic {known.name} is gone")
        self._batches.clear()
        self._deletions.clear()

    def _judge_topic(self, log: Log, known: Known, *, power_cut: bool) -> None:
        name = known.name
        before = len(self.violations)
        records, gaps, head = read_all(log, name)
        found: dict[str, list[tuple[int, int]]] = {}  # uid -> (index in batch, seq)
        seqs: set[int] = set()
        last = 0
        for record in records:
            seq, data = record.seq, record.data
            if seq <= last:
                self._wrong(f"{name}: seq {seq} comes after {last}")
            last = seq
            seqs.add(seq)
            record_id = data.get("id", "") if isinstance(data, dict) else ""
            if data != payload(record_id):
                self._wrong(f"{name}: seq {seq} has a content nobody wrote: {str(data)[:80]}")
                continue
            settled = known.alive.get(seq)
            if settled == record_id:
                continue
            if settled is not None:
                self._wrong(f"{name}: seq {seq} was {settled} and is now {record_id}")
            uid, _, index = record_id.rpartition("/")
            batch = known.fresh.get(uid)
            if batch is None:
                self._wrong(f"{name}: seq {seq} is {record_id}, which was there before or vanished")
                continue
            if batch.tag != record.tag:
                self._wrong(f"{name}: seq {seq} has the tag {record.tag!r}, not {batch.tag!r}")
            found.setdefault(uid, []).append((int(index), seq))
        for what, taken in (("lost", known.lost), ("deleted", known.deleted)):
            if not taken.isdisjoint(seqs):
                self._wrong(f"{name}: seqs {sorted(taken & seqs)[:5]} were {what} and are in use")
        evicted = self._judge_cap(log, known, seqs, head) if known.cap else 0
        self._judge_deletions(known, seqs, evicted)
        self._judge_old(known, seqs, evicted)
        self._judge_fresh(known, found, evicted, power_cut=power_cut)
        self._judge_holes(known, seqs, gaps, head, evicted, power_cut=power_cut)
        if head < known.head:
            self._wrong(f"{name}: the head went back from {known.head} to {head}")
        known.head = known.top = head
        known.gaps = gaps.ranges
        known.fresh = {}
        if len(self.violations) > before:
            self._wrong(f"{name}: head {head}, {len(records)} records, gaps {gaps.ranges[-3:]}")

    def _judge_cap(self, log: Log, known: Known, seqs: set[int], head: int) -> int:
        """The last evicted seq."""
        evicted = min(seqs) - 1 if seqs else head
        if not known.floor_low <= evicted <= known.floor_high:
            self._wrong(
                f"{known.name}: evicted up to {evicted}, expected "
                f"{known.floor_low}..{known.floor_high} (cap {known.cap}, head {head})"
            )
        cap = log.topic(known.name).config.cap_records
        if cap not in (known.cap, known.cap_asked):
            self._wrong(f"{known.name}: cap {cap} is neither {known.cap} nor {known.cap_asked}")
        known.cap, known.cap_asked = cap, 0
        known.floor_low = known.floor_high = evicted
        for seq in [seq for seq in known.alive if seq <= evicted]:
            del known.alive[seq]
        return evicted

    def _judge_deletions(self, known: Known, seqs: set[int], evicted: int) -> None:
        for deletion in self._deletions.values():
            if deletion.topic != known.name:
                continue
            for batch in deletion.victims:
                here = sum(seq in seqs for seq in batch.seqs)
                if deletion.is_acked and here:
                    self._wrong(f"{known.name}: {batch.uid} is back after its delete")
                if here not in (0, batch.count):
                    self._wrong(f"{known.name}: {batch.uid} was deleted in part")
                if not here:
                    batch.is_deleted = True
            fates = {batch.is_deleted for batch in deletion.victims if batch.is_safe}
            if len(fates) > 1:
                self._wrong(f"{known.name}: a delete took some of its records and not others")
            for batch in deletion.victims:
                batch.is_delete_asked = False
                if batch.is_deleted:
                    known.deleted.update(batch.seqs)

    def _judge_old(self, known: Known, seqs: set[int], evicted: int) -> None:
        """Whatever an earlier reading found must still be there."""
        for seq in known.alive.keys() - seqs:
            record_id = known.alive.pop(seq)
            if seq not in known.deleted and seq > evicted:
                self._wrong(f"{known.name}: seq {seq} ({record_id}) was there before and is lost")
        gone = [uid for uid, b in known.batches.items() if b.is_deleted or b.seqs[-1] <= evicted]
        for uid in gone:
            del known.batches[uid]

    def _judge_fresh(
        self,
        known: Known,
        found: dict[str, list[tuple[int, int]]],
        evicted: int,
        *,
        power_cut: bool,
    ) -> None:
        """What the last life wrote, or meant to."""
        first_lost = 0
        for batch in known.fresh.values():
            places = found.get(batch.uid, [])
            if places:
                self._judge_places(known, batch, places, evicted)
                known.batches[batch.uid] = batch
                self.counts["unanswered found"] += not batch.is_acked
            elif not batch.is_acked:
                self.counts["unanswered vanished"] += 1
            elif not batch.is_deleted and batch.seqs[-1] > evicted:
                if power_cut and not batch.is_safe:
                    known.lost.update(batch.seqs)
                    self.counts["unsynced records lost"] += batch.count
                    first_lost = min(first_lost or batch.first, batch.first)
                else:
                    self._wrong(
                        f"{known.name}: {batch.uid} was acknowledged as {batch.first}.."
                        f"{batch.seqs[-1]} and is lost"
                    )
            if batch.key and not batch.is_acked:
                self._in_doubt.append((batch, bool(places)))
            batch.is_safe = True  # opening synced whatever it shows
        if first_lost and any(b.first > first_lost for b in known.batches.values()):
            self._wrong(f"{known.name}: records past the lost seq {first_lost} survived")

    def _judge_places(
        self, known: Known, batch: Batch, places: list[tuple[int, int]], evicted: int
    ) -> None:
        index, seq = places[0]
        first = batch.first if batch.is_acked else seq - index
        start = max(0, evicted - first + 1)  # the cap may have taken the beginning
        wanted = [(at, first + at) for at in range(start, batch.count)]
        if places != wanted:
            self._wrong(f"{known.name}: {batch.uid} of {batch.count} records lies at {places}")
        if batch.is_deleted:
            self._wrong(f"{known.name}: {batch.uid} was deleted and is there")
        batch.first = first
        for at, place in places:
            known.alive[place] = f"{batch.uid}/{at}"

    def _judge_holes(
        self,
        known: Known,
        seqs: set[int],
        gaps: Gaps,
        head: int,
        evicted: int,
        *,
        power_cut: bool,
    ) -> None:
        """Seqs are contiguous: whatever is missing was deleted, or a gap says so."""
        name = known.name
        if known.cap:
            wanted = [(1, evicted)] if evicted else []
            if gaps.ranges != wanted:
                self._wrong(f"{name}: gaps {gaps.ranges} and not {wanted}")
        elif gaps.ranges and known.is_fsync:
            self._wrong(f"{name}: an fsync topic reports the gaps {gaps.ranges}")
        elif gaps.ranges != known.gaps and not power_cut:
            self._wrong(f"{name}: gaps were {known.gaps} and are {gaps.ranges} without a cut")
        covered = [seq for seq in seqs if gaps.cover(seq)] if gaps.ranges else []
        if covered:
            self._wrong(f"{name}: seqs {covered[:5]} are there and reported lost")
        at = 0
        for seq in [*sorted(seqs), head + 1]:
            for first, last in gaps.outside(at + 1, seq - 1) if seq > at + 1 else ():
                if last - first > _HOLE_MAX or any(
                    s not in known.deleted for s in range(first, last + 1)
                ):
                    self._wrong(f"{name}: {first}..{last} are missing in silence")
            at = seq

    # Settling doubts.

    def retry(self, log: Log) -> None:
        """A keyed append without an answer is sent again: exactly one copy, wherever it is."""
        for batch, was_found in self._in_doubt:
            known = self._topics[batch.topic]
            head = log.topic(batch.topic).head_seq
            for again in (False, True):
                answer = log.append(
                    batch.topic,
                    payloads(batch.uid, batch.count),
                    tag=batch.tag,
                    idempotency_key=batch.key,
                )
                wanted = batch.first if was_found or again else head + 1
                if (answer.first_seq, answer.deduped) != (wanted, was_found or again):
                    self._wrong(
                        f"{batch.topic}: the retry of {batch.uid} was answered {answer}, "
                        f"expected seq {wanted}, found before: {was_found}"
                    )
                batch.first = answer.first_seq
            self.counts["retried by key"] += 1
            batch.is_acked = batch.is_safe = True
            known.batches[batch.uid] = batch
            known.head = log.topic(batch.topic).head_seq
            for at, seq in enumerate(batch.seqs):
                known.alive[seq] = f"{batch.uid}/{at}"
        self._in_doubt = []

    def _wrong(self, text: str) -> None:
        self.violations.append(text)


def read_all(log: Log, topic: str) -> tuple[list[penstock.Record], Gaps, int]:
    """Every record and gap past seq 0, and the head, as a reader meets them."""
    records: list[penstock.Record] = []
    gaps: list[tuple[int, int]] = []
    after = 0
    while True:
        page = log.read(topic, after, _PAGE)
        if page.gap is not None:
            gaps.append((page.gap.first, page.gap.last))
        records += page.records
        if page.caught_up:
            return records, Gaps(gaps), page.head_seq
        if page.next_seq <= after:
            raise AssertionError(f"reading {topic} makes no progress after {after}")
        after = page.next_seq
