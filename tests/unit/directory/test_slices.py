"""Parts of topics, as they are cut."""

from __future__ import annotations

import pytest

from penstock.directory.directory_view import look
from penstock.directory.slices import reach
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import ROOT, open_memory_log
from penstock.topics.topic import Topic
from tests.unit.directory.support import cut_up, numbered, read


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
