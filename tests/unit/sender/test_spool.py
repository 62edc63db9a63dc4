"""The spool: what goes in comes out, in order, until it is acknowledged."""

from __future__ import annotations

import errno
import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.clock import SystemClock
from penstock.errors import (
    Closed,
    FrameTooLarge,
    SlotInUse,
    SpoolFailed,
    SpoolFull,
)
from penstock.sender.memory_filesystem import RamFilesystem
from penstock.sender.opening import open_spool
from penstock.sender.settings import SpoolSettings
from penstock.sender.slot import Rejection
from penstock.sender.spool import Spool, Stored
from penstock.testing import MemoryFilesystem
from penstock.testing.clock import FakeClock
from penstock.wire.spool_frame import decode_frame
from tests.support.serving import DEADLINE_S

SLOT = "/sf/edge"
SEGMENT = 4096
REFUSED = Rejection("SCHEMA_MISMATCH", 3, "no such column")


class Randomness:
    """Different bytes each time, the same each run."""

    def __init__(self) -> None:
        self._random = random.Random(1)

    def __call__(self, size: int) -> bytes:
        return self._random.randbytes(size)


RANDOM = Randomness()


def opened(fs: MemoryFilesystem | None, clock: FakeClock | None = None, **given: Any) -> Spool:
    chosen: dict[str, Any] = {"segment_bytes": SEGMENT, **given}
    if fs is not None:
        chosen |= {"sf_dir": "/sf", "sender_id": "edge"}
    return open_spool(
        SpoolSettings(**chosen), fs=fs, clock=clock or FakeClock(), random_bytes=RANDOM
    )


def payloads(spool: Spool, fsn: int | None = None, max_bytes: int = 1 << 20) -> list[bytes | None]:
    """What a reader gets from here to the end of the spool."""
    at = spool.acked_fsn + 1 if fsn is None else fsn
    found: list[bytes | None] = []
    while batch := spool.read(at, max_bytes):
        assert [stored.fsn for stored in batch] == list(range(at, at + len(batch)))
        found += [payload_of(stored) for stored in batch]
        at += len(batch)
    return found


def payload_of(stored: Stored) -> bytes | None:
    if stored.data is None:
        return None
    fsn, payload = decode_frame(stored.data)
    assert fsn == stored.fsn
    return payload


def segments(fs: MemoryFilesystem) -> list[str]:
    return [name for name in fs.list(SLOT) if name.endswith(".seg")]


def fill(spool: Spool, count: int, size: int = 500) -> list[bytes]:
    made = [b"%d:" % n + bytes([n % 256]) * size for n in range(count)]
    for payload in made:
        spool.append([payload])
    return made


@pytest.fixture(params=["memory mode", "disk mode"])
def spool(request: pytest.FixtureRequest) -> Iterator[Spool]:
    spool = opened(MemoryFilesystem() if request.param == "disk mode" else None)
    yield spool
    spool.close()


# Both modes.


def test_frames_come_out_as_they_went_in(spool: Spool) -> None:
    assert (spool.published_fsn, spool.acked_fsn, spool.read(0, 100)) == (-1, -1, [])

    assert spool.append([b"a", b"b"]) == 0
    assert spool.append([b""]) == 1

    assert payloads(spool) == [b"ab", b""]
    assert spool.published_fsn == 1
    assert {stored.incarnation for stored in spool.read(0, 100)} == {spool.incarnation}


def test_reading_goes_on_over_segments(spool: Spool) -> None:
    made = fill(spool, 40)

    assert payloads(spool) == made
    assert payloads(spool, max_bytes=1) == made
    assert payloads(spool, max_bytes=1300) == made
    assert payloads(spool, 25) == made[25:]


def test_a_read_is_bounded_but_for_its_first_frame(spool: Spool) -> None:
    fill(spool, 20, size=100)

    assert len(spool.read(3, 0)) == 1
    assert sum(len(stored.data or b"") for stored in spool.read(3, 1000)) <= 1000


def test_acknowledged_segments_make_room(spool: Spool) -> None:
    fill(spool, 40)
    before = spool.stored_bytes
    spool.ack(29)
    spool.maintain()

    assert spool.acked_fsn == 29
    assert spool.stored_bytes < before
    assert len(payloads(spool)) == 10
    assert spool.read(3, 1)[0].fsn == 30  # what is done with is passed


def test_an_acknowledgement_never_goes_back_nor_beyond_the_end(spool: Spool) -> None:
    fill(spool, 3)
    spool.ack(1)
    spool.ack(0)
    assert spool.acked_fsn == 1
    spool.ack(99)
    assert spool.acked_fsn == 2
    assert spool.append([b"next"]) == 3


