"""Absorb the WAL: seal large tails, keep small ones in a snapshot, let WAL files go.

Order is everything here. Segments are durable before the snapshot that names them; a file is
removed only when neither this snapshot nor the one before it needs it, so that one damaged
snapshot costs a longer replay and nothing else. A crash at any point leaves the last snapshot
and a WAL that continues it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock import limits
from penstock.engine import capture
from penstock.engine import layout as layouts
from penstock.engine.capture import Body, TopicPart
from penstock.engine.handle import Handle
from penstock.engine.layout import Layout
from penstock.engine.seal import Frozen, freeze, rewrite, seal, tail_facts
from penstock.engine.segments import SegmentShelf
from penstock.engine.trail import References
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
"""Told the segments that the newest snapshot names, by topic, and those that the newest two do."""


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    snapshot: int
    segments_sealed: int
    segments_rewritten: int
    wal_files_removed: int
    segment_files_removed: int

    def plus(self, later: CheckpointReport) -> CheckpointReport:
        """Two checkpoints as one."""
        return CheckpointReport(
            later.snapshot,
            self.segments_sealed + later.segments_sealed,
            self.segments_rewritten + later.segments_rewritten,
            self.wal_files_removed + later.wal_files_removed,
            self.segment_files_removed + later.segment_files_removed,
        )


def _check(body: bytes) -> None:
    """Before anything that the snapshot replaces is removed."""
    try:
        capture.check(body)
    except ValueError as error:
        raise AssertionError(f"the new snapshot cannot be restored: {error}") from error


class Checkpointer:
    """One checkpoint at a time; called by upkeep, by `compact` and by tests."""

    def __init__(
        self,
        fs: Filesystem,
        layout: Layout,
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
        """Absorb what was published so far. `everything` also seals small tails."""
        with self._lock:
            positions = self._references.bound(self._positions)
            # Topics are captured one by one: entries after `positions` may already be in, and
            # applying them again on replay changes nothing.
            parts, sealed, rewritten = self._absorb(everything, progress)
            # Topics are not captured all at once, and what one got from another may be in while the
            # other was captured without it: what leads from there to here must not be lost.
            self._sync()
            body = capture.encode(Body(self._next_topic_id(), positions, parts))
            _check(body)
            number = self._number + 1
            snapshots.write(self._fs, self._layout.meta, number, self._layout.log_id, body)
            self._number = number
            self._checked.add(number)
            if not self._layout.is_checkpointed:
                # Before any WAL file goes: from here on segments are more than leftovers.
                self._layout = dataclasses.replace(self._layout, is_checkpointed=True)
                layouts.write(self._fs, self._layout)
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
        """Could the log be opened with this one? Each is looked at once in a run."""
        if snapshot.number not in self._checked:
            try:
                capture.check(snapshot.body)
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
        """A snapshot must not be ahead of the durable WAL: the spare snapshot counts on the WAL
        alone to get as far as this one."""
        for shard in self._shards:
            shard.harden()

    def _absorb(self, everything: bool, progress: Progress) -> tuple[list[TopicPart], int, int]:
        """Every topic as the snapshot is to have it, and how many segments were made and made
        anew. Each is captured when its turn comes: what is appended while segments are written
        is left to the log, or a busy topic would fill the snapshot with it."""
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
                part = capture.completed(part, tail)
            parts[part.id] = part
        there = [handle.topic.id for handle in self._handles()]
        return [parts[one] for one in there if one in parts], sealed, rewritten

    def _each(self, parts: dict[int, TopicPart], progress: Progress) -> Iterator[Handle]:
        """All topics, those with little to absorb first, and then those that came meanwhile."""
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
        """The topic as it is now, and the bytes of its tail. A tail that is not small, or for
        which the snapshot has no `room`, is not in the part: it is to be sealed."""
        topic = handle.topic
        with handle.lock:
            size = tail_facts(topic).bytes
            if size < limits.SEAL_BYTES_MIN and size <= room:
                return capture.capture(topic), size, None
            part = capture.capture(topic, with_tail=False)
            return part, size, freeze(topic, self._bounds, everything=True)

    def _remove_wal_files(self) -> int:
        """Files that the snapshot before this one had already absorbed."""
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
