"""Move old segments to the cold tier, and forget there what the log has forgotten.

For each segment: a stub that says `copying`, the copy, a stub that says `cold`, and only then does
the data go from here. Index and tags stay, so that finding and deleting records needs no cold
read. Every file in the tier has a stub here from before it came until after it went, so nothing
there is ever forgotten and nothing has to be listed. The data here counts as long as it is here.

Nothing of this happens under a lock of the log, and no failure here is one of the log: what could
not be moved is tried again.
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
from penstock.engine import capture
from penstock.engine import layout as layouts
from penstock.engine.capture import Body
from penstock.engine.handle import Handle
from penstock.engine.layout import Layout
from penstock.engine.segments import SegmentShelf
from penstock.errors import CorruptFrame, StorageError
from penstock.storage import atomic, snapshots
from penstock.storage.fs import Filesystem
from penstock.storage.segments.reader import Segment
from penstock.storage.tiers.cold import Cold
from penstock.topics.tiering import going

Named = dict[int, set[str]]
Progress = Callable[[int, int], None]
_log = logging.getLogger("penstock.cold")


class Stub(msgspec.Struct, frozen=True):
    """How far a segment has come. The sum is that of its data."""

    state: str  # copying | cold
    data_bytes: int
    data_sum: str


@dataclass(frozen=True, slots=True)
class ColdReport:
    """What one pass did."""

    segments_moved: int = 0
    bytes_moved: int = 0
    segments_removed: int = 0


class Mover:
    """One pass at a time, on whatever thread."""

    def __init__(
        self,
        fs: Filesystem,
        layout: Layout,
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
        self._names: tuple[Named, Named | None] | None = None  # as `named` got them
        self._told: bytes | None = None  # the body of the newest snapshot in the tier
        self._number = 0
        self._lock = threading.Lock()
        self.is_stopping = False
        self.moved_total = 0
        self.failures_total = 0
        self.trouble = ""  # why the last pass failed; empty when it did not

    def named(self, newest: Named, both: Named | None) -> None:
        """Called after each checkpoint: what the newest snapshot names, and what the newest two
        name, if that is known yet."""
        self._names = newest, both

    def beat(self) -> None:
        """A pass that never raises."""
        try:
            self.run()
        except (OSError, StorageError) as error:
            if str(error) != self.trouble:
                _log.warning("moving to the cold tier failed, and is tried again: %s", error)
            self.trouble = str(error)
            self.failures_total += 1
        except Exception as bug:  # noqa: BLE001 - a silent death would keep everything hot
            _log.exception("moving to the cold tier met a bug")
            self.trouble = repr(bug)
            self.failures_total += 1

    def run(self, progress: Progress = lambda done, total: None) -> ColdReport:
        """Move what is old, tell the tier what it has, remove what is gone. OSError,
        ColdUnavailable; what was done until then stays done."""
        with self._lock:
            if self._names is None:
                return ColdReport()
            newest, kept = self._names
            chosen = self._chosen(newest)
            moved = moved_bytes = 0
            for done, segment in enumerate(chosen):
                progress(done, len(chosen))
                if self.is_stopping:
                    break
                if self._move(segment):
                    moved += 1
                    moved_bytes += segment.facts.data_bytes
                    self.moved_total += 1
            progress(len(chosen), len(chosen))
            self._tell()
            removed = 0 if kept is None else self._forget(kept)
            self.trouble = ""
            return ColdReport(moved, moved_bytes, removed)

    # Choosing.

    def _chosen(self, newest: Named) -> list[Segment]:
        """Oldest first, and only what the newest snapshot names: others may be sealed anew."""
        found: list[Segment] = []
        for handle in self._handles():
            with handle.lock:
                runs = [span.run for span in handle.topic.spans]
            segments = [run for run in runs if isinstance(run, Segment)]
            sizes = [segment.facts.data_bytes for segment in segments]
            count = going(sizes, segments_kept=self._segments_kept, bytes_kept=self._bytes_kept)
            stems = newest.get(handle.topic.id, set())
            for segment in segments[:count]:
                if segment.is_cold or segment.is_unreadable or segment.needs_rewrite:
                    continue
                if segment.facts.stem in stems:
                    found.append(segment)
        return found

    # Moving.

    def _move(self, segment: Segment) -> bool:
        """False when it is damaged, or was dropped meanwhile."""
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
        self._cold.claim()
        stub = Stub("cold", len(data), f"{xxh3_64(data):016x}")
        if self._stub(segment) != stub or not self._is_there(segment):
            self._note(segment, msgspec.structs.replace(stub, state="copying"))
            for kind in ("tags", "idx"):
                if kind == "idx" or segment.facts.tags_bytes:
                    self._tier.put(f"{_stem_key(segment)}.{kind}", [self._bytes(segment, kind)])
            self._tier.put(segment.key, [data])
            self._cold.forget(segment.key)
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

    def _bytes(self, segment: Segment, kind: str) -> bytes:
        return bytes(self._fs.map(f"{segment.stem}.{kind}"))

    def _stub(self, segment: Segment) -> Stub | None:
        try:
            return msgspec.json.decode(bytes(self._fs.map(segment.stub_path)), type=Stub)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def _note(self, segment: Segment, stub: Stub) -> None:
        atomic.write_whole(self._fs, segment.stub_path, [msgspec.json.encode(stub) + b"\n"])
        self._fs.sync_dir(segment.stub_path.rpartition("/")[0])

    # Telling the tier what it has.

    def _tell(self) -> None:
        """A snapshot of its own, so that it can be read where nothing else is left."""
        parts = []
        for handle in self._handles():
            with handle.lock:
                parts.append(capture.capture_cold(handle.topic))
        if self._told is None and not any(True for _ in self._shelf.stubs()):
            return  # nothing is there
        body = capture.encode(Body(self._next_topic_id(), {}, parts))
        if body == self._told:
            return
        self._cold.claim()
        if self._told is None:
            names = [key.rpartition("/")[2] for key in self._tier.list("meta")]
            self._number = max((snapshots.number_of(name) or 0 for name in names), default=0)
            self._tier.put(layouts.FORMAT_NAME, [layouts.encode(self._layout)])
        number = self._number + 1
        head = snapshots.encode_head(number, self._layout.log_id, body)
        self._tier.put(snapshots.path_of("meta", number), [head, body])
        self._number, self._told = number, body
        for key in self._tier.list("meta"):
            held = snapshots.number_of(key.rpartition("/")[2])
            if held is not None and held <= number - snapshots.KEEP:
                self._tier.delete(key)

    # Forgetting.

    def _forget(self, kept: Named) -> int:
        """Remove from the tier what no snapshot names any more."""
        removed = 0
        for topic_id, stem in list(self._shelf.stubs()):
            if stem in kept.get(topic_id, set()):
                continue
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


def _stem_key(segment: Segment) -> str:
    return segment.key.removesuffix(".data")
