"""Tails become segments while the topic lives on. The other writer is driven by hand: it acts
while the files are being written, between the copy and the swap."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.engine.engine import Log
from penstock.engine.seal import tail_facts
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import open_memory_log
from penstock.topics.sealing import SealLimits, TailFacts
from tests.unit.engine.support import (
    TOPICS,
    everything,
    paths,
    restarted,
    sealed,
    totals,
    while_sealing,
)


@pytest.fixture
def fs() -> MemoryFilesystem:
    return MemoryFilesystem()


@pytest.fixture
def log(fs: MemoryFilesystem) -> Log:
    log = open_memory_log(fs)
    for number in range(1, 11):
        log.append("t", [number], tag="odd" if number % 2 else "even")
    return log


def runs(log: Log) -> list[bool]:
    return [span.run.is_sealed for span in log.core.parts.handles["t"].topic.spans]


# Sealing.


def test_a_sealed_tail_is_the_same_topic(log: Log) -> None:
    before, facts = everything(log), tail_facts(log.core.parts.handles["t"].topic)

    made = sealed(log)

    assert (made, runs(log)) == (1, [True])
    assert facts.records == 10
    assert tail_facts(log.core.parts.handles["t"].topic) == TailFacts(0, 0, None)
    assert everything(log) == before
    log.append("t", [11])
    assert everything(log) == [*before, 11]


def test_nothing_to_seal_makes_nothing(log: Log) -> None:
    sealed(log)

    assert sealed(log) == 0


def test_a_long_tail_becomes_several_segments(log: Log) -> None:
    made = sealed(log, SealLimits(3, 10**9, 0))

    assert (made, runs(log)) == (4, [True] * 4)
    assert everything(log) == list(range(1, 11))


def test_only_whole_segments_unless_everything_is_asked_for(log: Log) -> None:
    made = sealed(log, SealLimits(3, 10**9, 0), whole=False)

    assert made == 3
    assert runs(log)[:3] == [True] * 3
    assert not runs(log)[3]
    assert everything(log) == list(range(1, 11))
    log.append("t", [11])
    assert everything(log) == list(range(1, 12))


def test_dead_records_are_left_out_of_the_files(fs: MemoryFilesystem, log: Log) -> None:
    log.delete("t", tag="odd")

    sealed(log)

    (path,) = paths(fs, TOPICS, ".data")
    assert b'"d":2}' in fs.read(path)
    assert b'"d":3}' not in fs.read(path)
    assert everything(log) == [2, 4, 6, 8, 10]


def test_a_seq_gap_ends_a_segment(log: Log) -> None:
    log.core.catalogue.report_unreadable(log.core.parts.handles["t"], 4, 6)

    sealed(log)

    assert everything(log) == [1, 2, 3, (4, 6, "damage"), 7, 8, 9, 10]


def test_ram_only_records_are_never_sealed(fs: MemoryFilesystem) -> None:
    log = open_memory_log(fs)
    log.create("t", durability="ephemeral")
    log.append("t", [1, 2])

    log.checkpoint(everything=True)

    assert paths(fs, TOPICS) == []
    assert everything(log) == [1, 2]


# Meanwhile.


@pytest.mark.parametrize(
    ("act", "left"),
    [
        (lambda log: log.delete("t", seqs=[2, 5, 10]), [1, 3, 4, 6, 7, 8, 9]),
        (lambda log: log.delete("t", tag="odd"), [2, 4, 6, 8, 10]),
        (lambda log: log.delete("t", before_seq=5), [5, 6, 7, 8, 9, 10]),
        (lambda log: log.delete("t", before_seq=99), []),
        (lambda log: log.delete("t", tag="*"), []),
        (lambda log: log.append("t", [11, 12]), list(range(1, 13))),
        (lambda log: log.create("t", cap_records=3), [(1, 7, "cap"), 8, 9, 10]),
    ],
    ids=["seqs", "tag", "before", "all before", "all by tag", "append", "evict"],
)
@pytest.mark.parametrize("records_max", [10**6, 4])
def test_what_happens_while_it_is_sealed_is_carried_over(
    fs: MemoryFilesystem,
    log: Log,
    records_max: int,
    act: Callable[[Log], object],
    left: list[object],
) -> None:
    while_sealing(fs, lambda: act(log))

    sealed(log, SealLimits(records_max, 10**9, 0))
    fs.on_operation = None

    topic = log.core.parts.handles["t"].topic
    assert everything(log) == left
    assert totals(log) == (topic.live, topic.bytes)
    log.checkpoint()
    assert everything(restarted(log)) == left


def test_a_topic_dropped_while_it_is_sealed_stays_dropped(fs: MemoryFilesystem, log: Log) -> None:
    while_sealing(fs, lambda: log.drop("t"))

    log.checkpoint(everything=True)
    log.checkpoint(everything=True)

    assert log.topics() == []
    assert paths(fs, TOPICS) == []
    assert restarted(log).topics() == []


def test_age_alone_makes_a_tail_due() -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock, segment_max_age_ms=1000)
    log.append("t", [1])
    log.upkeep()
    young = log.topic("t").segments

    clock.advance(1000)
    log.upkeep()

    assert (young, log.topic("t").segments) == (0, 1)
