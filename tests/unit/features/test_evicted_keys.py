"""Keys on disk: found by their bytes, left behind when most is dead, never wrong."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from penstock.features import evicted_index, evicted_keys, key_order
from penstock.features.evicted_keys import EvictedKeys
from penstock.features.evicted_records import RecordCodec, keys_of
from penstock.features.part_snapshot import Piece
from penstock.features.table_features import TableFeatures
from penstock.features.table_part import TablePart
from penstock.projections.projection import StateLost
from penstock.projections.spill import SpillFolder
from penstock.testing.fs import MemoryFilesystem
from tests.unit.features.bounded_rig import FOLDER, batch, plan_of, texts_of

PLAN = plan_of("60s")


@pytest.fixture(scope="module")
def part() -> TablePart:
    found = TablePart(PLAN)
    found.apply(batch(texts_of(Random(1), 300)))
    return found


@pytest.fixture
def fs() -> MemoryFilesystem:
    return MemoryFilesystem()


@pytest.fixture
def evicted(fs: MemoryFilesystem) -> EvictedKeys:
    return EvictedKeys(
        SpillFolder(fs, FOLDER), RecordCodec(TableFeatures(PLAN.features), has_times=True)
    )


def piece_of(part: TablePart, first: int, stop: int) -> Piece:
    return part._piece(part._keys.slots()[first:stop], part._events.largest)


def names(piece: Piece) -> list[bytes]:
    return keys_of(piece["keys"]["sizes"], piece["keys"]["keys"])


def test_keys_are_taken_once(part: TablePart, evicted: EvictedKeys) -> None:
    piece = piece_of(part, 0, 9)
    evicted.add(piece)
    asked = [b"nobody", *names(piece)[3:5], b""]

    found, taken = evicted.take(asked)

    assert found.tolist() == [1, 2]
    assert names(taken) == names(piece)[3:5]
    assert len(evicted) == 7
    assert not len(evicted.take(asked)[0])
    assert (evicted.counts.evicted, evicted.counts.reloaded) == (9, 2)


def test_equal_hashes_are_told_apart_by_the_keys(
    part: TablePart, evicted: EvictedKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: Callable[..., np.ndarray] = lambda keys: np.full(len(keys), 7, np.uint64)  # noqa: E731
    monkeypatch.setattr(key_order, "hashes", hashed)
    piece = piece_of(part, 0, 9)
    evicted.add(piece)

    for name in reversed(names(piece)):
        found, taken = evicted.take([b"nobody", name])
        assert found.tolist() == [1]
        assert names(taken) == [name]
    assert len(evicted) == 0


def test_keys_that_are_looked_at_stay(
    part: TablePart, evicted: EvictedKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evicted_keys, "PIECE_BYTES", 1)
    piece = piece_of(part, 0, 40)
    evicted.add(piece)
    asked = [b"nobody", *names(piece), b""]

    shown = {
        number: name
        for numbers, some in evicted.peek(asked)
        for number, name in zip(numbers.tolist(), names(some), strict=True)
    }

    assert shown == dict(enumerate(names(piece), 1))
    assert len(evicted) == 40
    assert evicted.counts.reloaded == 0
    assert list(evicted.peek([b"nobody"])) == []


def test_keys_are_in_the_order_of_their_hashes(
    part: TablePart, evicted: EvictedKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evicted_index, "_STEP", 8)
    piece = piece_of(part, 0, 40)
    evicted.add(piece)

    first = evicted.in_order(0, 5)
    rest = evicted.in_order(first.end, 40)

    assert rest.end == key_order.HASH_END
    assert first.hashes.max() < first.end <= rest.hashes.min()
    shown = [
        name for one in (first, rest) for some in evicted.pieces(one.found) for name in names(some)
    ]
    assert sorted(shown) == sorted(names(piece))


def test_old_keys_are_dropped_in_turn(part: TablePart, evicted: EvictedKeys) -> None:
    piece = piece_of(part, 0, 20)
    evicted.add(piece)
    times = piece["keys"]["touched"]
    middle = int(np.median(times))

    for _ in range(100):
        evicted.drop_older(middle, 10)

    found, _ = evicted.take(names(piece))
    assert found.tolist() == np.flatnonzero(times >= middle).tolist()


def test_files_that_are_mostly_dead_are_left(
    part: TablePart, evicted: EvictedKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evicted_keys, "FILE_BYTES_MIN", 8 << 10)
    kept = piece_of(part, 0, 10)
    evicted.add(kept)
    rest = piece_of(part, 10, 40)
    written = 0
    for _ in range(20):
        evicted.add(rest)
        written = max(written, evicted.disk_bytes)
        evicted.take(names(rest))
        evicted.compact()

    assert evicted.disk_bytes < 3 * written
    found, taken = evicted.take(names(kept))
    assert len(found) == 10
    assert names(taken) == names(kept)


def test_a_view_shows_what_was_there_although_all_of_it_left(
    part: TablePart, evicted: EvictedKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evicted_keys, "FILE_BYTES_MIN", 4 << 10)
    monkeypatch.setattr(evicted_keys, "PIECE_BYTES", 8 << 10)
    first, later = piece_of(part, 0, 20), piece_of(part, 20, 30)
    evicted.add(first)
    view = evicted.view(100)
    places = evicted.add(later)
    evicted.show(view, np.arange(4), places[:4])
    evicted.take(names(first))
    for _ in range(3):
        evicted.compact()

    pieces = list(view)

    assert len(view) == 20
    assert len(pieces) > 2
    shown = [name for piece in pieces for name in names(piece)]
    slots = [slot for piece in pieces for slot in piece["keys"]["slots"].tolist()]
    assert sorted(shown) == sorted(names(first) + names(later)[:4])
    assert sorted(slots) == [0, 1, 2, 3, *range(100, 120)]


@pytest.mark.parametrize("byte", [0, 3, 8, 12, 17, 500, -1])
def test_a_damaged_record_is_never_taken(part: TablePart, evicted: EvictedKeys, byte: int) -> None:
    piece = piece_of(part, 0, 1)
    evicted.add(piece)
    (file,) = evicted._files.values()
    at = byte % file.size
    was = file.read(at, 1)
    file._file.write_at(bytes([was[0] ^ 1]), at)

    with pytest.raises(StateLost, match="damaged"):
        evicted.take(names(piece))


def test_a_file_that_was_cut_is_noticed(part: TablePart, evicted: EvictedKeys) -> None:
    piece = piece_of(part, 0, 3)
    evicted.add(piece)
    (file,) = evicted._files.values()
    file._file.truncate(file.size - 40)

    with pytest.raises(StateLost, match="damaged"):
        evicted.take(names(piece))


def test_a_full_disk_is_reported_and_what_was_used_of_it_is_given_back(
    part: TablePart, evicted: EvictedKeys, fs: MemoryFilesystem
) -> None:
    evicted.add(piece_of(part, 0, 3))
    fs.fail("write", short=100)

    with pytest.raises(OSError, match="keys cannot be moved to disk: No space") as raised:
        evicted.add(piece_of(part, 3, 5))

    assert raised.value.errno == errno.ENOSPC
    assert evicted.disk_bytes == 0


def test_a_record_too_long_for_its_place_is_found_by_its_head(
    part: TablePart, evicted: EvictedKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evicted_keys, "_SIZE_MAX", 10)
    piece = piece_of(part, 0, 5)
    evicted.add(piece)

    assert names(evicted.take(names(piece))[1]) == names(piece)
