"""Cut a topic into slices, and read them."""

from __future__ import annotations

import struct

import msgspec

from penstock.codec.columns import DATA, NODE, TAG, Columns
from penstock.directory.directory_view import look
from penstock.directory.slice_reader import SliceOptions, SliceReader
from penstock.directory.slices import Cut, Slice, cut
from penstock.engine.engine import Log
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import ROOT
from penstock.types import Gap

WANTED = SliceOptions(NODE | TAG | DATA)
Row = tuple[int, int, bytes]


def cut_up(
    fs: MemoryFilesystem, topic: str = "t", *, after: int = 0, last: int = 1 << 40, most: int = 1000
) -> Cut:
    view = look(ROOT, fs=fs, clock=FakeClock())
    found = view.topic(topic)
    assert found is not None
    return cut(view, found, after=after, last=last, records_max=most)


def rows(found: Columns) -> list[Row]:
    """(seq, ts, data) of each."""
    assert found.data is not None
    offsets, data, _ = found.data
    places = struct.unpack(f"<{found.count + 1}I", offsets)
    numbers = zip(
        struct.unpack(f"<{found.count}Q", found.seqs),
        struct.unpack(f"<{found.count}Q", found.tss),
        strict=True,
    )
    return [
        (seq, ts, bytes(data[places[i] : places[i + 1]])) for i, (seq, ts) in enumerate(numbers)
    ]


def read(fs: MemoryFilesystem, parts: list[Slice], wanted: SliceOptions = WANTED) -> list[Row]:
    reader = SliceReader(fs)
    return [row for part in parts for found in reader.read(part, wanted) for row in rows(found)]


def everything(log: Log, topic: str = "t") -> tuple[list[Row], list[Gap]]:
    records, gaps, after = [], [], 0
    while True:
        page = log.read(topic, after)
        if page.gap is not None:
            gaps.append(page.gap)
        records += [(r.seq, r.ts, msgspec.json.encode(r.data)) for r in page.records]
        if page.caught_up:
            return [(seq or 0, ts or 0, data) for seq, ts, data in records], gaps
        after = page.next_seq


def numbered(log: Log, count: int) -> None:
    log.append("t", list(range(count)))
    log.sync()
