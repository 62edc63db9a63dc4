"""Records column by column, laid out as Arrow has them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.codec import kernel
from penstock.errors import InvalidArgument
from penstock.types import Gap, Offset, TagMatch

NODE: Final = 1
TAG: Final = 2
META: Final = 4
DATA: Final = 8

NAMES: Final = {"node": NODE, "tag": TAG, "meta": META, "data": DATA}

Text = tuple[bytes, bytes, bytes]
"""Offsets of 4 bytes, one more than there are records; the bytes; a bit for each that has one."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Some records. Numbers are 8 bytes each; a text that was not asked for is None."""

    count: int
    seqs: bytes
    tss: bytes
    node: Text | None
    tag: Text | None
    meta: Text | None
    data: Text | None


NO_COLUMNS: Final = Columns(0, b"", b"", None, None, None, None)


def bits_of(columns: int | Sequence[str]) -> int:
    """The sum of the bits of these columns, which are given by name or as that sum."""
    if isinstance(columns, int):
        if 0 <= columns <= sum(NAMES.values()):
            return columns
    elif isinstance(columns, (list, tuple)) and all(name in NAMES for name in columns):
        return sum(NAMES[name] for name in {*columns})
    raise InvalidArgument(
        f"invalid columns {columns!r}: expected names among {', '.join(NAMES)}, or their bits"
    )


@dataclass(frozen=True, slots=True)
class ColumnsPage:
    """One read. Pass `next_seq` as the next `after`: it is the last seq that was looked at."""

    columns: Columns
    gap: Gap | None
    next_seq: int
    head_seq: int
    earliest_seq: int
    caught_up: bool
    epoch: int

    @property
    def offset(self) -> Offset:
        """What was looked at so far."""
        return Offset(self.epoch, self.next_seq)


def columns_of(
    frames: bytes | bytearray | memoryview,
    table: bytes | bytearray | memoryview,
    stride: int,
    start: int,
    stop: int,
    dead: bytearray | None,
    records_max: int,
    bytes_max: int,
    wanted: int,
    *,
    first_seq: int,
    topic_id: int,
    match: TagMatch | None = None,
) -> tuple[Columns, int, int]:
    """Live records at start..stop-1, every one verified: (them, next index, status). A status is
    why the record at that index cannot be given."""
    count, at, status, seqs, tss, texts = kernel.columns(
        frames,
        table,
        stride,
        start,
        stop,
        dead,
        records_max,
        bytes_max,
        wanted,
        first_seq,
        topic_id,
        None if match is None else match.value,
        match is not None and match.is_prefix,
    )
    return Columns(count, seqs, tss, *texts), at, status
