"""Jobs wherever they lie: in memory, in segments, in segments that are damaged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.engine.engine import Log
from penstock.engine.job_reading import NO_META, RawJob, raw, read_jobs, values
from penstock.errors import CorruptFrame
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import open_memory_log
from penstock.types import Record
from tests.unit.engine.harms import frame_of
from tests.unit.engine.support import TOPICS, paths
from tests.unit.engine.test_queues import counts, outs, queue, seqs

MIB = 1 << 20
LATER_MS = 10_000  # before what could not be read is tried again

Read = Callable[..., tuple[list[RawJob], CorruptFrame | None]]


def read(log: Log, wanted: list[int], bytes_max: int = MIB) -> list[int]:
    """The seqs that were found, without damage."""
    jobs, damage = read_jobs(log.core.parts.handles["q"], wanted, bytes_max, raw)
    assert damage is None
    return [job.seq for job in jobs]


def scattered(fs: MemoryFilesystem | None = None, clock: FakeClock | None = None) -> Log:
    """1..4 in one segment, 5..8 in the next, 9..12 in memory; 2, 6 and 10 deleted."""
    log = open_memory_log(fs, clock)
    queue(log)
    for first in (1, 5, 9):
        if first > 1:
            log.checkpoint(everything=True)
        log.append("q", [f"job {seq}" for seq in range(first, first + 4)])
    log.delete("q", seqs=[2, 6, 10])
    return log


# Reading.


def test_jobs_are_found_wherever_they_lie() -> None:
    log = scattered()

    assert read(log, list(range(1, 13))) == [1, 3, 4, 5, 7, 8, 9, 11, 12]
    assert read(log, [3, 8, 9, 12]) == [3, 8, 9, 12]
    assert read(log, []) == []


def test_jobs_that_are_no_more_or_not_yet_are_left_out() -> None:
    log = scattered()
    log.delete("q", before_seq=4)

    assert read(log, [1, 2, 3, 4, 6, 10, 13, 99]) == [4]


def test_a_job_keeps_the_text_that_was_sent(memory_log: Log) -> None:
    queue(memory_log)
    memory_log.append("q", [Record(b"[1.50 ]", tag="t", node="n", meta={"k": 1}), Record()])

    first, second = read_jobs(memory_log.core.parts.handles["q"], [1, 2], MIB, raw)[0]

    assert (bytes(first.data), bytes(first.meta)) == (b"[1.50 ]", b'{"k":1}')
    assert (first.tag, first.node) == ("t", "n")
    assert (bytes(second.data), second.meta, second.tag) == (b"null", NO_META, None)


@pytest.mark.parametrize("number", [7, 1e300, 10**400])
def test_a_job_is_read_as_the_value_that_was_sent(memory_log: Log, number: float) -> None:
    queue(memory_log)
    text = b'{"n":%d}' % number if isinstance(number, int) else b'{"n":1e300}'
    memory_log.append("q", [Record(text, tag="t", node="n", meta={"k": 1}), Record()])

    first, second = read_jobs(memory_log.core.parts.handles["q"], [1, 2], MIB, values)[0]

    assert (first.data, first.meta) == ({"n": number}, {"k": 1})
    assert (first.tag, first.node) == ("t", "n")
    assert (second.data, second.meta, second.tag) == (None, None, None)


@pytest.mark.parametrize("bytes_max", [1, 60, 100, 200, 10_000])
def test_a_read_stops_at_its_size_with_at_least_one_job(bytes_max: int) -> None:
    log = scattered()
    wanted = [1, 3, 4, 5, 7, 8, 9, 11, 12]

    found = read(log, wanted, bytes_max)

    assert found == wanted[: len(found)]
    assert found
    assert (found == wanted) == (bytes_max == 10_000)


# Sealed.


@pytest.mark.parametrize("everything", [False, True])
def test_sealed_jobs_are_claimed_and_done_like_others(everything: bool) -> None:
    fs, clock = MemoryFilesystem(), FakeClock()
    log = open_memory_log(fs, clock)
    queue(log, *range(6), leases_durable=True)
    log.claim("q", "ann", 2)
    log.checkpoint(everything=everything)
    log.ack("q", "ann", [1])
    log.nack("q", "ann", [2])

    fs = fs.kill()
    log = open_memory_log(fs, clock)

    assert outs(log.claim("q", "bob", 9)) == {2: 2, 3: 1, 4: 1, 5: 1, 6: 1}
    assert log.ack("q", "bob", range(2, 7)).done == 5
    log.compact()
    assert counts(log) == (0, 0, 0)
    assert open_memory_log(fs.kill(), clock).topic("q").count == 0


def test_a_segment_is_rewritten_under_leases() -> None:
    log = scattered()
    held = log.claim("q", "ann", 9).jobs
    log.ack("q", "ann", held[:6])

    log.compact()

    assert counts(log) == (0, 3, 0)
    assert log.nack("q", "ann", held[6:]).done == 3
    assert outs(log.claim("q", "bob", 9)) == {9: 2, 11: 2, 12: 2}


# Damaged.


def one_flipped(fs: MemoryFilesystem) -> None:
    path = paths(fs, TOPICS, ".data")[0]
    fs.corrupt(path, frame_of(fs, path, b'"job 3"'))


def one_cut(fs: MemoryFilesystem) -> None:
    path = paths(fs, TOPICS, ".data")[0]
    fs.truncate_at(path, frame_of(fs, path, b'"job 4"'))


def one_removed(fs: MemoryFilesystem) -> None:
    fs.unlink(paths(fs, TOPICS, ".data")[0])


HARMS: dict[Callable[[MemoryFilesystem], None], set[int]] = {
    one_flipped: {3},
    one_cut: {4},
    one_removed: {1, 3, 4},
}


def harmed(harm: Callable[[MemoryFilesystem], None], clock: FakeClock) -> tuple[Log, bytes]:
    """The log, and what the first segment was before."""
    fs = MemoryFilesystem()
    scattered(fs, clock).close()
    whole = fs.read(paths(fs, TOPICS, ".data")[0])
    harm(fs)
    return open_memory_log(fs, clock), whole


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("most", [1, 2, 3, 9])
def test_a_damaged_job_is_passed_over_and_the_others_go_on(
    harm: Callable[[MemoryFilesystem], None], most: int
) -> None:
    log, _ = harmed(harm, FakeClock())
    lost = HARMS[harm]

    found = [seq for _ in range(12) for seq in seqs(log.claim("q", "ann", most))]

    assert found == [seq for seq in (1, 3, 4, 5, 7, 8, 9, 11, 12) if seq not in lost]
    assert counts(log) == (0, len(found), len(lost))
    assert len(log.damage) == 1
    assert log.ack("q", "ann", found).done == len(found)


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_job_is_tried_again_later_and_handed_out_once_it_can_be_read(
    harm: Callable[[MemoryFilesystem], None],
) -> None:
    clock = FakeClock()
    log, whole = harmed(harm, clock)
    assert isinstance(log.core.parts.fs, MemoryFilesystem)
    path = f"{TOPICS}/00000001/seg-0000000000000001.data"
    for _ in range(12):
        log.claim("q", "ann", 9, lease_ms=1_000_000)

    log.core.parts.fs.replace(path, whole)
    log.core.parts.shelf.maps.forget("")
    clock.advance(LATER_MS - 1)
    early = log.claim("q", "bob", 9)
    clock.advance(1)

    assert early.jobs == []
    assert outs(log.claim("q", "bob", 9)) == dict.fromkeys(HARMS[harm], 1)


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_a_damaged_job_that_was_mended_between_two_runs_is_in_one_hand(
    is_checkpointed: bool,
) -> None:
    clock = FakeClock()
    log, whole = harmed(one_removed, clock)
    fs = log.core.parts.fs
    assert isinstance(fs, MemoryFilesystem)
    log.claim("q", "ann", 1)
    if is_checkpointed:
        log.checkpoint()
    log.close()

    fs.replace(f"{TOPICS}/00000001/seg-0000000000000001.data", whole)
    log = open_memory_log(fs, clock)
    clock.advance(LATER_MS)
    found = [seq for _ in range(5) for seq in seqs(log.claim("q", "bob", 9))]

    assert sorted(found) == [1, 3, 4, 5, 7, 8, 9, 11, 12]


def test_what_repair_gave_up_is_no_job() -> None:
    log, _ = harmed(one_flipped, FakeClock())
    log.claim("q", "ann", 9)

    log.core.catalogue.report_unreadable(log.core.parts.handles["q"], 3, 3)

    assert log.topic("q").count == 8
    assert log.queue_counts("q").delayed == 0
