"""Parts of topics, cut here and read elsewhere."""

from __future__ import annotations

import struct

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from penstock.codec.columns import DATA, NODE, TAG, Columns
from penstock.directory.directory_view import look
from penstock.directory.slices import Cut, Slice, SliceOptions, SliceReader, cut, reach
from penstock.engine.engine import Log
from penstock.errors import CorruptFrame
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import ROOT, open_memory_log
from penstock.topics.spans import Span
from penstock.topics.topic import Topic
from penstock.types import Gap
from tests.support import workload
from tests.unit.engine.support import TOPICS, paths

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


def spans_of(log: Log, topic: str) -> list[Span]:
    return log.core.parts.handles[topic].topic.spans


def numbered(log: Log, count: int) -> None:
    log.append("t", list(range(count)))
    log.sync()


@hypothesis_settings(max_examples=60, deadline=None)
@given(steps=workload.steps, most=st.integers(1, 50))
def test_slices_hold_what_the_log_reads(steps: list[workload.Step], most: int) -> None:
    fs, clock = MemoryFilesystem(), FakeClock()
    log = open_memory_log(fs, clock, **workload.TIERED)
    for step in steps:
        workload.apply(log, step, clock.advance)
    log.sync()

    for info in log.topics():
        found = cut_up(fs, info.name, most=most)
        records, gaps = everything(log, info.name)
        assert read(fs, found.slices) == records
        assert [(g.first, g.last, g.reason) for g in found.gaps] == [
            (g.first, g.last, g.reason) for g in gaps
        ]
        assert sum(part.records for part in found.slices) == len(records)


@hypothesis_settings(max_examples=40, deadline=None)
@given(steps=workload.steps)
def test_a_cold_tier_alone_holds_the_beginning_of_each_topic(steps: list[workload.Step]) -> None:
    fs, clock = MemoryFilesystem(), FakeClock()
    log = open_memory_log(fs, clock, **workload.TIERED)
    log.append("a", list(range(50)))
    log.create("a", ttl_ms=0, cap_records=0)
    for step in [*steps, ("compact",), ("relocate",)]:
        workload.apply(log, step, clock.advance)
    assume(log.stats().cold_segments)

    view = look("/cold", fs=fs, clock=clock)

    for info in log.topics():
        topic = view.topic(info.name)
        if topic is None:  # nothing of it is cold
            assert not any(getattr(s.run, "is_cold", False) for s in spans_of(log, info.name))
            continue
        found = cut(view, topic, after=0, last=1 << 40, records_max=50)
        records, gaps = everything(log, info.name)
        assert read(fs, found.slices) == [row for row in records if row[0] <= topic.head]
        assert [(g.first, g.last, g.reason) for g in found.gaps] == [
            (g.first, min(g.last, topic.head), g.reason) for g in gaps if g.first <= topic.head
        ]
    log.close()


@hypothesis_settings(max_examples=40, deadline=None)
@given(steps=workload.steps, later=workload.steps)
def test_slices_of_a_log_that_goes_on_lose_nothing_unsaid(
    steps: list[workload.Step], later: list[workload.Step]
) -> None:
    """Whatever was cut is read later, or told as lost, or was deleted."""
    fs, clock = MemoryFilesystem(), FakeClock()
    log = open_memory_log(fs, clock, **workload.TIERED)
    for step in steps:
        workload.apply(log, step, clock.advance)
    log.sync()
    before = {info.name: (info.epoch, everything(log, info.name)[0]) for info in log.topics()}
    cuts = {name: cut_up(fs, name, most=7) for name in before}
    for step in later:
        workload.apply(log, step, clock.advance)
    log.sync()

    for name, (epoch, records) in before.items():
        lost: set[int] = set()
        reader = SliceReader(
            fs, on_loss=lambda _, first, last, __, lost=lost: lost.update(range(first, last + 1))
        )
        seen = [r for part in cuts[name].slices for c in reader.read(part, WANTED) for r in rows(c)]
        found = log.core.catalogue.find(name)
        still = everything(log, name)[0] if found and found.topic.epoch == epoch else []
        assert set(seen) <= set(records)
        assert seen == sorted(seen)
        assert {row for row in records if row in set(still)} <= set(seen)
        deleted = {row[0] for row in records} - {row[0] for row in seen} - lost
        assert not deleted & {row[0] for row in still}
        if not found or found.topic.epoch != epoch:
            assert {row[0] for row in records} <= {row[0] for row in seen} | lost


