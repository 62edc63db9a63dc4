"""The format of a segment file: its head and its frames, and the scan that skips damage.

A segment is a head of two records, then frames, then zeros. Before each frame are the four bytes of
its *place*, a checksum of this file's identity and the offset. After damage only a frame with a
valid place counts, so that a frame inside a payload is not mistaken for a frame of the spool. No
I/O; `segment_files` writes the files.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from google_crc32c import extend, value

from penstock.wire.spool_frame import FRAME_HEAD_BYTES, FRAME_MAGIC, read_frame

VERSION: Final = 1
INCARNATION_BYTES: Final = 16
_MAGIC: Final = b"PSsg"
_NO_BASE: Final = (1 << 64) - 1  # a preallocated file without a frame
# magic, version, flags, base fsn, created µs, incarnation, number
_RECORD: Final = struct.Struct("<4sHHQQ16sQ12x")
_SUM: Final = struct.Struct("<I")
RECORD_BYTES: Final = _RECORD.size + _SUM.size
HEAD_BYTES: Final = 2 * RECORD_BYTES  # without a base, then with it
PLACE_BYTES: Final = 4
FRAME_EXTRA_BYTES: Final = PLACE_BYTES + FRAME_HEAD_BYTES  # bytes of a frame besides its payload
_PLACE: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")

_NAME: Final = re.compile(r"sf-([0-9a-f]{16})\.seg")


def name_of(number: int) -> str:
    """The name of a segment file. Segments are numbered without gaps."""
    return f"sf-{number:016x}.seg"


def number_of(name: str) -> int | None:
    found = _NAME.fullmatch(name)
    return int(found[1], 16) if found else None


class UnknownVersion(ValueError):
    """The head is valid and of a later format."""


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a segment. `base` is the number of its first frame; None: preallocated."""

    number: int
    incarnation: bytes
    created_us: int
    base: int | None = None

    def encode(self) -> bytes:
        base = _NO_BASE if self.base is None else self.base
        body = _RECORD.pack(
            _MAGIC, VERSION, 0, base, self.created_us, self.incarnation, self.number
        )
        return body + _SUM.pack(value(body))

    @property
    def seed(self) -> int:
        """The initial checksum of the places in this segment."""
        return int(value(self.incarnation + _U64.pack(self.number)))


def place_of(seed: int, offset: int, head: bytes) -> bytes:
    """The place at `offset` of the frame with this head."""
    return _PLACE.pack(extend(seed, _U64.pack(offset) + head))


def decode_head(data: bytes) -> Head | None:
    """Decode the head from either record. None when both are damaged."""
    preallocated = _decode_record(data[:RECORD_BYTES])
    used = _decode_record(data[RECORD_BYTES:HEAD_BYTES])
    return used or preallocated


def _decode_record(data: bytes) -> Head | None:
    if len(data) < RECORD_BYTES:
        return None
    body = data[: _RECORD.size]
    (checksum,) = _SUM.unpack_from(data, _RECORD.size)
    magic, version, flags, base, created_us, incarnation, number = _RECORD.unpack(body)
    if magic != _MAGIC or checksum != value(body):
        return None
    if version != VERSION or flags:
        raise UnknownVersion(f"segment format {version}, flags {flags}")
    return Head(number, incarnation, created_us, None if base == _NO_BASE else base)


class Found(NamedTuple):
    """An intact frame. `offset` and `length` are without its place."""

    fsn: int
    offset: int
    length: int


class Frames:
    """The intact frames of a segment, in the order of their numbers. Eight bytes per frame, because
    a full spool may have a hundred million."""

    __slots__ = ("_runs", "lengths", "offsets")

    def __init__(self, found: Iterable[Found] = ()) -> None:
        self.offsets = array("I")
        self.lengths = array("I")
        self._runs: list[tuple[int, int]] = []  # place in the arrays and number of a run's first
        expected = -1
        for fsn, offset, length in found:
            if fsn != expected:
                self.begin_run(fsn)
            self.offsets.append(offset)
            self.lengths.append(length)
            expected = fsn + 1

    def begin_run(self, fsn: int) -> None:
        """The next frame that is added to the arrays has this number."""
        self._runs.append((len(self.offsets), fsn))

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[Found]:
        for start, end, fsn in self._spans():
            places = zip(self.offsets[start:end], self.lengths[start:end], strict=True)
            for number, (offset, length) in enumerate(places, fsn):
                yield Found(number, offset, length)

    @property
    def first_fsn(self) -> int:
        """Only when there is a frame; so is `last_fsn`."""
        return self._runs[0][1]

    @property
    def last_fsn(self) -> int:
        start, fsn = self._runs[-1]
        return fsn + len(self.offsets) - 1 - start

    def laid_out(self, base: int) -> tuple[array[int], array[int]]:
        """Offsets and lengths of all frames from `base` to the last, 0 for missing ones. If none is
        missing, the arrays are not copied."""
        if not self._runs or (len(self._runs) == 1 and self.first_fsn == base):
            return self.offsets, self.lengths
        offsets, lengths = array("I"), array("I")
        for start, end, fsn in self._spans():
            missing = bytes(max(0, fsn - base - len(offsets)) * offsets.itemsize)
            offsets.frombytes(missing)
            lengths.frombytes(missing)
            offsets += self.offsets[start:end]
            lengths += self.lengths[start:end]
        return offsets, lengths

    def _spans(self) -> Iterator[tuple[int, int, int]]:
        """The start and end of each run in the arrays, and its first number."""
        for (start, fsn), (end, _) in pairwise([*self._runs, (len(self.offsets), 0)]):
            yield start, end, fsn