def test_a_frame_too_large_is_refused_and_uses_no_number(spool: Spool) -> None:
    with pytest.raises(FrameTooLarge) as caught:
        spool.append([bytes(SEGMENT)])
    spool.append([bytes(caught.value.size_max)])

    assert spool.published_fsn == 0
    with pytest.raises(FrameTooLarge):
        spool.append([bytes(caught.value.size_max + 1)])


def test_a_refused_frame_is_kept_and_passed(spool: Spool) -> None:
    fill(spool, 3)
    spool.reject(1, REFUSED)
    assert spool.acked_fsn == -1

    spool.ack(0)

    assert spool.acked_fsn == 1
    assert spool.dead_letters.count == spool.dead_letters.are_kept
    for note in spool.slot.dead_letters():
        assert (note["fsn"], note["category"], note["status"]) == (1, "SCHEMA_MISMATCH", 3)
        frame = spool.slot.dead_letter(1, spool.incarnation)
        assert decode_frame(frame)[1].startswith(b"1:")
    spool.reject(1, REFUSED)
    spool.reject(2, REFUSED)
    assert spool.acked_fsn == 2
    letters = spool.dead_letters
    assert letters.count == len(spool.slot.dead_letters()) == 2 * letters.are_kept


def test_in_memory_refused_frames_take_nothing_beside_the_cap() -> None:
    spool = opened(None, total_bytes_max=2 * SEGMENT)
    for fsn in range(40):
        spool.append([bytes(1000)])
        spool.reject(fsn, REFUSED)
        spool.maintain()

    fs = spool.slot.fs
    assert isinstance(fs, RamFilesystem)
    segments = [file for path, file in fs._files.items() if path.endswith(".seg")]
    assert sum(map(len, segments)) == spool.stored_bytes <= 2 * SEGMENT
    assert not [path for path in fs._files if "dead-letter" in path]


def test_the_age_of_the_oldest_frame(spool: Spool) -> None:
    clock = spool._clock
    assert isinstance(clock, FakeClock)
    assert spool.oldest_unacked_ms == 0
    spool.append([b"a"])
    clock.advance(700)
    spool.append([b"b"])
    clock.advance(300)

    assert spool.oldest_unacked_ms == 1000
    spool.ack(0)
    assert spool.oldest_unacked_ms == 300
    spool.ack(1)
    assert spool.oldest_unacked_ms == 0


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_full_spool_says_so_and_takes_nothing(on_disk: bool) -> None:
    spool = opened(MemoryFilesystem() if on_disk else None, total_bytes_max=3 * SEGMENT)
    taken = 0
    with pytest.raises(SpoolFull) as caught:  # noqa: PT012
        while True:
            spool.append([bytes(1000)])
            taken += 1
            spool.maintain()

    assert caught.value.total_bytes_max == 3 * SEGMENT
    assert spool.stored_bytes <= 3 * SEGMENT
    assert spool.published_fsn == taken - 1
    assert len(payloads(spool)) == taken
    assert not spool.wait_for_room(0, 1000)

    spool.ack(taken - 1)
    spool.maintain()

    assert spool.wait_for_room(0, 1000)
    assert spool.append([bytes(1000)]) == taken


def test_a_producer_that_waits_for_room_is_woken() -> None:
    spool = opened(None, total_bytes_max=2 * SEGMENT)
    spool._clock = SystemClock()
    with pytest.raises(SpoolFull):
        fill(spool, 100)
    done = threading.Event()

    def wait() -> None:
        if spool.wait_for_room(DEADLINE_S, 500):
            done.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    spool.ack(spool.published_fsn)
    assert spool.wait_for_work(DEADLINE_S)
    spool.maintain()
    waiter.join(DEADLINE_S)

    assert done.is_set()


def test_a_closed_spool_takes_and_gives_nothing(spool: Spool) -> None:
    spool.append([b"a"])
    assert spool.close() is False
    assert spool.close() is False

    for call in (lambda: spool.append([b"b"]), lambda: spool.read(0, 1), lambda: spool.ack(0)):
        with pytest.raises(Closed):
            call()
    assert spool.maintain() is None


# On disk.


def test_a_slot_has_one_holder() -> None:
    fs = MemoryFilesystem()
    spool = opened(fs)

    with pytest.raises(SlotInUse) as caught:
        opened(fs)

    assert (caught.value.path, bool(caught.value.pid)) == (SLOT, True)
    spool.close()
    opened(fs).close()


