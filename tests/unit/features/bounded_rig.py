"""A part with a bound beside one without, and what both must agree on."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

from penstock.codec.columns import Columns
from penstock.features.definition import Definition
from penstock.features.evicted_records import RecordCodec, keys_of
from penstock.features.part_memory import PartMemory
from penstock.features.table_part import TablePart
from penstock.features.table_plan import TablePlan
from penstock.projections.spill import SpillFolder
from penstock.storage.fs import Filesystem
from penstock.testing.fs import MemoryFilesystem
from tests.support import feature_history

FOLDER = "/p"
USERS = 40
KEYS = [(f"u{number}", band) for number in range(USERS) for band in (0, 1)]


def plan_of(cold_after: str | None) -> TablePlan:
    """Every operator, with and without a window."""
    return Definition.parse(feature_history.document(cold_after=cold_after)).plan("T")


def bounded(plan: TablePlan, bytes_max: int, fs: Filesystem | None = None) -> TablePart:
    files = MemoryFilesystem() if fs is None else fs
    return TablePart(plan, PartMemory(plan, SpillFolder(files, FOLDER), lambda _: bytes_max))


def memory_of(part: TablePart) -> PartMemory:
    if part.memory is None:
        raise TypeError("the part has no bound")
    return part.memory


def texts_of(chance: Random, count: int) -> list[bytes]:
    return list(feature_history.events(chance, count, keys=USERS))


def batch(texts: Sequence[bytes], first_seq: int = 1) -> Columns:
    count = len(texts)
    ends = np.cumsum([0, *map(len, texts)]).tolist()
    bits = np.packbits(np.ones(count, np.bool_), bitorder="little").tobytes()
    seqs = np.arange(first_seq, first_seq + count).astype("<u8").tobytes()
    tss = np.full(count, feature_history.START_MS).astype("<u8").tobytes()
    data = struct.pack(f"<{count + 1}I", *ends), b"".join(texts), bits
    return Columns(count, seqs, tss, None, None, None, data)


def pieces_of(part: TablePart) -> list[bytes]:
    return [bytes(piece) for piece in part.snapshot()]


def restored(part: TablePart, pieces: Sequence[bytes]) -> TablePart:
    """The same part, which is empty."""
    part.restore([memoryview(piece) for piece in pieces])
    return part


def states_of(part: TablePart, pieces: Sequence[bytes]) -> dict[bytes, bytes]:
    """The whole state of each key in a snapshot that is not cold, bit by bit. The part is empty."""
    whole = restored(part, pieces)
    cold_after_ms = whole.plan.cold_after_ms
    codec = RecordCodec(whole._features, has_times=cold_after_ms is not None)
    piece = whole._piece(whole._keys.slots(), whole._events.largest)
    words, starts = codec.encode(piece)
    keys = keys_of(piece["keys"]["sizes"], piece["keys"]["keys"])
    times = whole._keys.times_of(whole._keys.slots()).tolist() or [now_of(whole)] * len(keys)
    oldest = now_of(whole) - (cold_after_ms or 0)
    return {
        key: words[start:end].tobytes()
        for key, (start, end), time in zip(keys, pairwise(starts), times, strict=True)
        if time >= oldest
    }


def check_equal(part: TablePart, other: TablePart, now_ms: int) -> None:
    """Do they have the same rows, and the same state?"""
    assert part.rows(KEYS, now_ms) == other.rows(KEYS, now_ms)
    assert part.counters == other.counters
    assert part.largest_time == other.largest_time
    plan = part.plan
    found = states_of(TablePart(plan), pieces_of(part))
    assert found == states_of(TablePart(plan), pieces_of(other))


def now_of(part: TablePart) -> int:
    return part.largest_time or feature_history.START_MS


Rows = list[dict[str, Any] | None]
