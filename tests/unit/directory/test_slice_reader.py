"""Slices of topics, read elsewhere than they were cut."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from penstock.directory.directory_view import look
from penstock.directory.slice_reader import SliceReader
from penstock.directory.slices import cut
from penstock.engine.engine import Log
from penstock.errors import CorruptFrame
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import open_memory_log
from penstock.topics.spans import Span
from tests.support import workload
from tests.unit.directory.support import WANTED, cut_up, everything, read, rows
from tests.unit.engine.support import TOPICS, paths


def spans_of(log: Log, topic: str) -> list[Span]:
    return log.core.parts.handles[topic].topic.spans


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
