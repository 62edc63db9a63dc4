"""The spool keeps its promises whatever happens to the machine or to its files."""

from __future__ import annotations

import itertools
import random
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from google_crc32c import value

from penstock.errors import FormatTooNew, PenstockError, SpoolFailed, SpoolHole
from penstock.sender.ack_watermark import WATERMARK_NAME
from penstock.sender.opening import open_spool
from penstock.sender.segment import HEAD_BYTES, RECORD_BYTES
from penstock.sender.settings import Durability, SpoolSettings
from penstock.sender.spool import Spool
from penstock.testing import MemoryFilesystem
from penstock.testing.clock import FakeClock
from penstock.wire.spool_frame import BadFrame, decode_frame, encode_frame
from tests.support import rig
from tests.support.spool_mutants import BLIND, HASTY, mutant
from tests.support.spool_rig import SLOT, explore

PARTS = range(10) if rig.IS_FULL else range(2)
STATES = 60 if rig.IS_FULL else 4
STEPS = 300 if rig.IS_FULL else 80
STRIDE = 1 if rig.IS_FULL else 3
DURABILITIES: tuple[Durability, ...] = ("memory", "periodic", "append")


# Crashes.


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("part", PARTS)
def test_no_crash_breaks_a_promise(part: int, durability: Durability) -> None:
    seed = rig.new_seed() + part

    assert explore(seed, durability, steps=STEPS, states=STATES, stride=STRIDE) > 100


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("part", PARTS)
def test_no_crash_breaks_a_promise_on_a_disk_that_fails(part: int, durability: Durability) -> None:
    seed = rig.new_seed() + part

    tried = explore(100 + seed, durability, steps=STEPS, states=STATES, stride=STRIDE, faults=True)
    assert tried > 100


def test_a_segment_that_could_not_be_taken_into_use_takes_no_frame_with_it() -> None:
    """Its head may have landed, and its removal not."""
    fs = MemoryFilesystem()
    bounds = SpoolSettings(sf_dir="/sf", sender_id="edge", segment_bytes=4096, durability="append")
    spool = open_spool(bounds, fs=fs, clock=FakeClock())
    spool.append([bytes(3000)])
    spool.maintain()  # makes a spare
    fs.fail("write", path=SLOT, short=100)
    with pytest.raises(SpoolFailed):
        spool.append([bytes(3000)])
    spool.ack(0)

    assert spool.append([b"fits into the old one"]) == 1

    for state in fs.crash_states(500):
        again = open_spool(bounds, fs=state, clock=FakeClock())
        assert found_in(again)[1] == b"fits into the old one"


# Damage. Thirteen frames of 900 bytes lie in four segments, four in each but the last.

FRAMES = 13
PAYLOAD_BYTES = 900
FRAME_BYTES = 4 + 20 + PAYLOAD_BYTES


def opened(fs: MemoryFilesystem) -> Spool:
    return open_spool(
        SpoolSettings(sf_dir="/sf", sender_id="edge", segment_bytes=4096),
        fs=fs,
        clock=FakeClock(),
        random_bytes=random.Random(fs.operations).randbytes,
    )


def payload(fsn: int) -> bytes:
    return bytes([65 + fsn]) * PAYLOAD_BYTES


def segment(number: int) -> str:
    return f"{SLOT}/sf-{number:016x}.seg"


