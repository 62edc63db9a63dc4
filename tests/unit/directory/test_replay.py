"""Snapshot plus WAL, by `apply`: the state after a restart is the state before it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from penstock.codec.frame import Frame, encode_frame
from penstock.engine.engine import Log
from penstock.storage import snapshots
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.crash import LAND
from penstock.testing.log import open_memory_log
from tests.unit.engine.support import META, TOPICS, WAL, everything, killed, paths, restarted


def picture(log: Log) -> list[object]:
    """All that people can ask of a log, but for where the records lie."""
    return [
        (msgspec.structs.replace(info, segments=0), everything(log, info.name))
        for info in log.topics()
    ]


def bury(log: Log, seq: int) -> None:
    log.core.catalogue.report_unreadable(log.core.parts.handles["t"], seq, seq)


Step = Callable[[Log], object]
APPENDS: list[Step] = [
    lambda log: log.append("t", [1, 2, 3], tag="a", node="n"),
    lambda log: log.append("u", [4], idempotency_key="k"),
]
HISTORIES: dict[str, list[Step]] = {
    "appends": APPENDS,
    "deletes": [
        *APPENDS,
        lambda log: log.delete("t", tag="a", before_seq=2),
        lambda log: log.append("t", [5], tag="a"),
        lambda log: log.delete("t", seqs=[2, 4]),
    ],
    "caps": [
        lambda log: log.create("t", cap_records=2),
        lambda log: log.append("t", [1, 2, 3]),
        lambda log: log.create("t", cap_bytes=3),
        lambda log: log.append("t", [4, 5, 6, 7]),
    ],
    "a cap that came and went": [
        lambda log: log.append("t", [1, 2]),
        lambda log: log.create("t", cap_records=1),
        lambda log: log.create("t"),
        lambda log: log.append("t", [3, 4, 5]),
    ],
    "a recreation": [*APPENDS, lambda log: log.drop("t"), lambda log: log.append("t", [9])],
    "losses": [
        lambda log: log.append("t", [1, 2, 3, 4, 5, 6]),
        lambda log: bury(log, 5),
        lambda log: bury(log, 2),
        lambda log: log.append("t", [7]),
    ],
    "classes": [
        lambda log: log.create("t", durability="fsync"),
        lambda log: log.append("t", [1]),
        lambda log: log.create("t", durability="memory"),
        lambda log: log.append("t", [2]),
    ],
}
each_history = pytest.mark.parametrize("steps", HISTORIES.values(), ids=HISTORIES)


@each_history
@pytest.mark.parametrize("again", [restarted, killed])
def test_a_restart_after_any_step_changes_nothing(
    steps: list[Step], again: Callable[[Log], Log]
) -> None:
    log = open_memory_log()

    for step in steps:
        step(log)
        before = picture(log)
        log = again(log)
        assert picture(log) == before


@each_history
@pytest.mark.parametrize("everything", [False, True])
def test_a_snapshot_after_any_step_changes_nothing(steps: list[Step], everything: bool) -> None:
    plain = open_memory_log()
    for step in steps:
        step(plain)

    for moment in range(len(steps)):
        log = open_memory_log()
        for number, step in enumerate(steps):
            step(log)
            if number == moment:
                log.checkpoint(everything=everything)
        assert picture(killed(log)) == picture(plain)


@each_history
def test_entries_applied_while_a_snapshot_is_taken_are_applied_once(steps: list[Step]) -> None:
    """The snapshot starts its replay where it began, and may hold what came after."""
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("x", [0])
    todo = list(steps)

    def meanwhile(index: int, kind: str, path: str) -> None:
        while path.startswith(TOPICS) and todo:
            todo.pop(0)(log)

    fs.on_operation = meanwhile
    log.checkpoint(everything=True)
    fs.on_operation = None
    before = picture(log)

    assert not todo
    assert picture(killed(log)) == before


def test_only_what_no_snapshot_has_is_replayed() -> None:
    log = open_memory_log()
    log.append("t", [1, 2, 3])
    log.checkpoint()
    log.append("t", [4])

    log = killed(log)

    assert (log.recovery.snapshot_number, log.recovery.records_replayed) == (1, 1)
    assert everything(log) == [1, 2, 3, 4]


def test_a_damaged_snapshot_costs_a_longer_replay_and_is_told() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    for number in (1, 2, 3):
        log.append("t", [number])
        log.checkpoint()
    fs = fs.kill()
    newest = snapshots.path_of(META, 3)
    fs.corrupt(newest, 70)

    log = open_memory_log(fs)

    assert everything(log) == [1, 2, 3]
    assert (log.recovery.snapshot_number, log.recovery.rebuilt) == (2, False)
    assert [newest in text for text in log.recovery.bad_snapshots] == [True]
    assert [error.path for error in log.damage] == [newest]


def test_a_snapshot_of_another_log_is_not_believed() -> None:
    fs, other = MemoryFilesystem(), MemoryFilesystem()
    for disk, data in ((fs, "mine"), (other, "theirs")):
        log = open_memory_log(disk)
        log.append("t", [data])
        log.checkpoint()
        log.close()
    body = snapshots.read(other, META, 1).body
    snapshots.write(fs, META, 2, bytes(16), body)

    log = open_memory_log(fs)

    assert everything(log) == ["mine"]
    assert "another log" in log.recovery.bad_snapshots[0]


def test_frames_of_a_later_version_are_passed_over_and_counted() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [1])
    log.close()
    path = paths(fs, WAL, ".log")[0]
    unknown = encode_frame(Frame(60, 0, 1, 0, 0, b"", b"", b"from the future"))
    fs.replace(path, fs.read(path) + unknown)

    log = open_memory_log(fs)

    assert log.recovery.frames_unknown == 1
    assert everything(log) == [1]


@pytest.mark.parametrize("durability", ["memory", "disk", "fsync"])
def test_reserved_seqs_are_lost_by_a_power_cut_only(durability: str) -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.create("t", durability=durability)
    log.append("t", [1])
    cut = fs.power_cut(lambda _: LAND)

    assert killed(log).topic("t").head_seq == 1
    log = open_memory_log(cut)
    assert (log.topic("t").head_seq == 1) == (durability == "fsync")
    assert everything(log)[0] == 1


def test_what_a_power_cut_took_is_told_the_same_after_another_kill() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [1])
    log = open_memory_log(fs.power_cut(lambda _: LAND))
    before = picture(log)

    assert picture(killed(log)) == before


def test_a_ttl_floor_is_remembered_without_asking_the_clock() -> None:
    fs, clock = MemoryFilesystem(), FakeClock()
    log = open_memory_log(fs, clock)
    log.create("t", ttl_ms=10)
    log.append("t", [1, 2])
    clock.advance(11)
    told = everything(log)
    log.append("t", [3])
    clock.jump(-60_000)

    log = open_memory_log(fs.kill(), clock)

    assert told == [(1, 2, "ttl")]
    assert everything(log) == [(1, 2, "ttl"), 3]


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_key_remembers_its_own_batch_and_not_the_neighbour_behind_it(is_sealed: bool) -> None:
    """In the file the two stand together as one run of appends."""
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [0])
    if is_sealed:
        log.checkpoint(everything=True)
    first = log.append("t", [1, 2], idempotency_key="k")
    log.append("t", [3])

    again = killed(log)
    answer = again.append("t", [1, 2], idempotency_key="k")

    assert (answer.first_seq, answer.last_seq, answer.deduped) == (2, 3, True)
    assert (first.first_seq, first.last_seq) == (2, 3)
    again.close()
