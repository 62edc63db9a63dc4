"""Rebuilds the state of all topics from disk: the snapshot, then the WAL, by `apply`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.codec import kernel
from penstock.codec.frame import FRAME_BYTES_MIN, FrameType
from penstock.directory import snapshot_parts, snapshot_rebuild
from penstock.directory.log_identity import DataLayout
from penstock.directory.power_cut_losses import lost_seqs
from penstock.directory.router_replay import RouterReplay, past
from penstock.directory.segments import SegmentShelf
from penstock.entries import (
    COPIES_HOPS_SHIFT,
    BatchStarted,
    CopiesLogged,
    FloorMoved,
    KeyRemembered,
    LeasesChanged,
    PositionMoved,
    RecordsAppended,
    RecordsDeleted,
    RecordsRouted,
    RouterCreated,
    RouterDropped,
    RouterMoved,
    Scarred,
    SeqsLost,
    SeqsReserved,
    TopicConfigured,
    TopicCreated,
    TopicDropped,
    TopicEntry,
)
from penstock.limits import TOPIC_ID_OWN
from penstock.storage import snapshots
from penstock.storage.fs import Filesystem
from penstock.storage.wal import files, recovery
from penstock.storage.wal.recovery import Item, Positions, WalFileScan, WalFindings
from penstock.topics import read_plan
from penstock.topics.registry import Registry
from penstock.topics.topic import Topic
from penstock.types import Cause

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
    """The result of recovery. `fsck` prints it; the log has it as `log.recovery`."""

    verdict: WalFindings
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
    layout: DataLayout,
    registry: Registry,
    shelf: SegmentShelf,
    *,
    now_ms: int = 0,
    progress: Progress = lambda done, total: None,
    is_live: bool = False,
) -> Recovered:
    """Fill `registry`; the state is complete when this returns. Writes nothing. Leases expire by
    `now_ms`. With `is_live` another process has the log open, and missing seqs may still be
    written: they are not lost."""
    found = Recovered(WalFindings())
    absorbed = _load_snapshot(fs, layout, registry, shelf, found)
    deriver = RouterReplay(fs, layout.wal, absorbed)
    registry.defers_caps = found.rebuilt
    replay = _Replay(registry, found, files.groups(fs, layout.wal), deriver)
    steps = recovery.examine(
        fs, layout.wal, absorbed, on_file=progress, may_start_late=found.rebuilt
    )
    for step in steps:
        if isinstance(step, WalFileScan):
            replay.scan(step)
        else:
            found.verdict = step
    replay.finish()
    registry.resolve_names()
    _drop_routers_without_source(registry)
    for topic in registry.all():
        if topic.config.type == "queue":
            _restart_queue(topic, now_ms)
    if not is_live:
        found.lost = lost_seqs(registry.all(), found.verdict)
        for entry in found.lost:
            registry.apply(entry)
    return found


def _load_snapshot(
    fs: Filesystem, layout: DataLayout, registry: Registry, shelf: SegmentShelf, found: Recovered
) -> Positions:
    """The newest readable snapshot; without any, the state rebuilt from segments."""
    numbers = snapshots.numbers(fs, layout.meta)
    for number in numbers:
        try:
            blob = snapshots.read(fs, layout.meta, number)
            body = snapshot_parts.decode(blob.body, of=blob.log_id, wanted=layout.log_id)
            topics = [snapshot_parts.restore(part, shelf) for part in body.topics]
        except ValueError as error:
            found.bad_snapshots.append(f"{snapshots.path_of(layout.meta, number)}: {error}")
            continue
        registry.adopt(topics, body.next_topic_id)
        found.snapshot_number = number
        found.positions = body.positions
        return body.positions
    if not numbers and not layout.is_checkpointed:
        return {}  # no checkpoint ever finished: the WAL has everything, segments are leftovers
    topics = snapshot_rebuild.from_segments(fs, layout, shelf)
    if topics or numbers:
        found.rebuilt = True
        ids = [topic.id for topic in topics if topic.id < TOPIC_ID_OWN]
        registry.adopt(topics, max(ids, default=0) + 1)
    return {}


class _Replay:
    """Feeds scanned items to the registry."""

    def __init__(
        self, registry: Registry, found: Recovered, groups: list[str], deriver: RouterReplay
    ) -> None:
        self._groups = groups
        self._deriver = deriver
        self._registry = registry
        self._found = found
        self._scars: dict[str, int] = {}  # per group, bytes that repair took out so far
        self._untold: dict[int, int] = {}  # topics that may have lost that many bytes, unseen

    def scan(self, scan: WalFileScan) -> None:
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
            self._lose(topic, entry.first - 1, entry.cause)
        self._registry.apply(entry, position)

    def _lose(self, topic: Topic, last: int, cause: Cause) -> None:
        """The seqs past the head up to `last` are missing."""
        if last > topic.head:
            self._registry.apply(SeqsLost(topic.id, topic.head + 1, last, cause))

    def _routed(self, batch: BatchStarted, position: tuple[int, int]) -> None:
        """Copies with their bytes follow: they move the cursor of their router."""
        topic = self._registry.by_id(batch.topic_id)
        if topic is not None and position > topic.position:
            moved = RouterMoved(batch.topic_id, batch.router, batch.cursor, batch.count)
            self._registry.apply(moved)

    def _copies(self, entry: CopiesLogged, position: tuple[int, int]) -> None:
        """Copies that were logged as references. If a source record is lost, its copy is lost,
        too."""
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
            self._lose(topic, entry.first_seq - 1, cause)
            lost = entry.first_seq + entry.lost - 1 - topic.head
            if lost > 0:
                hops = entry.options >> COPIES_HOPS_SHIFT & 7
                self._registry.apply(RecordsRouted(topic.id, "", 0, lost, None, hops))
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
            self._lose(topic, end - 1, self._registry.jump_cause)
        self._registry.jump_cause = cause
        router = topic.routers.get(entry.router)
        count = taken
        if router is not None and entry.place is not None and not entry.place.file_index:
            count = max(0, taken - router.forwarded)  # such an entry says the total
        self._registry.apply(
            RouterMoved(entry.topic_id, entry.router, entry.cursor, count), position
        )

    def _scar(self, scan: WalFileScan, entry: Scarred) -> None:
        """Any topic of this group may have lost records here. Its next append shows how many;
        without a next append, the maximum that fits counts as lost."""
        self._registry.jump_cause = Cause.DAMAGE
        self._scars[scan.file.group] = self._scars.get(scan.file.group, 0) + entry.bytes_lost
        for topic in self._registry.known():
            if files.may_hold(self._groups, scan.file.group, topic.id):
                self._untold[topic.id] = self._untold.get(topic.id, 0) + entry.bytes_lost

    def finish(self) -> None:
        self._registry.jump_cause = Cause.LOST
        if self._registry.defers_caps:
            self._registry.enforce_caps()
        for topic_id, lost_bytes in self._untold.items():
            topic = self._registry.by_id(topic_id)
            if topic is not None:
                self._lose(topic, topic.head + lost_bytes // FRAME_BYTES_MIN, Cause.DAMAGE)

    def _remember(self, batch: BatchStarted | None) -> None:
        """The seqs of the batch, from its own frame: in the log it may share a run with a neighbour
        without a key, and a snapshot may have absorbed its beginning."""
        if batch is not None and batch.key:
            last = batch.first_seq + batch.count - 1
            self._registry.apply(
                KeyRemembered(batch.topic_id, batch.key, batch.first_seq, last, batch.ts)
            )

    def _append(self, scan: WalFileScan, item: Item) -> None:
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
        self._registry.apply(entry, (scan.file.index, item[4]))
        self._found.records_replayed += count


def _drop_routers_without_source(registry: Registry) -> None:
    """The drop of a topic ends its routers next; a crash between the two leaves them behind."""
    for dest in registry.all():
        for router in list(dest.routers.values()):
            if registry.by_id(router.source_id) is None:
                registry.apply(RouterDropped(router.name, dest.id))


def _restart_queue(topic: Topic, now_ms: int) -> None:
    queue = topic.queue
    # A job whose append was cut off leaves its delay behind, and the next record of that seq must
    # not get it.
    queue.prune(functools.partial(read_plan.is_live, topic))
    queue.pruned = topic.removals
    queue.restart(now_ms, keeps_leases=topic.config.leases_durable)
    # Past any that were given and then lost with their entry: a lease id is never given twice.
    queue.next_lease_id = max(queue.next_lease_id, now_ms << 12)
