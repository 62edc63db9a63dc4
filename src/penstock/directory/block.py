"""The newest records of a topic: their WAL bytes, still in memory."""

from __future__ import annotations

from penstock.codec import kernel
from penstock.codec.columns import Columns, columns_of
from penstock.entries import RecordsAppended
from penstock.topics.spans import Run
from penstock.types import TagMatch

_ROOM_MIN = 512
_ROOM_MAX = 256 * 1024
ALONE_BYTES = 16 * 1024  # a batch this large is kept as it is instead of being copied
_STRIDE = 4


class Block:
    """A run of frames. Bytes below `used` never change, so readers need no lock; only the
    topic's writer extends it, under the topic's lock."""

    __slots__ = ("count", "first_ts", "frames", "is_open", "last_ts", "offsets", "topic_id", "used")

    is_sealed = False

    def __init__(self, entry: RecordsAppended, room: int) -> None:
        self.topic_id = entry.topic_id
        self.first_ts = entry.first_ts
        self.last_ts = entry.last_ts
        self.count = entry.count
        self.used = len(entry.frames)
        self.is_open = room > self.used
        self.frames: bytes | bytearray | memoryview = entry.frames
        self.offsets: bytes | bytearray = entry.offsets
        if self.is_open:
            self.frames = bytearray(room)
            self.frames[: self.used] = entry.frames
            self.offsets = bytearray(entry.offsets)

    def extend(self, entry: RecordsAppended) -> bool:
        """Add the next records if there is room for them."""
        used = self.used
        end = used + len(entry.frames)
        frames = self.frames
        if not self.is_open or end > len(frames) or type(frames) is not bytearray:
            self.is_open = False
            return False
        frames[used:end] = entry.frames
        count = entry.count
        more = (
            used.to_bytes(4, "little") if count == 1 else kernel.shift_offsets(entry.offsets, used)
        )
        try:
            self.offsets += more
        except BufferError:  # a reader holds a view of it: leave that one to the reader
            self.offsets = bytearray(self.offsets) + more
        self.used = end
        self.count += count
        self.last_ts = entry.last_ts
        return True

    @property
    def mark(self) -> tuple[int, int, int]:
        return self.used, self.count, self.last_ts

    def reset(self, mark: tuple[int, int, int]) -> None:
        self.used, self.count, self.last_ts = mark
        # Bytes after `used` are unused. Offsets are: a copy, since a reader may hold a view.
        self.offsets = bytearray(self.offsets[: _STRIDE * self.count])

    def close(self) -> None:
        """Close the block: it accepts no more records."""
        self.is_open = False

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
        text, delivered, at, status = kernel.project(
            self.frames,
            self.offsets,
            _STRIDE,
            start,
            stop,
            dead,
            nodes,
            limit,
            budget,
            options,
            0,
            self.topic_id,
            None if match is None else match.value,
            match is not None and match.is_prefix,
        )
        if status:
            raise AssertionError(("a frame in memory is malformed", status, at))
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
        """Live records in start..stop-1 of the block whose first seq is `first_seq`: (them, next
        index)."""
        found, at, status = columns_of(
            self.frames,
            self.offsets,
            _STRIDE,
            start,
            stop,
            dead,
            records_max,
            bytes_max,
            wanted,
            first_seq=first_seq,
            topic_id=self.topic_id,
            match=match,
        )
        if status:
            raise AssertionError(("a frame in memory is malformed", status, at))
        return found, at

    def measure(self, start: int, stop: int, dead: bytearray | None) -> tuple[int, int]:
        return kernel.measure(self.frames, self.offsets, _STRIDE, start, stop, dead)

    def measure_some(self, indices: bytes) -> int:
        return kernel.measure_some(self.frames, self.offsets, _STRIDE, indices)

    def find_tags(
        self, start: int, stop: int, dead: bytearray | None, value: bytes, *, is_prefix: bool
    ) -> bytes:
        return kernel.find_tags(
            self.frames, self.offsets, _STRIDE, start, stop, dead, value, is_prefix
        )

    def older_than(self, start: int, stop: int, ts: int) -> int:
        low, high = start, stop
        while low < high:
            middle = (low + high) // 2
            if self.ts_of(middle) < ts:
                low = middle + 1
            else:
                high = middle
        return low

    def ts_of(self, index: int) -> int:
        return kernel.frame_ts(self.frames, self.offsets, _STRIDE, index)

    def copy_live(
        self, start: int, stop: int, dead: bytearray | None, base: int
    ) -> tuple[bytes | memoryview, bytes]:
        """Frames and index entries for a segment in which this part begins at byte `base`."""
        if dead is None and start == 0 and stop == self.count:
            frames = memoryview(self.frames)[: self.used]
            return frames, kernel.build_index(frames, self.offsets, stop, base)
        return kernel.copy_live(self.frames, self.offsets, _STRIDE, start, stop, dead, base)

    def group_tags(
        self,
        start: int,
        stop: int,
        dead: bytearray | None,
        base: int,
        groups: dict[bytes, bytearray],
    ) -> None:
        kernel.group_tags(self.frames, self.offsets, _STRIDE, start, stop, dead, base, groups)


def place(entry: RecordsAppended, tail: Run | None) -> tuple[Run, bool]:
    """Where new records go: into the open block at the end, or a new one."""
    size = len(entry.frames)
    if isinstance(tail, Block):
        if size < ALONE_BYTES and tail.extend(entry):
            return tail, False
        tail.close()
    if size >= ALONE_BYTES:
        return Block(entry, 0), True
    room = _ROOM_MIN if not isinstance(tail, Block) else min(tail.used * 2, _ROOM_MAX)
    return Block(entry, max(room, size * 4)), True