def frame_at(fsn: int) -> tuple[str, int]:
    """Where the payload of a frame begins."""
    return segment(fsn // 4 + 1), HEAD_BYTES + fsn % 4 * FRAME_BYTES + 24


def killed(*, acked: int = -1, frames: int = FRAMES) -> MemoryFilesystem:
    fs = MemoryFilesystem()
    spool = opened(fs)
    for fsn in range(frames):
        spool.append([payload(fsn)])
        if fsn == acked:
            spool.ack(fsn)
    return fs.kill()


def found_in(spool: Spool) -> dict[int, bytes]:
    found = {}
    at = spool.acked_fsn + 1
    while batch := spool.read(at, 5000):
        for stored in batch:
            at = stored.fsn + 1
            if stored.data is not None:
                fsn, found[stored.fsn] = decode_frame(stored.data)
                assert fsn == stored.fsn
    return found


def lost_in(spool: Spool) -> set[int]:
    return {fsn for d in spool.damage for fsn in range(d.first_fsn, d.last_fsn + 1)}


Harm = Callable[[MemoryFilesystem], None]


def flip(*fsns: int) -> Harm:
    def harm(fs: MemoryFilesystem) -> None:
        for fsn in fsns:
            fs.corrupt(*frame_at(fsn))

    return harm


def delete(path: str) -> Harm:
    return lambda fs: fs.unlink(path)


def overwrite(path: str, offset: int, data: bytes) -> Harm:
    def harm(fs: MemoryFilesystem) -> None:
        old = fs.read(path)
        fs.replace(path, old[:offset] + data + old[offset + len(data) :])

    return harm


def version_two(fs: MemoryFilesystem) -> None:
    body = bytearray(fs.read(segment(2))[: RECORD_BYTES - 4])
    body[4] = 2
    overwrite(segment(2), 0, bytes(body) + struct.pack("<I", value(bytes(body))))(fs)


@dataclass(frozen=True)
class Row:
    """A damage, and what we promise after it."""

    what: str
    harm: Harm
    lost: tuple[int, ...] = ()  # not there any more
    told: bool = True  # and in `damage`
    error: type[PenstockError] | None = None  # refused instead, with everything left in place
    acked: int = -1  # before the kill
    acked_after: int | None = None  # when it differs: what is lost at the front is passed


TABLE = [
    Row("none", lambda fs: None),
    Row("killed after 6 acks", lambda fs: None, acked=5),
    Row("last frame flipped", flip(12), lost=(12,), told=False),
    Row("last frame flipped, and the watermark knew it", flip(12), lost=(12,), acked=12),
    Row("middle frame of the active segment flipped", flip(9), lost=(9,)),
    Row("middle frame of a sealed segment flipped", flip(5), lost=(5,)),
    Row("last frame of a sealed segment flipped", flip(7), lost=(7,)),
    Row("first frame flipped", flip(0), lost=(0,), acked_after=0),
    Row("three frames in a row flipped", flip(6, 7, 8), lost=(6, 7, 8)),
    Row("middle segment deleted", delete(segment(2)), error=SpoolHole),
    Row("first segment deleted, the watermark tells", delete(segment(1)), error=SpoolHole, acked=1),
    Row("first head record zeroed", overwrite(segment(2), 0, bytes(64))),
    Row("second head record zeroed", overwrite(segment(2), 64, bytes(64))),
    Row("first segment without a head", overwrite(segment(1), 0, bytes(128)), error=SpoolHole),
    Row("newest segment without a head", overwrite(segment(4), 0, bytes(128)), error=SpoolHole),
    Row("version byte 2", overwrite(segment(2), 4, b"\2")),
    Row("version 2, truly", version_two, error=FormatTooNew),
    Row("watermark garbage", overwrite(f"{SLOT}/{WATERMARK_NAME}", 0, b"\xff" * 8192), acked=1),
    Row("watermark deleted", delete(f"{SLOT}/{WATERMARK_NAME}"), acked=1),
    Row(
        "sealed segment cut",
        lambda fs: fs.truncate_at(segment(2), HEAD_BYTES + 2 * FRAME_BYTES + 5),
        lost=(6, 7),
    ),
    Row("newest segment deleted", delete(segment(4)), lost=(12,), told=False),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.what)
def test_damage_costs_what_the_table_says(row: Row) -> None:
    fs = killed(acked=row.acked)
    row.harm(fs)
    before = {path: fs.read(path) for path in fs.paths()}

    if row.error is not None:
        with pytest.raises(row.error):
            opened(fs)
        assert {path: fs.read(path) for path in fs.paths()} == before
        return
    spool = opened(fs)

    found = found_in(spool)
    is_garbage = "watermark" in row.what and row.acked == 1
    acked = -1 if is_garbage else row.acked if row.acked_after is None else row.acked_after
    assert spool.acked_fsn == acked
    expected = [fsn for fsn in range(acked + 1, FRAMES) if fsn not in row.lost]
    assert found == {fsn: payload(fsn) for fsn in expected}
    told = set(row.lost) if row.told and row.acked < FRAMES - 1 else set()
    assert lost_in(spool) == told
    is_torn = row.what.startswith("last frame flipped")  # it may never have been one
    assert bool(spool.torn_bytes) == is_torn
    assert len(spool.slot.quarantined()) == bool(told or is_torn) or len(row.lost) > 1
    assert spool.append([b"next"]) > max(found, default=-1)


# Every bit and every byte of a small spool: two segments, and a payload that looks like frames.

BAIT = encode_frame(2, b"bait") + encode_frame(4, b"bait") + encode_frame(9, b"bait")
SMALL = [b"zero", BAIT, b"two", b"three", b"four"]  # three in the first segment


def small() -> MemoryFilesystem:
    fs = MemoryFilesystem()
    spool = opened(fs)
    for item in SMALL[:3]:
        spool.append([item])
    spool.close()
    spool = opened(fs)
    for item in SMALL[3:]:
        spool.append([item])
    spool.close()
    return fs


def frames_of_small() -> Iterator[tuple[int, str, int, int]]:
    """Number, file, first byte and end of each frame."""
    for number, fsns in ((1, range(3)), (2, range(3, 5))):
        at = HEAD_BYTES
        for fsn in fsns:
            length = 20 + len(SMALL[fsn])
            yield fsn, segment(number), at + 4, at + 4 + length
            at += 4 + length


def check_flip(fs: MemoryFilesystem, path: str, bit: int) -> None:
    harmed = fs.copy()
    harmed.corrupt(path, bit // 8, 1 << bit % 8)
    try:
        spool = opened(harmed)
        found = found_in(spool)
    except (PenstockError, BadFrame) as error:
        raise AssertionError(f"{path}, bit {bit}: {error}") from error
    hit = {
        n for n, where, low, high in frames_of_small() if where == path and low <= bit // 8 < high
    }
    assert found == {fsn: SMALL[fsn] for fsn in range(5) if fsn not in hit}, (path, bit)
    assert lost_in(spool) == hit, (path, bit)


def check_flips() -> None:
    fs = small()
    for path in fs.paths():
        for byte in range(fs.size(path)):
            if path.endswith(WATERMARK_NAME) and byte % 4096 >= 64:
                continue  # never read
            for bit in range(8):
                check_flip(fs, path, byte * 8 + bit)


def test_a_flipped_bit_costs_at_most_its_own_frame() -> None:
    check_flips()


def test_a_cut_file_costs_the_frames_behind_the_cut_and_those_are_told() -> None:
    fs = small()
    for path in (segment(1), segment(2)):
        for size in range(fs.size(path)):
            harmed = fs.copy()
            harmed.truncate_at(path, size)
            if path == segment(1) and size < RECORD_BYTES:
                with pytest.raises(SpoolHole):
                    opened(harmed)
                continue
            spool = opened(harmed)
            cut = {n for n, where, _, end in frames_of_small() if where == path and end > size}
            assert found_in(spool) == {n: SMALL[n] for n in range(5) if n not in cut}, (path, size)
            assert lost_in(spool) == cut, (path, size)


def test_what_is_damaged_stays_so_through_openings_and_is_kept_until_the_end() -> None:
    fs = killed()
    flip(5)(fs)
    for _ in range(3):
        spool = opened(fs)
        assert lost_in(spool) == {5}
        fs = fs.kill()
    spool = opened(fs)
    spool.ack(FRAMES - 1)
    spool.maintain()
    spool.close()

    assert not [path for path in fs.paths() if path.endswith(".seg")]
    assert len([path for path in fs.paths() if path.endswith(".bytes")]) == 1


def test_damage_on_a_full_disk_is_moved_aside_with_its_segment() -> None:
    fs = killed()
    flip(5)(fs)
    fs.capacity_bytes = 1
    spool = opened(fs)
    spool.ack(FRAMES - 1)
    spool.maintain()

    assert fs.list(f"{SLOT}/quarantine") == ["sf-0000000000000002.seg.damaged"]


# A real process on a real disk.

VICTIM = """
import sys
from penstock.sender.opening import open_spool
from penstock.sender.settings import SpoolSettings
spool = open_spool(SpoolSettings(sf_dir=sys.argv[1], segment_bytes=65536))
while True:
    fsn = spool.append([b"%d" % (spool.published_fsn + 1)])
    sys.stdout.write(f"{fsn}\\n")
    sys.stdout.flush()
    if fsn % 1000 == 0:
        spool.maintain()
"""


def test_what_a_killed_process_had_stored_is_there(tmp_path: Path) -> None:
    returned = -1
    for _ in range(5 if rig.IS_FULL else 2):
        command = [sys.executable, "-c", VICTIM, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
            assert victim.stdout is not None
            for line in itertools.islice(victim.stdout, 3000):
                returned = int(line)
            victim.kill()
        spool = open_spool(SpoolSettings(sf_dir=str(tmp_path), segment_bytes=65536))
        found = found_in(spool)
        spool.close()

        assert spool.published_fsn >= returned
        assert found == {fsn: b"%d" % fsn for fsn in range(spool.published_fsn + 1)}


# The rig itself.


@pytest.mark.parametrize("name", BLIND)
def test_a_blind_spool_is_noticed(name: str) -> None:
    with mutant(name), pytest.raises(AssertionError):
        check_flips()


@pytest.mark.parametrize("name", HASTY)
def test_a_hasty_spool_is_noticed(name: str) -> None:
    with mutant(name), pytest.raises(AssertionError):  # noqa: PT012
        for seed, durability in itertools.product(range(7, 12), reversed(DURABILITIES)):
            for faults in (True, False):
                explore(seed, durability, steps=80, states=8, stride=2, faults=faults)