def test_a_range_is_cut_to_its_bounds() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    numbered(log, 10)

    found = cut_up(fs, after=3, last=8, most=2)

    assert [(part.first, part.last) for part in found.slices] == [(4, 5), (6, 7), (8, 8)]
    assert [row[0] for row in read(fs, found.slices)] == [4, 5, 6, 7, 8]


def test_a_gap_ends_where_the_range_does() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.create("t", cap_records=2)
    numbered(log, 10)

    found = cut_up(fs, after=1, last=5)

    assert [(gap.first, gap.last, gap.reason) for gap in found.gaps] == [(2, 5, "cap")]
    assert found.slices == []


def test_records_evicted_since_the_cut_are_an_error_unless_told() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    numbered(log, 10)
    parts = cut_up(fs).slices
    log.create("t", cap_records=4)
    log.sync()

    with pytest.raises(CorruptFrame, match=r"records 1 to 6 of topic t were lost .*\(cap\)"):
        read(fs, parts)


def damaged(fs: MemoryFilesystem, *texts: bytes) -> str:
    (path,) = paths(fs, TOPICS, ".data")
    file = fs.open(path, writable=True)
    for text in texts:
        file.write_at(b"?", bytes(fs.map(path)).index(text))
    file.close()
    return path


def test_damage_is_an_error_with_its_place() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [f"text {n}" for n in range(9)])
    log.compact()
    parts = cut_up(fs).slices
    path = damaged(fs, b"text 4")

    with pytest.raises(CorruptFrame, match=rf"{path} at byte \d+: checksum differs \(seq 5\)"):
        read(fs, parts)


def test_damaged_records_are_told_in_neighbours_and_left_out() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [f"text {n}" for n in range(9)])
    log.compact()
    parts = cut_up(fs).slices
    damaged(fs, b"text 2", b"text 3", b"text 7")
    told: list[tuple[int, int]] = []
    reader = SliceReader(fs, on_damage=lambda _, first, last, __: told.append((first, last)))

    seen = [row[0] for part in parts for found in reader.read(part, WANTED) for row in rows(found)]

    assert seen == [1, 2, 5, 6, 7, 9]
    assert told == [(3, 4), (8, 8)]


def test_reading_goes_on_elsewhere_when_a_segment_is_written_anew() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [f"text {n}" for n in range(100)])
    log.compact()
    parts = cut_up(fs).slices
    reader = SliceReader(fs)
    pages = reader.read(parts[0], SliceOptions(DATA, records_max=10))
    seen = rows(next(pages))
    log.delete("t", seqs=[50])
    log.compact()
    log.compact()

    seen += [row for found in pages for row in rows(found)]

    assert [row[0] for row in seen] in (
        [n for n in range(1, 101) if n != 50],
        list(range(1, 101)),
    )


def topic_of(fs: MemoryFilesystem) -> Topic:
    found = look(ROOT, fs=fs, clock=FakeClock()).topic("t")
    assert found is not None
    return found


@pytest.mark.parametrize(("records", "expected"), [(1, 1), (4, 4), (9, 9), (50, 12)])
def test_reach_counts_records(records: int, expected: int) -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    numbered(log, 6)
    log.compact()
    numbered(log, 6)

    topic = topic_of(fs)

    assert reach(topic, after=0, last=12, records_max=records, bytes_max=1 << 40) == expected


def test_reach_passes_over_what_is_not_there_and_always_gets_on() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", ["x" * 1000 for _ in range(10)])
    log.delete("t", seqs=[1, 2, 3])
    log.sync()
    topic = topic_of(fs)

    assert reach(topic, after=0, last=10, records_max=2, bytes_max=1 << 40) == 5
    assert reach(topic, after=5, last=10, records_max=9, bytes_max=1) == 6
    assert reach(topic, after=5, last=10, records_max=9, bytes_max=2500) == 7
    assert reach(topic, after=10, last=10, records_max=9, bytes_max=9) == 10
