"""Slices whose files were rewritten, moved or dropped since they were cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from penstock.codec.columns import DATA
from penstock.directory.slice_reader import SliceOptions, SliceReader
from penstock.errors import CorruptFrame
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import open_memory_log
from tests.support import workload
from tests.unit.directory.support import WANTED, cut_up, everything, numbered, read, rows


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


def test_records_evicted_since_the_cut_are_an_error_unless_told() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    numbered(log, 10)
    parts = cut_up(fs).slices
    log.create("t", cap_records=4)
    log.sync()

    with pytest.raises(CorruptFrame, match=r"records 1 to 6 of topic t were lost .*\(cap\)"):
        read(fs, parts)


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
