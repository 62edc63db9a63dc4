"""The index of keys on disk, held against a list."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from penstock.features import evicted_index
from penstock.features.evicted_index import EvictedIndex
from tests.support.seeds import new_seed


def hashes_of(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint64)


@pytest.mark.parametrize("distinct", [3, 1 << 62])
def test_every_key_has_an_entry_of_its_own_though_hashes_are_equal(distinct: int) -> None:
    chance = Random(new_seed())
    index = EvictedIndex(has_times=False)
    known: dict[int, int] = {}  # place -> hash
    for _ in range(30):
        added = [chance.randrange(distinct) for _ in range(chance.randrange(40))]
        places = [len(known) + i + 1 for i in range(len(added))]
        while set(places) & set(known):
            places = [place + 1000 for place in places]
        index.add(hashes_of(*added), hashes_of(*places))
        known |= dict(zip(places, added, strict=True))
        gone = chance.sample(sorted(known), len(known) // 3)
        for place in gone:
            index.remove(np.array([entry_of(index, known.pop(place), place)]))

        assert len(index) == len(known)
        for place, hashed in known.items():
            entry = entry_of(index, hashed, place)
            assert index.places(np.array([entry])).tolist() == [place]
        assert sorted(index.places(index.entries()).tolist()) == sorted(known)


def entry_of(index: EvictedIndex, hashed: int, place: int) -> int:
    """Walk over the entries of one hash."""
    found = index.find(hashes_of(hashed))
    while index.places(found).tolist() != [place]:
        found = index.find(hashes_of(hashed), found)
        assert found.tolist() != [-1]
    return int(found[0])


def test_a_hash_that_is_not_there_has_no_entry() -> None:
    index = EvictedIndex(has_times=False)

    assert index.find(hashes_of(5)).tolist() == [-1]
    index.add(hashes_of(5, 6), hashes_of(1, 2))
    assert index.find(hashes_of(7, 5)).tolist()[0] == -1
    found = index.find(hashes_of(5))
    assert index.find(hashes_of(5), found).tolist() == [-1]


def test_old_entries_are_found_by_their_times() -> None:
    index = EvictedIndex(has_times=True)
    index.add(hashes_of(10, 11, 12), hashes_of(1, 2, 3), np.array([5, 6, 7]))

    old = index.older_than(7, 0, index.size)

    assert sorted(index.places(old).tolist()) == [1, 2]
    index.remove(old)
    assert not len(index.older_than(7, 0, index.size))


def test_an_entry_takes_about_twenty_bytes() -> None:
    index = EvictedIndex(has_times=False)
    count = 100_000
    numbers = np.random.default_rng(1).integers(0, (1 << 64) - 1, count, np.uint64)
    for part in np.array_split(np.arange(count), 50):
        index.add(numbers[part], (part + 1).astype(np.uint64))

    assert (index.find(numbers) >= 0).all()
    assert 16 / 0.75 <= index.bytes / count <= 16 / 0.75 * 1.3


def test_removed_entries_do_not_make_it_grow() -> None:
    index = EvictedIndex(has_times=False)
    for number in range(200):
        index.add(hashes_of(*range(1000 * number, 1000 * number + 40)), hashes_of(*range(1, 41)))
        index.remove(index.entries())

    assert index.size < 200


@pytest.mark.parametrize("step", [3, 1 << 14])
@pytest.mark.parametrize("bits", [6, 40, 64])
def test_entries_are_shown_in_the_order_of_their_hashes(
    monkeypatch: pytest.MonkeyPatch, bits: int, step: int
) -> None:
    """Also when many of them have one home, and when they are behind the last entry."""
    monkeypatch.setattr(evicted_index, "_STEP", step)
    chance = Random(new_seed())
    index = EvictedIndex(has_times=False)
    known: dict[int, int] = {}  # place -> hash
    for _ in range(20):
        added = [
            chance.choice([0, (1 << 64) - (1 << bits)]) + chance.randrange(1 << bits)
            for _ in range(chance.randrange(60))
        ]
        added = [max(2, one % (1 << 64)) for one in added]
        places = range(max(known, default=0) + 1, max(known, default=0) + 1 + len(added))
        index.add(hashes_of(*added), hashes_of(*places))
        known |= dict(zip(places, added, strict=True))
        for place in chance.sample(sorted(known), len(known) // 3):
            index.remove(np.array([entry_of(index, known.pop(place), place)]))

        shown: list[int] = []
        first, most = 0, chance.randrange(1, 20)
        while first < 1 << 64:
            entries, end = index.in_order(first, most)
            hashes = index.hashes(entries).tolist()
            assert end > first
            assert all(first <= one < end for one in hashes)
            assert len(entries) >= most or end == 1 << 64
            shown += index.places(entries).tolist()
            first = end
        assert sorted(shown) == sorted(known)

        middle = chance.choice([0, *known.values()])
        entries, end = index.in_order(middle, len(known) + 1)
        found = sorted(index.hashes(entries).tolist())
        assert found == sorted(one for one in known.values() if one >= middle)