def test_what_was_not_acknowledged_is_there_after_a_kill() -> None:
    fs = MemoryFilesystem()
    spool = opened(fs)
    made = fill(spool, 40)
    spool.ack(5)

    fs = fs.kill()
    again = opened(fs)

    assert (again.acked_fsn, again.published_fsn) == (5, 39)
    assert payloads(again) == made[6:]
    assert again.append([b"next"]) == 40
    (old, new) = again.read(39, 1 << 20)
    assert old.incarnation == spool.incarnation
    assert new.incarnation == again.incarnation != spool.incarnation


def test_a_drained_slot_holds_no_segments_and_goes_on_counting() -> None:
    fs = MemoryFilesystem()
    spool = opened(fs)
    fill(spool, 40)
    spool.maintain()
    spool.ack(39)

    assert spool.close() is True

    assert fs.list(SLOT) == [".ack-watermark", ".lock"]
    again = opened(fs)
    assert (again.acked_fsn, again.published_fsn) == (39, 39)
    assert again.append([b"next"]) == 40


def test_opening_and_closing_leaves_nothing_behind() -> None:
    fs = MemoryFilesystem()
    for _ in range(5):
        spool = opened(fs)
        spool.maintain()
        spool.close()

    assert segments(fs) == []


def test_short_runs_do_not_fill_the_spool_with_zeros() -> None:
    fs = MemoryFilesystem()
    for _ in range(20):
        spool = opened(fs, total_bytes_max=3 * SEGMENT)
        spool.append([b"x"])
        fs = fs.kill()

    assert payloads(opened(fs, total_bytes_max=3 * SEGMENT)) == [b"x"] * 20


def test_a_tail_that_is_empty_still_rotates_in_order() -> None:
    fs = MemoryFilesystem()
    spool = opened(fs)
    made = fill(spool, 7, size=3000)
    spool.ack(2)
    spool.maintain()

    assert payloads(opened(fs.kill())) == made[3:]


# A disk that is full or fails.


def test_a_full_disk_refuses_frames_and_recovers() -> None:
    fs = MemoryFilesystem(capacity_bytes=3 * SEGMENT + 8192)
    spool = opened(fs)
    made = []
    with pytest.raises(SpoolFailed) as caught:  # noqa: PT012
        while True:
            spool.append([payload := b"%d" % len(made) + bytes(1000)])
            made.append(payload)
            spool.maintain()
    assert "No space left" in caught.value.reason
    assert payloads(spool) == made
    assert spool.maintain() == 1.0  # asks to try again

    spool.ack(spool.published_fsn)
    spool.maintain()

    assert spool.append([b"again"]) == len(made)


def test_a_slot_on_a_full_disk_opens_and_drains() -> None:
    fs = MemoryFilesystem()
    made = fill(opened(fs), 40)
    fs = fs.kill()
    fs.capacity_bytes = 1
    spool = opened(fs)
    assert payloads(spool) == made
    with pytest.raises(SpoolFailed):
        spool.append([b"x"])

    spool.ack(39)
    spool.maintain()

    assert segments(fs) == []
    fs.capacity_bytes = None
    assert spool.append([b"x"]) == 40


@pytest.mark.parametrize("kind", ["write", "sync"])
def test_a_frame_that_failed_is_not_there_and_the_next_one_is(kind: str) -> None:
    fs = MemoryFilesystem()
    spool = opened(fs, durability="append")
    made = fill(spool, 3)
    fs.fail(kind, short=200 if kind == "write" else None, path=SLOT)

    with pytest.raises(SpoolFailed):
        spool.append([b"refused" * 100])
    assert payloads(spool) == made
    assert spool.append([b"taken"]) == 3

    assert fs.synced_after_failure == 0
    for state in fs.crash_states(limit=200):
        assert payloads(opened(state)) == [*made, b"taken"]


def test_frames_of_a_failed_sync_are_written_again() -> None:
    fs, clock = MemoryFilesystem(), FakeClock()
    spool = opened(fs, clock, durability="periodic", sync_interval_s=1)
    made = fill(spool, 30)
    fault = fs.fail("sync", path=SLOT, persistent=True)
    clock.advance(1000)
    assert spool.maintain() is not None
    assert fault.fired
    with pytest.raises(SpoolFailed):
        spool.append([b"refused"])
    assert payloads(spool) == made
    fs.heal()

    while (wait := spool.maintain()) is not None and wait <= 1:
        clock.advance(1000)

    assert fs.synced_after_failure == 0
    for state in fs.crash_states(limit=200):
        assert payloads(opened(state)) == made


