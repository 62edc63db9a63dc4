"""Segments that are mostly dead, or have a damaged index, are rewritten while the topic is used."""

from __future__ import annotations

import pytest

from penstock.engine.engine import Log
from penstock.engine.segment_rewrite import rewrite
from penstock.storage.segments.reader import Segment
from penstock.testing import MemoryFilesystem
from penstock.testing.log import open_memory_log
from tests.unit.engine.support import TOPICS, everything, paths, sealed, totals, while_sealing


@pytest.fixture
def fs() -> MemoryFilesystem:
    return MemoryFilesystem()


@pytest.fixture
def log(fs: MemoryFilesystem) -> Log:
    log = open_memory_log(fs)
    for number in range(1, 11):
        log.append("t", [number], tag="odd" if number % 2 else "even")
    return log


def rewritten(log: Log, dead_share: float = 0.5) -> int:
    return rewrite(
        log.core.parts.handles["t"],
        log.core.parts.shelf,
        dead_share=dead_share,
        on_damage=log.core.parts.failure.note_damage,
    )


def test_a_mostly_dead_segment_is_written_anew(fs: MemoryFilesystem, log: Log) -> None:
    sealed(log)
    log.delete("t", tag="odd")

    made = rewritten(log)

    old, new = paths(fs, TOPICS, ".data")
    assert made == 1
    assert fs.size(new) < fs.size(old)
    assert everything(log) == [2, 4, 6, 8, 10]
    assert rewritten(log) == 0


def test_a_mostly_live_segment_is_left_alone(log: Log) -> None:
    sealed(log)
    log.delete("t", seqs=[1, 2])

    assert rewritten(log) == 0


def test_a_delete_during_a_rewrite_is_carried_over(fs: MemoryFilesystem, log: Log) -> None:
    sealed(log)
    log.delete("t", tag="odd")
    while_sealing(fs, lambda: log.delete("t", seqs=[2, 6]))

    rewritten(log)

    assert everything(log) == [4, 8, 10]
    assert totals(log) == (3, 4)


def test_a_segment_with_a_damaged_index_is_written_anew(fs: MemoryFilesystem, log: Log) -> None:
    sealed(log)
    fs.corrupt(paths(fs, TOPICS, ".idx")[0], 20)
    log.core.parts.shelf.maps.forget("")
    everything(log)

    made = rewritten(log)

    run = log.core.parts.handles["t"].topic.spans[0].run
    assert made == 1
    assert isinstance(run, Segment)
    run.check_index()


def test_an_unreadable_segment_is_reported_and_left_alone(fs: MemoryFilesystem, log: Log) -> None:
    sealed(log)
    log.delete("t", tag="odd")
    data = paths(fs, TOPICS, ".data")[0]
    fs.corrupt(data, 80)
    log.core.parts.shelf.maps.forget("")
    before = fs.read(data)

    made = [rewritten(log), rewritten(log)]

    assert made == [0, 0]
    assert [error.path for error in log.damage] == [data]
    assert fs.read(data) == before
