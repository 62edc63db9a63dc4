"""From what is on disk to the state of all topics: snapshot, then the WAL, by `apply`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.codec import kernel
from penstock.codec.frame import FRAME_BYTES_MIN, FrameType
from penstock.engine import capture, rebuild
from penstock.engine.derive import Deriver, past
from penstock.engine.layout import Layout
from penstock.engine.segments import SegmentShelf
from penstock.limits import TOPIC_ID_OWN
from penstock.storage import snapshots
from penstock.storage.fs import Filesystem
from penstock.storage.wal import files, recovery
from penstock.storage.wal.recovery import Item, Positions, Scan, Verdict
from penstock.topics.registry import Registry
from penstock.types import (
    COPIES_HOPS_SHIFT,
    BatchStarted,
    Cause,
    CopiesLogged,
    FloorMoved,
    LeasesChanged,
    PositionMoved,
    RecordsAppended,
    RecordsDeleted,
    RecordsRouted,
    RouterCreated,
    RouterDropped,
    Scarred,
    SeqsLost,
    SeqsReserved,
    TopicConfigured,
    TopicCreated,
    TopicDropped,
    TopicEntry,
)

Progress = Callable[[int, int], None]
_TOPIC_ENTRIES = (
    TopicCreated,
    TopicConfigured,
    TopicDropped,
    RecordsDeleted,
    FloorMoved,
    SeqsReserved,
    SeqsLost,
    PositionMoved,
    LeasesChanged,
    RouterCreated,
    RouterDropped,
)


@dataclass(slots=True)
class Recovered:
    """What opening found. Printed by `fsck`, kept by the log as `log.recovery`."""

    verdict: Verdict
    snapshot_number: int = 0
    positions: Positions = field(default_factory=dict)  # of the snapshot that was used
    bad_snapshots: list[str] = field(default_factory=list)
    rebuilt: bool = False  # no snapshot was readable: topics were rebuilt from their segments
    lost: list[SeqsLost] = field(default_factory=list)  # told to readers, not yet logged
    records_replayed: int = 0
    frames_unknown: int = 0

    @property
    def is_healthy(self) -> bool:
        return not (self.verdict.damage or self.bad_snapshots or self.rebuilt)


def recover(
    fs: Filesystem,
    layout: Layout,
    registry: Registry,
    shelf: SegmentShelf,
    *,
    progress: Progress = lambda done, total: None,
    is_live: bool = False,
) -> Recovered:
    """Fill `registry`. Writes nothing. When somebody has the log open, `is_live`, what is not
    there may still come, and is not lost."""
    found = Recovered(Verdict())
    absorbed = _load_snapshot(fs, layout, registry, shelf, found)
    deriver = Deriver(fs, layout.wal, absorbed)
    replay = _Replay(registry, found, files.groups(fs, layout.wal), deriver)
    steps = recovery.examine(
        fs, layout.wal, absorbed, on_file=progress, may_start_late=found.rebuilt
    )
    for step in steps:
        if isinstance(step, Scan):
            replay.scan(step)
        else:
            found.verdict = step
    replay.finish()
    registry.settle_names()
    if not is_live:
        found.lost = _apply_ceilings(registry, found.verdict)
    return found


def _load_snapshot(
    fs: Filesystem, layout: Layout, registry: Registry, shelf: SegmentShelf, found: Recovered
) -> Positions:
    """The newest readable snapshot; without any, what the segments themselves tell."""
    numbers = snapshots.numbers(fs, layout.meta)
    for number in numbers:
        try:
            blob = snapshots.read(fs, layout.meta, number)
            body = capture.decode(blob.body, of=blob.log_id, wanted=layout.log_id)
            topics = [capture.restore(part, shelf) for part in body.topics]
        except ValueError as error:
            found.bad_snapshots.append(f"{snapshots.path_of(layout.meta, number)}: {error}")
            continue
        registry.adopt(topics, body.next_topic_id)
        found.snapshot_number = number
        found.positions = body.positions
        return body.positions
    if not numbers and not layout.is_checkpointed:
        return {}  # no checkpoint ever finished: the WAL has everything, segments are leftovers
    topics = rebuild.from_segments(fs, layout, shelf)
    if topics or numbers:
        found.rebuilt = True
        ids = [topic.id for topic in topics if topic.id < TOPIC_ID_OWN]
        registry.adopt(topics, max(ids, default=0) + 1)
    return {}


class _Replay:
    """Feeds scanned items to the registry."""

    def __init__(
        self, registry: Registry, found: Recovered, groups: list[str], deriver: Deriver
    ) -> None:
        self._groups = groups
        self._deriver = deriver
        self._registry = registry
        self._found = found
        self._scars: dict[str, int] = {}  # per group, bytes that repair took out so far
        self._untold: dict[int, int] = {}  # topics that may have lost that many bytes, unseen

    def scan(self, scan: Scan) -> None:
        started: BatchStarted | None = None
        batch_at = 0
        scarred = scan.file.group in self._scars
        self._registry.jump_cause = Cause.DAMAGE if scarred else Cause.LOST
        for item in scan.items:
            if item[0] == FrameType.APPEND:
                if started is not None and started.router:
                    self._routed(started, (scan.file.index, batch_at))
                self._append(scan, item)
                self._remember(started)
                started = None
                continue
            entry = recovery.read_control(scan, item)
            if isinstance(entry, BatchStarted):
                started, batch_at = entry, item[4]
            elif isinstance(entry, CopiesLogged):
                self._copies(entry, (scan.file.index, item[4]))
            elif isinstance(entry, _TOPIC_ENTRIES):
                self._control(entry, (scan.file.index, item[4]))
            elif isinstance(entry, Scarred):
                self._scar(scan, entry)
            elif entry is None:
                self._found.frames_unknown += 1
        scan.buffer = memoryview(b"")  # let the file go before the next is mapped

    def _control(self, entry: TopicEntry, position: tuple[int, int]) -> None:
        topic = self._registry.by_id(entry.topic_id)
        if topic is not None and position <= topic.position:
            return  # in the snapshot already; a second time it might meet what came later
        if topic is not None and isinstance(entry, SeqsLost):
            # Counted from the newest snapshot. The spare one may have less than that.
            topic.lose(topic.head + 1, entry.first - 1, entry.cause)
        if topic is not None and self._found.rebuilt and isinstance(entry, TopicConfigured):
            topic.config = entry.config  # its caps are enforced once, at the end
        else:
            self._registry.apply(entry)
        self._at(entry.topic_id, position)

    def _routed(self, batch: BatchStarted, position: tuple[int, int]) -> None:
        """Copies that were logged with their bytes come next: their router goes on with them."""
        topic = self._registry.by_id(batch.topic_id)
        if topic is not None and position > topic.position:
            router = topic.routers.get(batch.router)
            if router is not None:
                router.went_on(batch.cursor, batch.count)

    def _copies(self, entry: CopiesLogged, position: tuple[int, int]) -> None:
        """Copies that were logged as references. Those that can no longer be derived are lost,
        as what they were copies of is."""
        topic = self._registry.by_id(entry.topic_id)
        if topic is not None and position <= topic.position:
            return
        taken = sum(entry.runs[1::2])
        end = entry.first_seq + entry.lost + taken
        if topic is None:  # its creation was lost to damage: this gives it a name
            self._registry.apply(RecordsRouted(entry.topic_id, entry.router, 0))
            topic = self._registry.by_id(entry.topic_id)
        if topic is None:
            raise AssertionError("a topic with copies must exist")
        cause = self._registry.jump_cause
        if entry.lost:
            topic.lose(topic.head + 1, entry.first_seq - 1, cause)
            low, high = max(topic.head + 1, entry.first_seq), entry.first_seq + entry.lost - 1
            topic.trim(low, high, entry.options >> COPIES_HOPS_SHIFT & 7)
        derived, is_damaged = self._deriver.derive(entry)
        if is_damaged:
            self._registry.jump_cause = Cause.DAMAGE
        for copies in derived:
            self._untold.pop(entry.topic_id, None)
            rest = past(copies, topic.head)
            if rest is not None:
                self._registry.apply(rest)
                self._found.records_replayed += rest.count
        if entry.first_seq and topic.head < end - 1:  # else they were in memory alone
            topic.lose(topic.head + 1, end - 1, self._registry.jump_cause)
        self._registry.jump_cause = cause
        router = topic.routers.get(entry.router)
        if router is not None and entry.place is not None and not entry.place.file_index:
            router.went_on(entry.cursor, max(0, taken - router.forwarded))  # it says the total
        elif router is not None:
            router.went_on(entry.cursor, taken)
        self._at(entry.topic_id, position)

    def _at(self, topic_id: int, position: tuple[int, int]) -> None:
        topic = self._registry.by_id(topic_id)
        if topic is not None and position > topic.position:
            topic.position = position

    def _scar(self, scan: Scan, entry: Scarred) -> None:
        """Any topic of this group may have lost records here. The next append of one tells how
        many; for those without a next one, the most that fit must be given up."""
        self._registry.jump_cause = Cause.DAMAGE
        self._scars[scan.file.group] = self._scars.get(scan.file.group, 0) + entry.bytes_lost
        for topic in self._registry.known():
            if files.may_hold(self._groups, scan.file.group, topic.id):
                self._untold[topic.id] = self._untold.get(topic.id, 0) + entry.bytes_lost

    def finish(self) -> None:
        self._registry.jump_cause = Cause.LOST
        if self._found.rebuilt:
            for capped in self._registry.known():
                capped.enforce_caps()
        for topic_id, lost_bytes in self._untold.items():
            topic = self._registry.by_id(topic_id)
            if topic is not None:
                most = lost_bytes // FRAME_BYTES_MIN
                topic.lose(topic.head + 1, topic.head + most, Cause.DAMAGE)

    def _remember(self, batch: BatchStarted | None) -> None:
        """The batch's own seqs, as it says them: in the log it may be one run with a neighbour
        that has no key, and a snapshot may have taken its beginning."""
        if batch is not None and batch.key:
            topic = self._registry.by_id(batch.topic_id)
            if topic is not None:
                last = batch.first_seq + batch.count - 1
                topic.remember(batch.key, batch.first_seq, last, batch.ts)

    def _append(self, scan: Scan, item: Item) -> None:
        _, topic_id, seq, ts, start, end, count, payload, offsets, last_ts = item
        self._untold.pop(topic_id, None)
        known = self._registry.by_id(topic_id)
        head = known.head if known is not None else 0
        if seq <= head < seq + count - 1:
            # A snapshot took the first part of this run: walk the rest of it alone.
            start += memoryview(offsets).cast("I")[head + 1 - seq]
            items, _, _ = kernel.scan(scan.buffer, start, end)
            for rest in items:
                self._append(scan, rest)
            return
        frames = bytes(scan.buffer[start:end])
        entry = RecordsAppended(topic_id, seq, count, ts, last_ts, payload, frames, offsets)
        self._registry.apply(entry)
        self._found.records_replayed += count
        self._at(topic_id, (scan.file.index, item[4]))


def _apply_ceilings(registry: Registry, verdict: Verdict) -> list[SeqsLost]:
    """Seqs that were promised may have been acknowledged and lost: never hand them out again,
    and tell their readers. A killed process leaves what it wrote in the page cache, so only
    RAM-only topics lose anything by that."""
    lost: list[SeqsLost] = []
    for topic in registry.all():
        at_risk = verdict.may_have_lost_tail and topic.config.durability != "fsync"
        if topic.config.durability == "ephemeral":
            at_risk = not verdict.was_closed
        if at_risk and topic.ceiling > topic.head:
            lost.append(SeqsLost(topic.id, topic.head + 1, topic.ceiling, Cause.LOST))
            registry.apply(lost[-1])
    return lost