def test_a_frame_that_rots_while_it_waits_is_never_given_out() -> None:
    fs = MemoryFilesystem()
    spool = opened(fs)
    made = fill(spool, 5)
    fs.corrupt(f"{SLOT}/{segments(fs)[0]}", 128 + 24 + 10)

    assert payloads(spool, 0) == [None, *made[1:]]
    (damage,) = spool.damage
    assert (damage.first_fsn, damage.last_fsn) == (0, 0)
    assert spool.frames_lost == 1
    assert spool.acked_fsn == 0  # nobody will ever acknowledge it


def test_whoever_watches_hears_of_damage_from_before_and_from_now() -> None:
    fs = MemoryFilesystem()
    spool = opened(fs)
    fill(spool, 5)
    spool.ack(0)
    spool.close()
    path = f"{SLOT}/{segments(fs)[0]}"
    for fsn in (0, 2):
        fs.corrupt(path, fs.read(path).index(b"%d:%c%c" % (fsn, fsn, fsn)))
    spool = opened(fs)
    heard: list[tuple[int, int, int]] = []
    spool.watch_damage(lambda one, frames: heard.append((one.first_fsn, one.last_fsn, frames)))
    assert heard == [(0, 0, 0), (2, 2, 1)]  # nobody needs the first any more

    fs.corrupt(path, fs.read(path).index(b"3:\3\3"))
    payloads(spool)
    payloads(spool)

    assert heard[2:] == [(3, 3, 1)]
    assert spool.frames_lost == 2


def test_a_refused_frame_stays_until_it_can_be_kept() -> None:
    fs = MemoryFilesystem()
    spool = opened(fs)
    fill(spool, 2)
    fs.fail("create", path="dead-letter", error=errno.ENOSPC)

    with pytest.raises(SpoolFailed):
        spool.reject(0, REFUSED)
    assert spool.acked_fsn == -1

    spool.reject(0, REFUSED)
    assert spool.acked_fsn == 0


# Upkeep.


def test_a_periodic_sync_needs_no_server() -> None:
    fs, clock = MemoryFilesystem(), FakeClock()
    spool = opened(fs, clock, durability="periodic", sync_interval_s=2)
    spool.append([b"a"])
    assert spool.wait_for_work(0)
    assert spool.maintain() == 2.0
    clock.advance(1500)
    spool.append([b"b"])
    assert spool.maintain() == 0.5
    assert payloads(opened(next(fs.crash_states()))) == []

    clock.advance(500)
    assert spool.maintain() is None

    for state in fs.crash_states():
        assert payloads(opened(state)) == [b"a", b"b"]


@pytest.mark.parametrize("durability", ["periodic", "append"])
def test_what_an_earlier_run_left_unsynced_is_synced_first(durability: str) -> None:
    fs = MemoryFilesystem()
    made = fill(opened(fs), 20)
    fs = fs.kill()
    spool = opened(fs, durability=durability)

    spool.maintain()

    for state in fs.crash_states():
        assert payloads(opened(state)) == made


def test_upkeep_has_nothing_to_do_when_nothing_happens() -> None:
    fs = MemoryFilesystem()
    spool = opened(fs, durability="periodic")
    assert spool.maintain() is None
    operations = fs.operations

    assert not spool.wait_for_work(0)
    assert spool.maintain() is None
    assert fs.operations == operations


def test_three_threads_at_once() -> None:
    """A producer, a reader that acknowledges, and upkeep, in a spool of a few segments."""
    spool = opened(MemoryFilesystem(), total_bytes_max=6 * SEGMENT, durability="periodic")
    spool._clock = SystemClock()
    count = 3000
    got: list[bytes | None] = []
    is_over = threading.Event()

    def keep() -> None:
        while not is_over.is_set():
            spool.wait_for_work(min(0.05, spool.maintain() or 1))

    def drain() -> None:
        while len(got) < count and not is_over.is_set():
            batch = spool.read(spool.acked_fsn + 1, 5000)
            if not batch:
                is_over.wait(0.001)
                continue
            got.extend(payload_of(stored) for stored in batch)
            spool.ack(batch[-1].fsn)

    threads = [threading.Thread(target=keep), threading.Thread(target=drain)]
    for thread in threads:
        thread.start()
    try:
        for n in range(count):
            while True:
                try:
                    spool.append([b"%d" % n, bytes(n % 300)])
                    break
                except SpoolFull:
                    spool.wait_for_room(5, n % 300)
        threads[1].join(DEADLINE_S)
    finally:
        is_over.set()
        for thread in threads:
            thread.join(DEADLINE_S)

    assert got == [b"%d" % n + bytes(n % 300) for n in range(count)]
