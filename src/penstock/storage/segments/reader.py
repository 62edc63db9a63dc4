"""A sealed segment, read through its mapped files. Every frame is verified when it is read.

The index and the tag sidecar are derived: when one is damaged it is rebuilt from the data, and
`needs_rewrite` asks for a fresh copy on disk.
"""

from __future__ import annotations

from penstock.codec import kernel
from penstock.codec.columns import Columns, columns_of
from penstock.codec.frame import FrameType
from penstock.codec.projection_options import VERIFY
from penstock.errors import ColdUnavailable, CorruptFrame
from penstock.storage.fs import Filesystem
from penstock.storage.segments import format as layout
from penstock.storage.segments.format import STRIDE, IndexView, SegmentFacts, TagView
from penstock.storage.segments.maps import MapCache
from penstock.storage.tiers.cold import Cold
from penstock.types import TagMatch

_REASONS = {
    1: "a frame overruns the file",
    2: "checksum differs",
    3: "malformed frame",
    4: "the frame belongs to another record",
}
_NOWHERE = (1 << 32).to_bytes(STRIDE, "little")  # length 1: shorter than any frame
_TS_AT = 8  # in an index entry
_HINT = "run `penstock fsck` on the data directory, then `penstock repair`"


def indices_alive(start: int, stop: int, dead: bytearray | None) -> list[int]:
    """Indices in start..stop-1 that are not marked in the bitmap."""
    bits = int.from_bytes(dead or b"", "little")
    return [index for index in range(start, stop) if not bits >> index & 1]


class _Entries:
    """Index entries, from the file or rebuilt."""

    __slots__ = ("rows",)

    def __init__(self, rows: memoryview) -> None:
        self.rows = rows


