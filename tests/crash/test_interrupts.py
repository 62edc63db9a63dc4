"""An exception from outside, at any line of a checkpoint or of a close, costs nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.engine.engine import Log
from penstock.testing import MemoryFilesystem
from penstock.testing.log import open_memory_log
from tests.support import rig
from tests.support.interrupts import interrupt

STRIDE = 1 if rig.IS_FULL else 29
SMALL = {
    "wal_shards": 1,
    "segment_max_events": 8,
    "wal_file_bytes": 8 << 10,
    "checkpoint_wal_bytes": 4 << 10,
}


def filled(fs: MemoryFilesystem) -> tuple[Log, list[int]]:
    """A log with sealed and unsealed records, deleted ones among them; and what is alive."""
    log = open_memory_log(fs, **SMALL)
    log.create("t", durability="fsync")
    log.append("t", list(range(1, 21)), tag="a")
    log.compact()
    log.delete("t", seqs=[2, 3, 11])
    log.append("t", list(range(21, 51)), tag="b")
    log.delete("t", seqs=[22, 30, 31, 45, 50])
    return log, [n for n in range(1, 51) if n not in {2, 3, 11, 22, 30, 31, 45, 50}]


def content(log: Log) -> list[int]:
    found: list[int] = []
    after = 0
    while True:
        page = log.read("t", after)
        assert page.gap is None, page.gap
        found += [record.data for record in page.records]
        if page.caught_up:
            return found
        after = page.next_seq


VERBS: dict[str, Callable[[Log], object]] = {
    "checkpoint": lambda log: log.checkpoint(),
    "everything": lambda log: log.checkpoint(everything=True),
    "compact": lambda log: log.compact(),
    "upkeep": lambda log: log.upkeep(),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_checkpoint_may_be_interrupted_anywhere(verb: str) -> None:
    places: set[str] = set()
    nth = 1 + rig.new_seed() % STRIDE
    while True:
        fs = MemoryFilesystem()
        log, alive = filled(fs)
        place = interrupt(lambda log=log: VERBS[verb](log), nth)
        if not place:
            break
        places.add(place)
        nth += STRIDE
        where = f"interrupted at {place}"

        assert content(log) == alive, where
        log.delete("t", seqs=[25])
        log.append("t", [51])
        log.checkpoint()
        log.append("t", [52])
        alive = [n for n in alive if n != 25] + [51, 52]
        assert content(log) == alive, where
        for disk in (*fs.crash_states(limit=3), fs.kill()):
            after = open_memory_log(disk, **SMALL)
            assert content(after) == alive, f"{where}, then a crash"
            after.compact()
            assert content(after) == alive, where
    assert len(places) > 10, "the rig looked at nothing"
    rig.say(f"{verb}: {len(places)} places, 0 lost")


def test_a_close_may_be_interrupted_anywhere_and_repeated() -> None:
    places: set[str] = set()
    nth = 1 + rig.new_seed() % STRIDE
    while True:
        fs = MemoryFilesystem()
        log, alive = filled(fs)
        place = interrupt(log.close, nth)
        if not place:
            break
        places.add(place)
        nth += STRIDE

        log.close()
        after = open_memory_log(fs, **SMALL)
        assert content(after) == alive, f"interrupted at {place}"
        assert after.append("t", [51]).first_seq == 51
        after.close()
    assert len(places) > 3, "the rig looked at nothing"
