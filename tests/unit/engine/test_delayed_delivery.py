"""Delivery of delayed records: in the order of their times, each once, whatever gets in the way."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock
from penstock.append_options import AppendOptions
from penstock.engine import delayed_delivery
from penstock.engine.batch import Batch
from penstock.engine.engine import Log
from penstock.engine.handle import Handle
from penstock.errors import LogFailed, Overloaded
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import open_memory_log
from penstock.types import Appended, Offset
from tests.unit.engine.support import everything, killed, sealed


def pass_time(log: Log, clock: FakeClock, ms: int) -> None:
    clock.advance(ms)
    log.upkeep()


def left(log: Log) -> int:
    """How many batches are stored."""
    return log.core.parts.handles["_delayed"].topic.live


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from("tu")), min_size=1, max_size=12))
def test_records_come_in_the_order_of_their_times(delays: list[tuple[int, str]]) -> None:
    clock = FakeClock()
    with open_memory_log(MemoryFilesystem(), clock) as log:
        for number, (delay, topic) in enumerate(delays):
            log.append(topic, [number], delay_ms=delay * 100)
        pass_time(log, clock, 250)
        early = {topic: everything(log, topic) for _, topic in delays}
        pass_time(log, clock, 250)

        for topic in {topic for _, topic in delays}:
            mine = [(delay, n) for n, (delay, own) in enumerate(delays) if own == topic]
            assert early[topic] == [n for delay, n in sorted(mine) if delay <= 2]
            assert everything(log, topic) == [n for _, n in sorted(mine)]
        assert left(log) == 0


def test_what_became_due_while_the_log_was_closed_comes_at_the_opening(
    memory_log: Log, penstock_fs: MemoryFilesystem, penstock_clock: FakeClock
) -> None:
    memory_log.append("t", [1], delay_ms=100)
    memory_log.append("t", [2], delay_ms=10_000)
    memory_log.close()
    penstock_clock.advance(500)

    with open_memory_log(penstock_fs, penstock_clock) as log:
        log.upkeep()
        assert everything(log) == [1]
        pass_time(log, penstock_clock, 10_000)
        assert everything(log) == [1, 2]


def test_thousands_come_in_many_rounds(
    memory_log: Log, penstock_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delayed_delivery, "_ROUND_MAX", 7)
    for number in range(50):
        memory_log.append("t", [number, -number], delay_ms=1000 - number)
    sealed_store(memory_log)

    pass_time(memory_log, penstock_clock, 2000)

    assert everything(memory_log) == [x for n in reversed(range(50)) for x in (n, -n)]


def sealed_store(log: Log) -> None:
    log.checkpoint(everything=True)


def test_batches_of_a_round_share_an_append_and_no_append_is_too_large(
    memory_log: Log, penstock_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(delayed_delivery, "BATCH_RECORDS_MAX", 5)
    append = memory_log.core.append_to

    def noted(handle: Handle, created: bool, batch: Batch, *options: AppendOptions) -> Appended:
        sizes.append(batch.count)
        return append(handle, created, batch, *options)

    monkeypatch.setattr(memory_log.core, "append_to", noted)
    for number in range(6):
        memory_log.append("t", [number] * 2, delay_ms=100)
    sizes.clear()

    pass_time(memory_log, penstock_clock, 100)

    assert sizes == [4, 4, 4]


def test_a_full_topic_gets_its_records_in_order_when_there_is_room(
    memory_log: Log, penstock_clock: FakeClock
) -> None:
    memory_log.create("t", cap_records=2, discard="reject")
    for number in range(3):
        memory_log.append("t", [number], delay_ms=100)
    memory_log.append("u", ["other"], delay_ms=150)

    pass_time(memory_log, penstock_clock, 200)
    assert (everything(memory_log), everything(memory_log, "u")) == ([0, 1], ["other"])
    memory_log.append("t", [3], delay_ms=10)
    memory_log.delete("t", before_seq=2)
    pass_time(memory_log, penstock_clock, 500)
    assert everything(memory_log) == [1]
    pass_time(memory_log, penstock_clock, 600)
    assert everything(memory_log) == [1, 2]
    memory_log.delete("t", before_seq=4)
    pass_time(memory_log, penstock_clock, 1000)
    assert everything(memory_log) == [3]


def test_a_batch_that_can_never_fit_holds_nobody_up(
    memory_log: Log, penstock_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    memory_log.append("t", [1, 2, 3], delay_ms=100)
    memory_log.append("t", [4], delay_ms=100)
    memory_log.create("t", cap_records=2, discard="reject")

    pass_time(memory_log, penstock_clock, 200)

    assert everything(memory_log) == [4]
    assert "stays delayed" in caplog.text
    [stuck] = memory_log.delayed.batches("t")
    assert memory_log.delayed.cancel("t", [stuck.id]) == 1
    assert left(memory_log) == 0


def test_what_was_appended_before_a_crash_is_not_appended_again(
    memory_log: Log, penstock_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        memory_log.append("t", [number], delay_ms=100)
    delivery = memory_log.core.delayed.delivery

    def crash(store: Handle, seqs: list[int]) -> None:
        raise LogFailed("killed here", reason="", hint="")

    monkeypatch.setattr(delivery, "_forget", crash)
    penstock_clock.advance(200)
    with pytest.raises(LogFailed):
        delivery.deliver_due()
    assert everything(memory_log) == [0, 1, 2]

    fs = memory_log.core.parts.fs
    assert isinstance(fs, MemoryFilesystem)
    with open_memory_log(fs.copy().kill(), penstock_clock) as log:
        assert left(log) == 3
        log.append("t", [3], delay_ms=1)
        pass_time(log, penstock_clock, 200)
        assert everything(log) == [0, 1, 2, 3]
        assert left(log) == 0


def test_an_error_is_tried_again_after_a_while(
    memory_log: Log, penstock_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_log.append("t", [1], delay_ms=100)
    delivery = memory_log.core.delayed.delivery
    with monkeypatch.context() as broken:
        broken.setattr(delivery, "_sync", lambda handles: 1 // 0)
        penstock_clock.advance(200)
        with pytest.raises(ZeroDivisionError):
            delivery.deliver_due()
    delivery.deliver_due()
    assert left(memory_log) == 1

    pass_time(memory_log, penstock_clock, 1000)

    assert (everything(memory_log), left(memory_log)) == ([1], 0)


def test_jobs_that_cannot_be_leased_stay_delayed(
    memory_log: Log, penstock_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_log.append("t", [1], delay_ms=100)

    def refuse(*given: object, **named: object) -> None:
        raise Overloaded("the write queue is full", retry_after_ms=100)

    with monkeypatch.context() as busy:
        busy.setattr(memory_log.core.catalogue.journal, "hold_leases", refuse)
        penstock_clock.advance(200)
        with pytest.raises(Overloaded):
            memory_log.core.delayed.delivery.deliver_due()
    pass_time(memory_log, penstock_clock, 1000)

    assert everything(memory_log) == [1]


def test_a_topic_that_is_dropped_meanwhile_takes_its_records_along(
    memory_log: Log, penstock_clock: FakeClock
) -> None:
    memory_log.create("t", cap_records=1, discard="reject")
    memory_log.append("t", [1], delay_ms=1)
    memory_log.append("t", [2], delay_ms=1)
    pass_time(memory_log, penstock_clock, 10)
    assert left(memory_log) == 1

    memory_log.drop("t")
    pass_time(memory_log, penstock_clock, 2000)

    assert left(memory_log) == 0


def test_routers_copy_delayed_records_when_they_are_visible(
    memory_log: Log, penstock_clock: FakeClock
) -> None:
    memory_log.create_router("r", "t", "copies")
    memory_log.append("t", [1], delay_ms=100)

    assert everything(memory_log, "copies") == []
    pass_time(memory_log, penstock_clock, 100)

    assert everything(memory_log, "copies") == [1]


def test_a_thread_delivers_on_time(tmp_path: Path) -> None:
    arrived = threading.Event()

    def moved(topic: str, head: Offset, synced: Offset) -> None:
        if head.seq == 20:
            arrived.set()

    with penstock.open(tmp_path / "log", wal_shards=2) as log:
        log.watch(["t"], moved)
        log.append("t", ["late"], delay_ms=3_600_000)
        for number in range(20):
            log.append("t", [number], delay_ms=30 + number)
        assert arrived.wait(20)
        found = log.read("t").records
        assert [record.data for record in found] == list(range(20))
        assert [one.records[0].data for one in log.delayed.batches("t")] == ["late"]


def test_a_log_without_delays_has_no_thread_for_them(tmp_path: Path) -> None:
    with penstock.open(tmp_path / "log") as log:
        log.append("t", [1])
        assert not [one for one in threading.enumerate() if one.name == "penstock-delayed"]


def test_delayed_batches_survive_seals_and_snapshots(penstock_clock: FakeClock) -> None:
    log = open_memory_log(MemoryFilesystem(), penstock_clock)
    for number in range(10):
        log.append("t", [number], delay_ms=1000 + number)
        if number % 3 == 0:
            log.checkpoint(everything=True)
    sealed(log)

    log = killed(log)
    log.core.delayed.delivery.deliver_due()
    assert everything(log) == []
    later = penstock_clock.now_ms() + 2000
    fs = log.core.parts.fs
    assert isinstance(fs, MemoryFilesystem)
    with open_memory_log(fs.kill(), FakeClock(later)) as after:
        after.upkeep()
        assert everything(after) == list(range(10))
