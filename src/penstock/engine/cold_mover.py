"""Move old segments to the cold tier, and remove segments from it that the log no longer has.

For each segment: a stub that says `copying`, the copy, a stub that says `cold`, and only then is
the local data removed. Index and tags stay, so that finding and deleting records needs no cold
read. Every file in the tier has a local stub from before the copy until after the removal, so no
file is forgotten and the tier need not be listed. While the local data exists, it is used.

No lock of the log is held here, and a failure here does not close the log: the move is retried.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from penstock.codec.checksum import xxh3_64
from penstock.directory import log_identity, snapshot_parts
from penstock.directory.log_identity import DataLayout
from penstock.directory.segments import SegmentShelf
from penstock.directory.snapshot_parts import SnapshotBody
from penstock.engine.checkpoint import Named
from penstock.engine.handle import Handle
from penstock.errors import CorruptFrame, StorageError
from penstock.storage import atomic, snapshots
from penstock.storage.fs import Filesystem
from penstock.storage.segments.reader import Segment
from penstock.storage.tiers import cold as colds
from penstock.storage.tiers.cold import Cold, TierLocation, Unclaimed
from penstock.topics.tiering import going, may_move

Progress = Callable[[int, int], None]
_TELL_EVERY = 64  # segments
_log = logging.getLogger("penstock.cold")


class Stub(msgspec.Struct, frozen=True):
    """The state of a segment on its way to the tier, with the checksum of its data."""

    state: str  # copying | cold
    data_bytes: int
    data_sum: str


@dataclass(frozen=True, slots=True)
class ColdReport:
    """The result of one pass."""

    segments_moved: int = 0
    bytes_moved: int = 0
    segments_removed: int = 0


class Mover:
    """One pass at a time, on any thread."""

    def __init__(
        self,
        fs: Filesystem,
        layout: DataLayout,
        shelf: SegmentShelf,
        cold: Cold,
        *,
        handles: Callable[[], list[Handle]],
        next_topic_id: Callable[[], int],
        segments_kept: int,
        bytes_kept: int,
        on_damage: Callable[[StorageError], None],
    ) -> None:
        self._fs = fs
        self._layout = dataclasses.replace(layout, is_checkpointed=True)
        self._shelf = shelf
        self._cold = cold
        self._tier = cold.tier
        self._handles = handles
        self._next_topic_id = next_topic_id
        self._segments_kept = segments_kept
        self._bytes_kept = bytes_kept
        self._on_damage = on_damage
        self._names: tuple[Named, Named | None] = {}, None  # as `named` got them
        self._told: bytes | None = None  # the body of the newest snapshot in the tier
        self._number = 0
        self._lock = threading.Lock()
        self.is_stopping = False
        self.moved_total = 0
        self.failures_total = 0
        self.trouble = ""  # why the last pass failed; empty when it did not

    def named(self, newest: Named, both: Named | None) -> None:
        """Called at opening and after each checkpoint, with the segments that the newest snapshot
        names, and those that the newest two name, if known."""
        self._names = newest, both

    def beat(self) -> None:
        """A pass that never raises."""
        try:
            self.run()
        except (OSError, StorageError) as error:
            if str(error) != self.trouble:
                _log.warning("moving segments to the cold tier failed, will retry: %s", error)
            self.trouble = str(error)
            self.failures_total += 1
        except Exception as bug:  # noqa: BLE001 - a silent death would keep everything hot
            _log.exception("unexpected error while moving segments to the cold tier")
            self.trouble = repr(bug)
            self.failures_total += 1

    def run(self, progress: Progress = lambda done, total: None) -> ColdReport:
        """Move old segments, write the tier's snapshot, remove segments that no snapshot names.
        Raises OSError or ColdUnavailable; steps that were done stay done."""
        with self._lock:
            newest, kept = self._names
            chosen = self._chosen(newest)
            forsaken = [] if kept is None else self._forsaken(kept)
            hurt = [one for one in self._segments() if one.is_cold and one.needs_rewrite]
            if not chosen and not forsaken and not hurt and not self._has_news():
                self.trouble = ""
                return ColdReport()
            self._own()
            for segment in hurt:
                self._mend_derived(segment)
            self._tell()  # from the first segment on, the tier has a snapshot
            moved = self._move_all(chosen, progress)
            self._tell()
            removed = self._forget(forsaken)
            self.trouble = ""
            return ColdReport(len(moved), sum(one.facts.data_bytes for one in moved), removed)

    def mend(self) -> None:
        """Restore local stubs, indexes and tags that were lost or damaged, for segments that are in
        the tier. Raises ColdUnavailable."""
        with self._lock:
            for segment in self._segments():
                if self._fs.exists(segment.data_path):
                    continue
                if not self._fs.exists(segment.stub_path):
                    self._cold.check()
                    if not self._is_there(segment):
                        continue
                    self._note(segment, _stub_of("cold", self._cold.data(segment.key)))
                    segment.is_cold = True
                self._mend_derived(segment)

    # Choosing.

    def _segments(self) -> list[Segment]:
        return [segment for handle in self._handles() for segment in _sealed(handle)]

    def _chosen(self, newest: Named) -> list[Segment]:
        """The segments to move, oldest first, and only those that the newest snapshot names: others
        may be sealed again. A segment before a cold one is moved as well: the tier has no
        holes."""
        found: list[Segment] = []
        for handle in self._handles():
            if not may_move(handle.topic.config):
                continue
            segments = _sealed(handle)
            sizes = [segment.facts.data_bytes for segment in segments]
            count = going(sizes, segments_kept=self._segments_kept, bytes_kept=self._bytes_kept)
            last_cold = max((at for at, one in enumerate(segments) if one.is_cold), default=-1)
            stems = newest.get(handle.topic.id, set())
            found += [
                segment
                for segment in segments[: max(count, last_cold)]
                if not (segment.is_cold or segment.is_unreadable or segment.needs_rewrite)
                and segment.facts.stem in stems
            ]
        return found

    def _forsaken(self, kept: Named) -> list[tuple[int, str]]:
        """Segments that no snapshot names any more: (topic, stem)."""
        return [
            (topic_id, stem)
            for topic_id, stem in self._shelf.stubs()
            if stem not in kept.get(topic_id, set())
        ]

    # Owning.

    def _own(self) -> None:
        """Check that the tier is reachable and belongs to this log; claim a tier that is new and
        empty."""
        was_ours = colds.remembered(self._fs, self._layout.root).claimed
        try:
            self._cold.check()
        except Unclaimed:
            if was_ours or any(True for _ in self._shelf.stubs()):
                raise  # not new: not mounted
            self._cold.claim()
        if not was_ours:
            where = TierLocation(self._tier.where, claimed=True)
            colds.remember(self._fs, self._layout.root, where)

    # Moving.

    def _move_all(self, chosen: list[Segment], progress: Progress) -> list[Segment]:
        """The segments that were moved. An error of one does not stop the others."""
        moved: list[Segment] = []
        failed: OSError | None = None
        for done, segment in enumerate(chosen):
            progress(done, len(chosen))
            if self.is_stopping:
                break
            try:
                if self._move(segment):
                    moved.append(segment)
                    self.moved_total += 1
                    if len(moved) % _TELL_EVERY == 0:
                        self._tell()
            except OSError as error:
                failed = failed or error
        progress(len(chosen), len(chosen))
        if failed is not None:
            self._tell()
            raise failed
        return moved

    def _move(self, segment: Segment) -> bool:
        """False when the segment is damaged, was dropped meanwhile, or the log is being closed."""
        if not self._fs.exists(segment.data_path):
            return False
        try:
            segment.rebuild_entries()  # damage must not be carried over
            data = segment.data()
        except CorruptFrame as error:
            if self._fs.exists(segment.data_path):
                segment.is_unreadable = True
                self._on_damage(error)
            return False
        try:
            segment.check_index()
            segment.check_tags()
        except ValueError:
            segment.needs_rewrite = True  # by the next checkpoint; then it can go
            return False
        stub = _stub_of("cold", data)
        if self._stub(segment) != stub or not self._is_there(segment):
            self._note(segment, msgspec.structs.replace(stub, state="copying"))
            for kind in ("tags", "idx"):
                if kind == "idx" or segment.facts.tags_bytes:
                    copy = bytes(self._fs.map(f"{segment.stem}.{kind}"))
                    self._tier.put(f"{_stem_key(segment)}.{kind}", [copy])
            self._tier.put(segment.key, [data])
            self._cold.forget(segment.key)
            if self.is_stopping:
                return False
            self._cold.check()  # it may have been unmounted, and this written where it was
            self._note(segment, stub)
        segment.is_cold = True
        del data
        with contextlib.suppress(FileNotFoundError):
            self._fs.unlink(segment.data_path)
        self._shelf.maps.forget(segment.data_path)
        return True

    def _is_there(self, segment: Segment) -> bool:
        try:
            return self._tier.length(segment.key) == segment.facts.data_bytes
        except FileNotFoundError:
            return False

    def _stub(self, segment: Segment) -> Stub | None:
        try:
            return msgspec.json.decode(bytes(self._fs.map(segment.stub_path)), type=Stub)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def _note(self, segment: Segment, stub: Stub) -> None:
        atomic.write_whole(self._fs, segment.stub_path, [msgspec.json.encode(stub) + b"\n"])
        self._fs.sync_dir(segment.stub_path.rpartition("/")[0])

    # Mending.

    def _mend_derived(self, segment: Segment) -> None:
        for kind, look in (("idx", segment.check_index), ("tags", segment.check_tags)):
            try:
                look()
            except ValueError:
                try:
                    data = bytes(self._tier.map(f"{_stem_key(segment)}.{kind}"))
                except FileNotFoundError:
                    continue
                path = f"{segment.stem}.{kind}"
                atomic.write_whole(self._fs, path, [data])
                self._fs.sync_dir(path.rpartition("/")[0])
                self._shelf.maps.forget(path)
                with contextlib.suppress(ValueError):
                    look()
                    segment.needs_rewrite = False

    # The snapshot in the tier.

    def _body(self) -> bytes:
        parts = []
        for handle in self._handles():
            with handle.lock:
                part = snapshot_parts.capture_cold(handle.topic)
            if part.spans:
                parts.append(part)
        return snapshot_parts.encode(SnapshotBody(self._next_topic_id(), {}, parts))

    def _has_news(self) -> bool:
        """True if the tier has segments and its snapshot is out of date."""
        if self._told is None and not any(True for _ in self._shelf.stubs()):
            return False
        return self._body() != self._told

    def _tell(self) -> None:
        """Write the tier's own snapshot, so that the tier can be read without the data
        directory."""
        body = self._body()
        if body == self._told:
            return
        if self._told is None:
            self._number = max(self._numbers(), default=0)
            self._tier.put(log_identity.FORMAT_NAME, [log_identity.encode(self._layout)])
        number = self._number + 1
        head = snapshots.encode_head(number, self._layout.log_id, body)
        self._tier.put(snapshots.path_of("meta", number), [head, body])
        self._number, self._told = number, body
        self._drop_snapshots(before=number - snapshots.KEEP + 1)

    def _numbers(self) -> list[int]:
        names = [key.rpartition("/")[2] for key in self._tier.list("meta")]
        return [number for name in names if (number := snapshots.number_of(name)) is not None]

    def _drop_snapshots(self, *, before: int) -> None:
        for number in self._numbers():
            if number < before:
                self._tier.delete(snapshots.path_of("meta", number))

    # Forgetting.

    def _forget(self, forsaken: list[tuple[int, str]]) -> int:
        """Remove segments from the tier that neither the log's snapshots nor the tier's name."""
        if forsaken:
            self._drop_snapshots(before=self._number)
        removed = 0
        for topic_id, stem in forsaken:
            if self.is_stopping:
                break
            directory = self._shelf.directory(topic_id)
            key = f"topics/{directory.rpartition('/')[2]}/{stem}"
            for kind in ("data", "idx", "tags"):
                self._tier.delete(f"{key}.{kind}")
            self._cold.forget(f"{key}.data")
            with contextlib.suppress(FileNotFoundError):
                self._fs.unlink(f"{directory}/{stem}.cold")
                self._fs.sync_dir(directory)
            removed += 1
        return removed


def _sealed(handle: Handle) -> list[Segment]:
    """Oldest first."""
    with handle.lock:
        runs = [span.run for span in handle.topic.spans]
    return [run for run in runs if isinstance(run, Segment)]


def _stub_of(state: str, data: memoryview) -> Stub:
    return Stub(state, len(data), f"{xxh3_64(data):016x}")


def _stem_key(segment: Segment) -> str:
    return segment.key.removesuffix(".data")
