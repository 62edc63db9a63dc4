"""What each class of durability keeps, across restarts, kills and changes of mind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.engine.engine import Log
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.crash import VANISH
from penstock.testing.log import open_memory_log
from tests.unit.engine.support import everything, killed, restarted

# Ephemeral topics.


def ephemeral(fs: MemoryFilesystem | None = None, clock: FakeClock | None = None) -> Log:
    log = open_memory_log(fs, clock)
    log.create("t", durability="ephemeral")
    return log


def test_an_ephemeral_append_touches_no_disk() -> None:
    fs = MemoryFilesystem()
    log = ephemeral(fs)
    before = fs.operations

    log.append("t", [1, 2])

    assert fs.operations == before
    assert everything(log) == [1, 2]


def test_a_clean_restart_tells_exactly_what_ram_forgot() -> None:
    log = ephemeral()
    log.append("t", [1, 2, 3])

    log = restarted(log)

    assert (log.topic("t").head_seq, log.topic("t").count) == (3, 0)
    assert log.append("t", [4]).first_seq == 4
    assert everything(log) == [(1, 3, "lost"), 4]


@pytest.mark.parametrize("checkpointed", [False, True])
def test_seqs_of_ram_only_records_are_never_used_again_after_a_kill(checkpointed: bool) -> None:
    log = ephemeral()
    log.append("t", [1, 2])
    if checkpointed:
        log.checkpoint()
    log.append("t", [3])

    log = killed(log)
    seq = log.append("t", [4]).first_seq

    assert seq > 3
    found = everything(log)
    assert found[-1] == 4
    assert all(isinstance(one, tuple) and one[2] == "lost" for one in found[:-1])
    assert {s for first, last, _ in found[:-1] for s in range(first, min(last, 3) + 1)} == {1, 2, 3}


def appended_in_a_later_run(log: Log, clock: FakeClock) -> Log:
    """The run before ended cleanly and this one writes nothing to the disk."""
    log = restarted(log)
    log.append("t", [1, 2, 3])
    return log


def appended_and_deleted(log: Log, clock: FakeClock) -> Log:
    log.append("t", [1, 2, 3])
    log.delete("t", before_seq=99)
    return log


def appended_and_expired(log: Log, clock: FakeClock) -> Log:
    log.create("t", durability="ephemeral", ttl_ms=10)
    log.append("t", [1, 2, 3])
    clock.advance(11)
    log.topic("t")
    return log


def appended_and_made_persistent(log: Log, clock: FakeClock) -> Log:
    log.append("t", [1, 2, 3])
    log.create("t", durability="disk")
    return log


def appended_and_checkpointed(log: Log, clock: FakeClock) -> Log:
    log.append("t", [1, 2, 3])
    log.checkpoint()
    return log


@pytest.mark.parametrize("again", [restarted, killed])
@pytest.mark.parametrize(
    "history",
    [
        appended_in_a_later_run,
        appended_and_deleted,
        appended_and_expired,
        appended_and_made_persistent,
        appended_and_checkpointed,
    ],
    ids=lambda history: history.__name__,
)
def test_an_acknowledged_seq_is_never_given_to_another_record(
    history: Callable[[Log, FakeClock], Log], again: Callable[[Log], Log]
) -> None:
    clock = FakeClock()
    log = again(history(ephemeral(clock=clock), clock))

    assert log.append("t", ["new"]).first_seq > 3


def test_compacting_writes_no_ram_only_record_to_the_disk() -> None:
    fs = MemoryFilesystem()
    log = ephemeral(fs)
    log.append("t", ["a secret"])

    log.compact()
    log.close()

    assert not any(b"a secret" in fs.read(path) for path in fs.paths())


# Changes of class.


def test_a_topic_made_ephemeral_keeps_what_was_on_disk() -> None:
    log = open_memory_log()
    log.append("t", [1, 2])
    log.create("t", durability="ephemeral")
    log.append("t", [3])
    before = everything(log)

    log = restarted(log)

    assert before == [1, 2, 3]
    assert everything(log) == [1, 2, (3, 3, "lost")]


def test_a_topic_made_persistent_keeps_what_comes_after() -> None:
    log = ephemeral()
    log.append("t", [1, 2])
    log.create("t", durability="fsync")
    log.append("t", [3])

    log = killed(log)

    assert everything(log)[-1] == 3
    assert everything(log)[:-1] in ([1, 2], [(1, 2, "lost")])


@pytest.mark.parametrize("classes", [("disk", "fsync"), ("fsync", "disk"), ("memory", "fsync")])
def test_a_topic_may_change_its_class_and_lose_nothing(classes: tuple[str, str]) -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.create("t", durability=classes[0])
    log.append("t", [1])
    log.create("t", durability=classes[1])
    log.append("t", [2])

    cut = open_memory_log(fs.power_cut(lambda _: VANISH))

    assert everything(cut)[0] == 1
    assert classes[1] != "fsync" or 2 in everything(cut)
    assert everything(killed(log)) == [1, 2]
