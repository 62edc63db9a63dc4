from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from penstock.clock import Clock
from penstock.config import Settings
from penstock.engine import maintenance
from penstock.engine.maintenance_thread import MaintenanceThread
from penstock.engine.open_log import open_log
from penstock.errors import LogFailed
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import ROOT, open_memory_log
from tests.unit.engine.support import META, TOPICS, everything, killed, paths


def test_a_beat_with_nothing_to_do_writes_nothing() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [1])
    before = fs.fingerprint()

    log.upkeep()

    assert fs.fingerprint() == before


def test_a_beat_expires_and_forgets() -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    log.create("t", ttl_ms=1000, idempotency_window_ms=1000)
    log.append("t", [1], idempotency_key="k")
    clock.advance(1001)

    log.upkeep()

    topic = log.core.parts.handles["t"].topic
    assert (topic.live, topic.expiry_floor, topic.keys) == (0, 1, {})


def test_a_beat_may_come_before_its_thread_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interval may be a millisecond, and the thread that opens the log may be paused."""

    class Hasty(MaintenanceThread):
        def __init__(self, clock: Clock, interval_ms: int, beat: Callable[[], None]) -> None:
            beat()
            super().__init__(clock, interval_ms, beat)

    monkeypatch.setattr(maintenance, "MaintenanceThread", Hasty)

    with open_log(ROOT, settings=Settings(), fs=MemoryFilesystem(), clock=FakeClock()) as log:
        log.append("t", [1])

        assert log.core.failed is None


@pytest.mark.parametrize("settings", [{"segment_max_events": 5}, {"segment_max_bytes": 1024}])
def test_a_beat_seals_what_is_due_and_takes_a_snapshot(settings: dict[str, int]) -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs, **settings)
    for number in range(7):
        log.append("t", [f"{number}" * 300])

    log.upkeep()

    assert paths(fs, TOPICS, ".data")
    assert paths(fs, META, ".bin")
    assert len(everything(killed(log))) == 7


def test_a_topic_that_was_not_due_is_looked_at_again_when_it_has_grown() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs, segment_max_events=5)
    log.append("t", [1, 2, 3])
    log.upkeep()
    assert not paths(fs, TOPICS, ".data")

    log.append("t", [4, 5])
    log.upkeep()

    assert paths(fs, TOPICS, ".data")


def test_a_beat_takes_a_checkpoint_when_the_wal_has_grown() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs, checkpoint_wal_bytes=4096)
    log.append("t", ["x" * 1000] * 3)
    log.upkeep()
    too_early = paths(fs, META)
    log.append("t", ["x" * 1000])

    log.upkeep()

    assert too_early == []
    assert paths(fs, META, ".bin")
    assert log.stats().wal_unabsorbed_bytes == 0


def test_a_log_that_is_never_open_for_long_is_absorbed_when_it_closes() -> None:
    fs = MemoryFilesystem()
    for _ in range(3):
        log = open_memory_log(fs, checkpoint_wal_bytes=4096)
        log.append("t", ["x" * 2000])
        log.close()

    assert paths(fs, META, ".bin")


def test_what_fails_during_a_beat_closes_the_log_and_is_not_raised() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs, segment_max_events=1)
    log.append("t", [1, 2])
    fs.fail("rename")

    log.upkeep()

    assert isinstance(log.failed, LogFailed)
    with pytest.raises(LogFailed):
        log.append("t", [3])
    changes = fs.operations
    log.upkeep()
    assert fs.operations == changes


def test_damage_met_during_a_beat_is_noted_once() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [1, 2, 3, 4])
    log.checkpoint(everything=True)
    log.delete("t", seqs=[1, 2, 3])
    fs.corrupt(paths(fs, TOPICS, ".data")[0], fs.size(paths(fs, TOPICS, ".data")[0]) - 20)
    log.core.parts.shelf.maps.forget("")
    log.append("u", ["x"])

    log.checkpoint()
    log.checkpoint()

    assert len(log.damage) == 1
    assert log.append("u", ["y"]).first_seq == 2


def test_a_closed_log_has_no_thread_left() -> None:
    before = set(threading.enumerate())  # some may be of other tests, on their way to their end
    log = open_log(ROOT, settings=Settings(wal_shards=3), fs=MemoryFilesystem())
    log.append("t", [1])

    log.close()

    assert set(threading.enumerate()) <= before