@dataclass(frozen=True, slots=True)
class DamagedBytes:
    """Bytes without an intact frame, and the numbers of the lost frames. `first_fsn` is None when
    it is unknown; no frame is lost when `last_fsn` is below `first_fsn`."""

    offset: int
    length: int
    first_fsn: int | None
    last_fsn: int


@dataclass(slots=True)
class SegmentScan:
    """The result of a scan."""

    frames: Frames = field(default_factory=Frames)
    damage: list[DamagedBytes] = field(default_factory=list)
    end: int = HEAD_BYTES  # the end of the last intact frame
    torn_bytes: int = 0  # after `end`, up to the last byte that is not zero


def scan(data: bytes, head: Head) -> SegmentScan:
    """Scan the frames of a segment file. Damage ends at the next intact frame with a valid place
    and a greater number. Linear: the place covers the frame's head, so the scan uses no length that
    the spool did not write."""
    result = SegmentScan()
    seed = head.seed
    offsets, lengths = result.frames.offsets, result.frames.lengths
    at, expected = HEAD_BYTES, head.base
    while True:
        fsn_length = read_frame(data, at + PLACE_BYTES)
        # Right after an intact frame the expected number is enough, so a flipped bit in the place
        # costs no frame. After damage the place must be valid.
        if fsn_length is None or not (
            fsn_length[0] == expected
            or (_is_placed(data, at, seed) and _follows(fsn_length, expected))
        ):
            resumed = _resume(data, at + 1, seed, expected)
            if resumed is None:
                break
            at, fsn_length = resumed
        fsn, length = fsn_length
        if at > result.end or (expected is not None and fsn != expected):
            lost = DamagedBytes(result.end, at - result.end, expected, fsn - 1)
            result.damage.append(lost)
        if fsn != expected or not offsets:
            result.frames.begin_run(fsn)
        offsets.append(at + PLACE_BYTES)
        lengths.append(length)
        at += PLACE_BYTES + length
        result.end, expected = at, fsn + 1
    result.torn_bytes = len(data[result.end :].rstrip(b"\0"))
    return result


def walk_unplaced(data: bytes) -> Iterator[Found]:
    """The frames at the beginning of a segment with a damaged head."""
    at = HEAD_BYTES + PLACE_BYTES
    while (frame := read_frame(data, at)) is not None:
        yield Found(frame[0], at, frame[1])
        at += frame[1] + PLACE_BYTES


def _is_placed(data: bytes, at: int, seed: int) -> bool:
    if at + PLACE_BYTES + FRAME_HEAD_BYTES > len(data):
        return False
    head = data[at + PLACE_BYTES : at + PLACE_BYTES + FRAME_HEAD_BYTES]
    return data[at : at + PLACE_BYTES] == place_of(seed, at, head)


def _follows(frame: tuple[int, int], expected: int | None) -> bool:
    return expected is None or frame[0] >= expected


def _resume(
    data: bytes, start: int, seed: int, expected: int | None
) -> tuple[int, tuple[int, int]] | None:
    """The next valid place at or after `start`, and its frame."""
    magic_at = data.find(FRAME_MAGIC, start + PLACE_BYTES)
    while magic_at >= 0:
        at = magic_at - PLACE_BYTES
        if _is_placed(data, at, seed):
            frame = read_frame(data, magic_at)
            if frame is not None and _follows(frame, expected):
                return at, frame
        magic_at = data.find(FRAME_MAGIC, magic_at + 1)
    return None