class Segment:
    """Immutable except for lazily opened views; readable from any thread."""

    is_sealed = True
    mark = None  # it takes no more records

    def __init__(
        self,
        fs: Filesystem,
        maps: MapCache,
        directory: str,
        topic_id: int,
        log_id: bytes,
        facts: SegmentFacts,
        cold: Cold | None = None,
    ) -> None:
        self._fs = fs
        self._cold = cold
        self._maps = maps
        self._topic_id = topic_id
        self._log_id = log_id
        self.facts = facts
        self.stem = f"{directory}/{facts.stem}"
        self.needs_rewrite = False
        self.must_rewrite = False  # `repair` found damage in its data
        self.is_unreadable = False  # a rewrite met damage: wait for `repair`
        self.is_cold = False  # as far as is known: its data went to the cold tier

    @property
    def last_ts(self) -> int:
        return self.facts.last_ts

    @property
    def data_path(self) -> str:
        return f"{self.stem}.data"

    # Views.

    @property
    def key(self) -> str:
        """The key of its data in a cold tier."""
        return "/".join(self.data_path.rsplit("/", 3)[1:])

    @property
    def stub_path(self) -> str:
        """The stub file, which has the state of its move to the cold tier."""
        return f"{self.stem}.cold"

    def data(self) -> memoryview:
        """The mapped frames of the file; missing ones are detected when they are read."""
        path = self.data_path
        try:
            size = self._fs.size(path)
            view = self._maps.get(path, memoryview, lambda: self._fs.map(path))
            if len(view) > size:  # cut since it was mapped: to touch the rest would kill us
                self._maps.forget(path)
                view = self._maps.get(path, memoryview, lambda: self._fs.map(path))
        except FileNotFoundError:
            return self._cold_data()
        return view

    def _cold_data(self) -> memoryview:
        path = self.data_path
        if not self._fs.exists(self.stub_path):
            raise CorruptFrame(path, reason="the file is missing", hint=_HINT)
        if self._cold is None:
            raise ColdUnavailable(
                path,
                reason="it is in the cold tier, whose address is unknown",
                hint="open the log with its cold_dir",
            )
        return self._cold.data(self.key)

    def entries(self) -> memoryview:
        path = f"{self.stem}.idx"
        return self._maps.get(path, _Entries, self._load_entries).rows

    def prepare(self, *, tags: bool) -> None:
        """Load the index, so that finding records needs no data. Raises ColdUnavailable."""
        self.entries()
        if tags and self.facts.tags_bytes:
            self._maps.get(f"{self.stem}.tags", TagView, self._load_tags)

    def check_index(self) -> IndexView:
        """The index file; ValueError when it is not the one that was sealed."""
        try:
            view, checksum = layout.decode_index(self._fs.map(f"{self.stem}.idx"))
        except OSError as error:
            raise ValueError(f"index cannot be read: {error.strerror}") from None
        mine = (self._topic_id, self.facts.first, self.facts.count, self._log_id)
        if checksum != self.facts.index_sum or mine != (
            view.topic_id,
            view.first,
            view.count,
            view.log_id,
        ):
            raise ValueError("index belongs to another segment")
        return view

    def check_tags(self) -> TagView | None:
        """The sidecar file; None when no record is tagged."""
        if not self.facts.tags_bytes:
            return None
        try:
            buffer = self._fs.map(f"{self.stem}.tags")
        except OSError as error:
            raise ValueError(f"tag sidecar cannot be read: {error.strerror}") from None
        if len(buffer) != self.facts.tags_bytes:
            raise ValueError("tag sidecar has the wrong length")
        view = TagView(buffer)
        if view.owner != (self._topic_id, self.facts.first, self._log_id):
            raise ValueError("tag sidecar belongs to another segment")
        return view

    # Reading.

    def project(
        self,
        start: int,
        stop: int,
        dead: bytearray | None,
        nodes: list[bytes] | None,
        limit: int,
        budget: int,
        options: int,
        match: TagMatch | None = None,
    ) -> tuple[bytes, int, int]:
        """Live records in start..stop-1, as the options say: (bytes, delivered, next index)."""
        data = self.data()
        text, delivered, at, status = kernel.project(
            data,
            self.entries(),
            STRIDE,
            start,
            stop,
            dead,
            nodes,
            limit,
            budget,
            options | VERIFY,
            self.facts.first,
            self._topic_id,
            None if match is None else match.value,
            match is not None and match.is_prefix,
        )
        if status and not delivered:
            raise self._corrupt(at, status)
        return text, delivered, at

    def columns(
        self,
        start: int,
        stop: int,
        dead: bytearray | None,
        records_max: int,
        bytes_max: int,
        wanted: int,
        first_seq: int,
        match: TagMatch | None = None,
    ) -> tuple[Columns, int]:
        """Live records in start..stop-1, column by column: (them, next index)."""
        found, at, status = columns_of(
            self.data(),
            self.entries(),
            STRIDE,
            start,
            stop,
            dead,
            records_max,
            bytes_max,
            wanted,
            first_seq=first_seq,
            topic_id=self._topic_id,
            match=match,
        )
        if status and not found.count:
            raise self._corrupt(at, status)
        return found, at

    def reset(self, mark: None) -> None:
        """Does nothing: a segment is immutable."""

    def measure(self, start: int, stop: int, dead: bytearray | None) -> tuple[int, int]:
        return kernel.measure(b"", self.entries(), STRIDE, start, stop, dead)

    def measure_some(self, indices: bytes) -> int:
        return kernel.measure_some(b"", self.entries(), STRIDE, indices)

    def find_tags(
        self, start: int, stop: int, dead: bytearray | None, value: bytes, *, is_prefix: bool
    ) -> bytes:
        """Indices (u32 array) of live records in start..stop-1, without reading any data."""
        if not self.facts.tags_bytes:
            return b""
        path = f"{self.stem}.tags"
        found = self._maps.get(path, TagView, self._load_tags).find(value, is_prefix=is_prefix)
        return kernel.filter_indices(found, start, stop, dead)

    def older_than(self, start: int, stop: int, ts: int) -> int:
        return max(start, kernel.ts_bound(self.entries(), stop, ts))

    def ts_of(self, index: int) -> int:
        """The commit time from the index; 0 when the index is damaged and cannot be rebuilt."""
        at = index * STRIDE + _TS_AT
        return int.from_bytes(self.entries()[at : at + 8], "little")

    def unreadable(self, start: int, stop: int, dead: bytearray | None) -> list[int]:
        """Indices of live records whose frames are damaged."""
        found: list[int] = []
        try:
            data = self.data()
        except CorruptFrame:
            return indices_alive(start, stop, dead)
        entries = self.entries()
        at = start
        while at < stop:
            _, _, at, status = kernel.project(
                data,
                entries,
                STRIDE,
                at,
                stop,
                dead,
                None,
                stop,
                1 << 40,
                VERIFY,
                self.facts.first,
                self._topic_id,
            )
            if status:
                found.append(at)
                at += 1
        return found

    def copy_live(
        self, start: int, stop: int, dead: bytearray | None, base: int
    ) -> tuple[bytes, bytes]:
        """Frames and index entries for a rewrite. Everything is verified first: damage must not be
        copied."""
        bad = self.unreadable(start, stop, dead)
        if bad:
            raise self._corrupt(bad[0], 2)
        return kernel.copy_live(self.data(), self.entries(), STRIDE, start, stop, dead, base)

    def group_tags(
        self,
        start: int,
        stop: int,
        dead: bytearray | None,
        base: int,
        groups: dict[bytes, bytearray],
    ) -> None:
        kernel.group_tags(self.data(), self.entries(), STRIDE, start, stop, dead, base, groups)

    # Rebuilding.

    def _load_entries(self) -> _Entries:
        try:
            return _Entries(self.check_index().entries)
        except ValueError:
            self.needs_rewrite = True
        try:
            return _Entries(memoryview(self.rebuild_entries()))
        except CorruptFrame:
            return _Entries(memoryview(self._salvage_entries()))

    def rebuild_entries(self) -> bytes:
        """The index rebuilt from the data; CorruptFrame when the data is damaged, too."""
        data = self.data()
        entries = bytearray(self.facts.count * STRIDE)
        stop, reason = self._collect(data, 0, entries)
        if reason or stop != self.facts.data_bytes:
            text = _REASONS.get(reason, f"has {len(data)} bytes, not {self.facts.data_bytes}")
            raise CorruptFrame(self.place(), offset=stop, reason=text, hint=_HINT)
        return bytes(entries)

    def _salvage_entries(self) -> bytes:
        """Entries of the frames that can be found. The other entries are invalid, so that reading
        one reports the damage instead of skipping it."""
        entries = bytearray(_NOWHERE * self.facts.count)
        try:
            data = self.data()
        except CorruptFrame:
            return bytes(entries)
        at = 0
        while at >= 0:
            stop, _ = self._collect(data, at, entries)
            at = kernel.resync(data, max(stop, at + 1), len(data))
        return bytes(entries)

    def _collect(self, data: memoryview, at: int, entries: bytearray) -> tuple[int, int]:
        """Add the valid frames from `at` on; returns where and why they end."""
        items, stop, reason = kernel.scan(data, at, len(data))
        for kind, topic_id, seq, _, start, end, count, _, offsets, _ in items:
            index = seq - self.facts.first
            if (
                kind != FrameType.APPEND
                or topic_id != self._topic_id
                or not 0 <= index <= self.facts.count - count
            ):
                return start, 4
            rows = kernel.build_index(data[start:end], offsets, count, start)
            entries[index * STRIDE : (index + count) * STRIDE] = rows
        return stop, reason

    def _load_tags(self) -> TagView:
        try:
            view = self.check_tags()
        except ValueError:
            view = None
        if view is None:
            self.needs_rewrite = True
            groups: dict[bytes, bytearray] = {}
            kernel.group_tags(
                self.data(), self.entries(), STRIDE, 0, self.facts.count, None, 0, groups
            )
            built = layout.encode_tags(
                groups, topic_id=self._topic_id, first=self.facts.first, log_id=self._log_id
            )
            view = TagView(memoryview(built))
        return view

    def _corrupt(self, at: int, status: int) -> CorruptFrame:
        row = self.entries()[at * STRIDE : at * STRIDE + 4]
        offset = int.from_bytes(row, "little")
        reason = f"{_REASONS.get(status, 'damaged')} (seq {self.facts.first + at})"
        return CorruptFrame(self.place(), offset=offset, reason=reason, hint=_HINT)

    def place(self) -> str:
        """The location of its data, for messages."""
        if self._cold is None or self._fs.exists(self.data_path):
            return self.data_path
        return f"{self._cold.tier.where}/{self.key}"
