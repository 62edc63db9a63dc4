"""Absorb the WAL: seal large tails, keep small ones in a snapshot, remove WAL files.

The order of the steps matters. Segments are durable before the snapshot that names them; a file is
removed only when neither this snapshot nor the one before it needs it, so that one damaged snapshot
costs a longer replay and nothing else. A crash at any point leaves the last snapshot and a WAL that
continues it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock import limits
from penstock.directory import log_identity, snapshot_parts
from penstock.directory.log_identity import DataLayout
from penstock.directory.segments import SegmentShelf
from penstock.directory.snapshot_parts import SnapshotBody, TopicPart
from penstock.engine.handle import Handle
from penstock.engine.seal import Frozen, freeze, seal, tail_facts
from penstock.engine.segment_rewrite import rewrite
from penstock.engine.wal_positions import References
from penstock.errors import StorageError
from penstock.storage import snapshots
from penstock.storage.fs import Filesystem
from penstock.storage.wal import files
from penstock.storage.wal.recovery import Positions, group_name
from penstock.storage.wal.shard import Shard
from penstock.topics.sealing import NOW_MS, SealLimits, due_ms

Progress = Callable[[int, int], None]
Named = dict[int, set[str]]
OnNamed = Callable[[Named, Named | None], None]
"""Called with the segments that the newest snapshot names, by topic, and those that the newest two
name."""


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    snapshot: int
    segments_sealed: int
    segments_rewritten: int
    wal_files_removed: int
    segment_files_removed: int

    def plus(self, later: CheckpointReport) -> CheckpointReport:
        """The sum of two reports."""
        return CheckpointReport(
            later.snapshot,
            self.segments_sealed + later.segments_sealed,
            self.segments_rewritten + later.segments_rewritten,
            self.wal_files_removed + later.wal_files_removed,
            self.segment_files_removed + later.segment_files_removed,
        )


def _check(body: bytes) -> None:
    """Restore the snapshot in memory, before any file that it replaces is removed."""
    try:
        snapshot_parts.check(body)
    except ValueError as error:
        raise AssertionError(f"the new snapshot cannot be restored: {error}") from error


class Checkpointer:
    """One checkpoint at a time; called by maintenance, by `compact` and by tests."""

    def __init__(
        self,
        fs: Filesystem,
        layout: DataLayout,
        shelf: SegmentShelf,
        shards: list[Shard],
        bounds: SealLimits,
        *,
        handles: Callable[[], list[Handle]],
        next_topic_id: Callable[[], int],
        on_damage: Callable[[StorageError], None],
        snapshot_number: int,
        older_positions: Positions,
        settled: Positions,
        references: References,
        on_named: OnNamed = lambda newest, both: None,
    ) -> None:
        self._fs = fs
        self._layout = layout
        self._shelf = shelf
        self._shards = shards
        self._bounds = bounds
        self._handles = handles
        self._next_topic_id = next_topic_id
        self._on_damage = on_damage
        self._number = snapshot_number
        self._older = older_positions  # of the snapshot before the newest
        self._older_named: Named | None = None
        self._settled = settled  # groups as of opening: all replayed
        self._references = references
        self._on_named = on_named
        self._checked: set[int] = set()  # snapshots that can be restored
        self._lock = threading.Lock()

    def run(
        self, *, everything: bool = False, progress: Progress = lambda done, total: None
    ) -> CheckpointReport:
        """Absorb everything published so far. `everything` also seals small tails."""
        with self._lock:
            positions = self._references.bound(self._positions)
            # Topics are captured one by one: entries after `positions` may already be in, and
            # applying them again on replay changes nothing.
            parts, sealed, rewritten = self._absorb(everything, progress)
            # Topics are not captured all at once, and what one got from another may be in while the
            # other was captured without it: what leads from there to here must not be lost.
            self._sync()
            body = snapshot_parts.encode(SnapshotBody(self._next_topic_id(), positions, parts))
            _check(body)
            number = self._number + 1
            snapshots.write(self._fs, self._layout.meta, number, self._layout.log_id, body)
            self._number = number
            self._checked.add(number)
            if not self._layout.is_checkpointed:
                # Before any WAL file goes: from here on segments are more than leftovers.
                self._layout = dataclasses.replace(self._layout, is_checkpointed=True)
                log_identity.write(self._fs, self._layout)
            snapshots.remove_older(self._fs, self._layout.meta, is_spare=self._is_spare)
            report = CheckpointReport(
                number,
                sealed,
                rewritten,
                self._remove_wal_files(),
                self._remove_segments(parts),
            )
            self._older = positions
            return report

    def seal_due(self, now_ms: int) -> int:
        """Seal tails that reached a trigger, without a checkpoint."""
        made = 0
        with self._lock:
            for handle in self._handles():
                head, spans, until_ms = handle.calm
                topic = handle.topic
                if topic.head == head and len(topic.spans) == spans and now_ms < until_ms:
                    continue  # nothing happened here: most topics, most of the time
                with handle.lock:
                    tail = tail_facts(topic)
                    at_ms = due_ms(tail, self._bounds)
                    handle.calm = (topic.head, len(topic.spans), at_ms)
                if at_ms <= now_ms:
                    by_age = at_ms > NOW_MS
                    with handle.lock:
                        frozen = freeze(topic, self._bounds, everything=by_age)
                    made += len(seal(handle, self._shelf, frozen))
        return made

    def _is_spare(self, snapshot: snapshots.Snapshot) -> bool:
        """True if the log can be opened with this snapshot. Each snapshot is checked once per
        run."""
        if snapshot.number not in self._checked:
            try:
                snapshot_parts.check(snapshot.body)
            except ValueError:
                return False
            self._checked.add(snapshot.number)
        return True

    def _positions(self) -> Positions:
        wal = self._layout.wal
        positions = dict(self._settled)
        for shard in self._shards:
            at = shard.position()
            if at[0]:
                positions[group_name(wal, shard.group)] = at
        self._sync()
        return positions

    def _sync(self) -> None:
        """A snapshot must not be ahead of the durable WAL: replay from the spare snapshot needs the
        WAL to reach the same state."""
        for shard in self._shards:
            shard.sync_all()

    def _absorb(self, everything: bool, progress: Progress) -> tuple[list[TopicPart], int, int]:
        """The part of every topic in the snapshot, and the numbers of sealed and rewritten
        segments. A topic is captured when its turn comes. Records that are appended while segments
        are written stay in the WAL; otherwise a busy topic would fill the snapshot."""
        parts: dict[int, TopicPart] = {}
        room = -1 if everything else limits.SNAPSHOT_TAIL_BYTES_MAX
        sealed = rewritten = 0
        for handle in self._each(parts, progress):
            rewritten += rewrite(  # before it is captured: what is made anew must be named
                handle,
                self._shelf,
                dead_share=limits.REWRITE_DEAD_SHARE,
                on_damage=self._on_damage,
            )
            part, size, frozen = self._capture(handle, room)
            if frozen is None:
                room -= size
            else:
                tail = seal(handle, self._shelf, frozen)
                sealed += len(tail)
                part = snapshot_parts.completed(part, tail)
            parts[part.id] = part
        there = [handle.topic.id for handle in self._handles()]
        return [parts[one] for one in there if one in parts], sealed, rewritten

    def _each(self, parts: dict[int, TopicPart], progress: Progress) -> Iterator[Handle]:
        """All topics, those with little to absorb first, then topics created meanwhile."""
        tails: list[tuple[int, Handle]] = []
        for handle in self._handles():
            with handle.lock:
                tails.append((tail_facts(handle.topic).bytes, handle))
        tails.sort(key=lambda pair: pair[0])
        for done, (_, handle) in enumerate(tails):
            progress(done, len(tails))
            yield handle
        progress(len(tails), len(tails))
        yield from [handle for handle in self._handles() if handle.topic.id not in parts]

    def _capture(self, handle: Handle, room: int) -> tuple[TopicPart, int, Frozen | None]:
        """The present state of the topic, and the bytes of its tail. A tail that is not small, or
        exceeds the `room` in the snapshot, is not in the part: it is sealed instead."""
        topic = handle.topic
        with handle.lock:
            size = tail_facts(topic).bytes
            if size < limits.SEAL_BYTES_MIN and size <= room:
                return snapshot_parts.capture(topic), size, None
            part = snapshot_parts.capture(topic, with_tail=False)
            return part, size, freeze(topic, self._bounds, everything=True)

    def _remove_wal_files(self) -> int:
        """WAL files that the previous snapshot had already absorbed."""
        removed: set[str] = set()
        for file in files.discover(self._fs, self._layout.wal):
            held = self._older.get(group_name(self._layout.wal, file.group))
            if held is not None and file.index < held[0]:
                with contextlib.suppress(FileNotFoundError):
                    self._fs.unlink(file.path)
                removed.add(file.path)
        for group in {path.rsplit("/", 1)[0] for path in removed}:
            self._fs.sync_dir(group)
        return len(removed)

    def _remove_segments(self, parts: list[TopicPart]) -> int:
        named = {
            part.id: {span.facts.stem for span in part.spans if span.facts is not None}
            for part in parts
        }
        older, self._older_named = self._older_named, named
        if older is None:
            self._on_named(named, None)
            return 0  # the first checkpoint of a run cannot tell what the older snapshot names
        both = {
            topic_id: named.get(topic_id, set()) | older.get(topic_id, set())
            for topic_id in named.keys() | older.keys()
        }
        removed = self._shelf.remove_unnamed(both)
        self._on_named(named, both)
        return removed
