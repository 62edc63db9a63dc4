"""R24: delayed records. Whatever happens between an append with a delay and the last trace of it,
each acknowledged record becomes visible exactly once, never before its time, in the stated order.

The log is stopped before each of its changes to the disk: killed, or with any outcome of a power
cut. Then it is opened later, delivers, and is checked; and is once more stopped in the middle of
that, before it is checked.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable

import pytest

from penstock.engine.delayed_delivery import DelayedDelivery
from penstock.engine.engine import Log
from penstock.engine.handle import Handle
from penstock.errors import PenstockError
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.crash import LAND, VANISH, PowerLost
from penstock.testing.log import open_memory_log
from tests.support import seeds

START_MS = 1_760_000_000_000
Crash = Callable[[MemoryFilesystem, random.Random], MemoryFilesystem]

CLASSES = {"disk": "disk", "fsync": "fsync", "memory": "memory"}


def killed(fs: MemoryFilesystem, roll: random.Random) -> MemoryFilesystem:
    return fs.copy().kill()


def all_lost(fs: MemoryFilesystem, roll: random.Random) -> MemoryFilesystem:
    return fs.copy().power_cut(lambda _: VANISH)


def some_lost(fs: MemoryFilesystem, roll: random.Random) -> MemoryFilesystem:
    return fs.copy().power_cut(lambda _: roll.choice([VANISH, LAND]))


class Run:
    """What one life of the log did: which batches were acknowledged, and which were cancelled."""

    def __init__(self, fs: MemoryFilesystem) -> None:
        self.fs = fs
        self.acknowledged: dict[str, list[tuple[int, int]]] = {}  # topic -> (due, number)
        self.unsure: set[int] = set()  # what was under way at the crash
        self.cancelled: set[int] = set()
        self.clock = FakeClock(START_MS)

    def live(self) -> None:
        """Delay, cancel, deliver, checkpoint; ends when the power does."""
        log = open_memory_log(self.fs, self.clock, wal_shards=3, wal_file_bytes=64 * 1024)
        for name, durability in CLASSES.items():
            log.create(name, durability=durability)
        number = 0
        for step in range(9):
            for topic in CLASSES:
                number += 1
                delay_ms = 100 * (1 + number * 7 % 5)
                self.unsure = {number}
                answer = log.append(topic, [number], delay_ms=delay_ms)
                assert answer.first_seq == 0
                due_ms = self.clock.now_ms() + delay_ms
                self.acknowledged.setdefault(topic, []).append((due_ms, number))
                self.unsure = set()
                if step == 3:
                    self.unsure = {number}
                    assert log.delayed.cancel(topic, [answer.delayed_id]) == 1
                    self.cancelled.add(number)
                    self.unsure = set()
            if step == 5:
                log.checkpoint(everything=True)
            self.clock.advance(120)
            log.core.delayed.delivery.deliver_due()
        self.clock.advance(1000)
        log.core.delayed.delivery.deliver_due()
        log.close()


def stopped_at(index: int) -> Run:
    """The run that loses power before its change with this index."""
    run = Run(MemoryFilesystem())
    run.fs.stop_before(index)
    with pytest.raises((PowerLost, PenstockError)):
        run.live()
    run.fs.on_operation = None
    return run


def numbers(log: Log, topic: str) -> list[int]:
    found = []
    after = 0
    while True:
        page = log.read(topic, after, 1000)
        found += [record.data for record in page.records]
        if page.caught_up:
            return found
        after = page.next_seq


def delivered(fs: MemoryFilesystem, clock: FakeClock, stop: int = 0) -> MemoryFilesystem:
    """Open the log and let it deliver everything, or stop it before its change `stop`."""
    if stop:
        fs.stop_before(fs.operations + stop)
    try:
        with open_memory_log(fs, clock, wal_shards=3) as log:
            log.core.delayed.delivery.deliver_due()
    except (PowerLost, PenstockError):
        pass
    fs.on_operation = None
    return fs


def check(run: Run, fs: MemoryFilesystem) -> None:
    """Every record that was acknowledged and not cancelled is there once, in order."""
    clock = FakeClock(run.clock.now_ms() + 10_000)
    with open_memory_log(fs, clock, wal_shards=3) as log:
        log.core.delayed.delivery.deliver_due()
        for topic in CLASSES:
            batches = run.acknowledged.get(topic, [])
            if log.core.catalogue.find(topic) is None:
                assert not batches
                continue
            found = numbers(log, topic)
            wanted = {n for _, n in batches} - run.cancelled - run.unsure
            assert len(found) == len(set(found)), "delivered twice"
            assert wanted <= set(found) <= wanted | run.unsure, "lost, or never asked for"
            times = {n: due_ms for due_ms, n in batches}
            known = [n for n in found if n in times]
            assert known == sorted(known, key=lambda n: (times[n], n)), "out of order"
            assert log.delayed.batches(topic) == []


@functools.cache
def length() -> int:
    """How many changes to the disk a whole run makes."""
    run = Run(MemoryFilesystem())
    run.live()
    check(run, run.fs.copy())
    return run.fs.operations


def stops(part: int = 0, parts: int = 1) -> range:
    step = 1 if seeds.IS_FULL else 7
    return range(1 + part * step, length(), parts * step)


@pytest.mark.parametrize("crash", [killed, all_lost, some_lost])
@pytest.mark.parametrize("part", range(4))
def test_each_record_comes_exactly_once_wherever_the_log_stops(crash: Crash, part: int) -> None:
    for index in stops(part, 4):
        run = stopped_at(index)
        roll = random.Random(index)

        check(run, crash(run.fs, roll))


@pytest.mark.parametrize("crash", [killed, all_lost])
def test_and_when_the_next_opening_is_stopped_as_well(crash: Crash) -> None:
    for index in stops(parts=1 if seeds.IS_FULL else 9):
        run = stopped_at(index)
        roll = random.Random(index)
        first = crash(run.fs, roll)
        for stop in range(1, 60, 1 if seeds.IS_FULL else 5):
            clock = FakeClock(run.clock.now_ms() + 10_000)
            again = delivered(first.copy(), clock, stop)

            check(run, crash(again, roll))


# The rig catches what it must.


def without_key(delivery: DelayedDelivery, handle: Handle, group: object, batches: object) -> None:
    """Append without looking at what the topic has."""
    from penstock.engine import delayed_batch

    stored = [batches[seq] for _, seq in group]  # type: ignore[index, attr-defined]
    delivery._append(handle, delayed_batch.joined(stored, b""))


def removed_first(delivery: DelayedDelivery, handles: object) -> None:
    """Delete before the topics are synced."""


@pytest.mark.parametrize(
    ("name", "mutant", "crash", "complaint"),
    [
        ("_append_new", without_key, killed, "delivered twice"),
        ("_sync", removed_first, all_lost, "lost"),
    ],
)
def test_the_rig_sees_a_broken_delivery(
    name: str,
    mutant: Callable[..., None],
    crash: Crash,
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DelayedDelivery, name, mutant)

    with pytest.raises(AssertionError, match=complaint):
        stop_everywhere(crash)


def stop_everywhere(crash: Crash) -> None:
    for index in range(1, length()):
        run = stopped_at(index)
        check(run, crash(run.fs, random.Random(index)))
