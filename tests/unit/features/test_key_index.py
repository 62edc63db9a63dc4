"""Slots of keys, held against a dict."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.features import fold_kernel, key_index
from penstock.features.event_column import ColumnType, column_of
from penstock.features.key_index import KeyIndex, KeySlots
from tests.support.seeds import new_seed


@pytest.fixture(params=["interpreted", "compiled"], autouse=True)
def each_form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_kernel, "chosen", fold_kernel.load(request.param == "interpreted"))


def inserted(
    index: KeyIndex,
    keys: Sequence[Sequence[Any]],
    times: Sequence[int] | None = None,
) -> KeySlots:
    ts = np.array(times or [0] * len(keys), np.int64)
    columns = [column_of(kind, [key[i] for key in keys]) for i, kind in enumerate(index.types)]
    largest = np.maximum.accumulate(ts) if len(ts) else ts
    return index.touch(index.insert(columns, len(keys)), ts, largest)


def found(index: KeyIndex, keys: Sequence[Sequence[Any]]) -> list[int]:
    return [index.find(key) for key in keys]


def test_slots_are_given_in_order_of_first_appearance() -> None:
    index = KeyIndex(["str"])

    first = inserted(index, [("b",), ("a",), ("b",), (None,), ("",)])
    second = inserted(index, [("a",), ("c",)])

    assert first.slots.tolist() == [0, 1, 0, -1, 2]
    assert first.created.tolist() == [0, 1, 2]
    assert second.slots.tolist() == [1, 3]
    assert [index.key(slot) for slot in index.slots()] == [("b",), ("a",), ("",), ("c",)]


def test_a_table_without_key_columns_has_one_key() -> None:
    index = KeyIndex([])

    assert inserted(index, [(), (), ()]).slots.tolist() == [0, 0, 0]
    assert found(index, [()]) == [0]
    assert index.key(0) == ()


@pytest.mark.parametrize(
    ("types", "keys"),
    [
        (["i64"], [(1,), (-1,), (2**63 - 1,), (-(2**63),), (0,)]),
        (["bool"], [(True,), (False,)]),
        (["f64"], [(1.0,), (0.1,), (-2.5,)]),
        (["str"], [("1",), ("true",), ("é\0\U0001f600",), ("",)]),
        (["str", "i64", "str"], [("a", 1, "b"), ("a", 1, ""), ("", 1, "ab"), ("ab", 1, "")]),
        (["i64", "bool"], [(1, True), (1, False), (0, True)]),
    ],
)
def test_keys_come_back_as_they_were(types: list[ColumnType], keys: list[tuple[Any, ...]]) -> None:
    index = KeyIndex(types)

    slots = inserted(index, keys).slots.tolist()

    assert slots == list(range(len(keys)))
    assert [index.key(slot) for slot in slots] == keys
    assert found(index, keys) == slots


def test_zero_and_minus_zero_are_one_key() -> None:
    assert inserted(KeyIndex(["f64"]), [(0.0,), (-0.0,)]).slots.tolist() == [0, 0]


@pytest.mark.parametrize("key", [("1",), (True,), (1.0,), (None,), (), (1, 2), "1", (2**63,)])
def test_a_key_of_another_type_is_refused(key: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"invalid key .* expected"):
        KeyIndex(["i64"]).find(key)


def test_half_of_a_surrogate_pair_is_no_key() -> None:
    with pytest.raises(InvalidArgument):
        KeyIndex(["str"]).find(("\ud800",))


def test_freed_slots_are_used_again() -> None:
    index = KeyIndex(["i64"])
    inserted(index, [(n,) for n in range(6)])

    index.remove(np.array([2, 4]))

    assert found(index, [(2,), (3,), (4,)]) == [-1, 3, -1]
    assert index.free_slots().tolist() == [4, 2]
    assert inserted(index, [(10,), (11,), (12,)]).slots.tolist() == [4, 2, 6]


@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.integers(0, 400), min_size=1, max_size=60)),
        max_size=12,
    ),
    st.integers(1, 25),
)
@settings(max_examples=20)
def test_an_index_is_a_dict(steps: list[tuple[bool, list[int]]], size: int) -> None:
    """Inserting, removing, growing and packing, with keys of many sizes."""
    for pure in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fold_kernel, "chosen", fold_kernel.load(pure))
            index, expected = KeyIndex(["str"]), dict[tuple[str], int]()
            for is_insert, numbers in steps:
                keys = [("k" * (n % size) + str(n),) for n in numbers]
                if is_insert:
                    slots = inserted(index, keys).slots.tolist()
                    for key, slot in zip(keys, slots, strict=True):
                        assert expected.setdefault(key, slot) == slot
                    assert len(set(expected.values())) == len(expected)
                else:
                    gone = {key: expected.pop(key) for key in keys if key in expected}
                    index.remove(np.array(list(gone.values()), np.int64))
                assert len(index) == len(expected)
                assert found(index, keys) == [expected.get(key, -1) for key in keys]
            assert {index.key(slot): slot for slot in index.slots().tolist()} == expected


def test_many_keys_survive_growth_and_packing() -> None:
    random_keys = random.Random(new_seed())
    index = KeyIndex(["str", "i64"])
    expected: dict[tuple[str, int], int] = {}
    for _ in range(20):
        keys = [("x" * random_keys.randrange(40), random_keys.randrange(500)) for _ in range(100)]
        expected.update(zip(keys, inserted(index, keys).slots.tolist(), strict=True))
        gone = random_keys.sample(sorted(expected), len(expected) // 2)
        index.remove(np.array([expected.pop(key) for key in gone], np.int64))

    assert found(index, list(expected)) == list(expected.values())
    assert index.bytes < 40_000


def test_a_key_that_comes_back_late_gets_a_new_slot() -> None:
    index = KeyIndex(["str"], 100)
    inserted(index, [("a",), ("b",)], [0, 50])

    late = inserted(index, [("b",), ("a",), ("a",), ("b",)], [100, 101, 102, 150])

    assert late.slots.tolist() == [1, 2, 2, 1]
    assert late.retired.tolist() == [0]
    assert late.created.tolist() == [2]
    assert found(index, [("a",)]) == [2]
    assert index.has_key.tolist() == [False, True, True]
    index.remove(late.retired)
    assert inserted(index, [("c",)], [150]).slots.tolist() == [0]


def test_a_key_can_come_back_twice_in_one_batch() -> None:
    index = KeyIndex(["str"], 100)

    late = inserted(index, [("a",), ("a",), ("a",)], [0, 200, 400])

    assert late.slots.tolist() == [0, 1, 2]
    assert late.retired.tolist() == [0, 1]
    assert index.touched[2] == 400


def test_another_key_makes_a_key_cold() -> None:
    """The largest time counts, so that removing cold keys early changes nothing."""
    index = KeyIndex(["str"], 100)

    late = inserted(index, [("a",), ("b",), ("a",)], [0, 500, 50])

    assert late.slots.tolist() == [0, 1, 2]


def test_a_saved_index_comes_back_with_its_slots() -> None:
    index = KeyIndex(["str", "i64"], 100)
    inserted(index, [("key", n) for n in range(50)], list(range(50)))
    index.remove(np.array([3, 40, 7]))

    copy = KeyIndex(["str", "i64"], 100)
    copy.start_loading(index.used, index.key_bytes, index.free_slots())
    for slots in (index.slots()[30:], index.slots()[:30]):
        copy.load(slots, *index.save(slots), index.times_of(slots))
    copy.end_loading()

    assert [copy.key(slot) for slot in copy.slots()] == [index.key(slot) for slot in index.slots()]
    assert copy.touched[copy.slots()].tolist() == index.touched[index.slots()].tolist()
    more = [("new", n) for n in range(5)]
    assert inserted(copy, more).slots.tolist() == inserted(index, more).slots.tolist()


def test_a_damaged_index_is_not_loaded() -> None:
    index = KeyIndex(["str"])
    inserted(index, [("a",), ("b",)])
    slots = index.slots()
    sizes, keys = index.save(slots)

    for damaged in (sizes + np.int32(1), sizes - np.int32(1)):
        copy = KeyIndex(["str"])
        copy.start_loading(2, 0, np.empty(0, np.int64))
        with pytest.raises((ValueError, IndexError)):
            copy.load(slots, damaged, keys, index.times_of(slots))
    copy = KeyIndex(["str"])
    copy.start_loading(3, 0, np.empty(0, np.int64))
    copy.load(slots, sizes, keys, index.times_of(slots))
    with pytest.raises(ValueError, match="free slots"):
        copy.end_loading()


def test_keys_are_shown_in_the_order_of_their_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once, however the table grew and whatever was removed."""
    monkeypatch.setattr(key_index, "_STEP_PLACES", 5)
    chance = random.Random(new_seed())
    index = KeyIndex(["str"], 100)
    for _ in range(12):
        inserted(index, [(f"key {chance.randrange(400)}",) for _ in range(60)])
        index.remove(np.array(chance.sample(index.slots().tolist(), len(index) // 4), np.int64))
        slots = index.slots()
        ranks = dict(zip(slots.tolist(), index.ranks(slots).tolist(), strict=True))

        shown: list[int] = []
        first, most = 0, chance.randrange(1, 40)
        while first < 1 << 32:
            found, end = index.in_order(first, most)
            assert end > first
            assert all(first <= ranks[slot] < end for slot in found.tolist())
            assert len(found) >= most or end == 1 << 32
            shown += found.tolist()
            first = end
        assert sorted(shown) == slots.tolist()

        middle = chance.choice(list(ranks.values()))
        found, _ = index.in_order(middle, len(index))
        assert sorted(found.tolist()) == [slot for slot in slots if ranks[slot] >= middle]


def test_a_key_has_one_rank_in_every_index() -> None:
    one, other = KeyIndex(["str"]), KeyIndex(["str"])
    inserted(one, [(f"key {n}",) for n in range(50)])
    inserted(other, [(f"key {n}",) for n in reversed(range(500))])
    keys = one.encoded_keys(one.slots())

    ranks = key_index.ranks(keys).tolist()

    assert keys == [f"key {n}".encode() for n in range(50)]
    assert one.ranks(one.slots()).tolist() == ranks
    assert other.ranks(np.array(found(other, [(f"key {n}",) for n in range(50)]))).tolist() == ranks
    assert key_index.ranks([keys[3], keys[2], keys[3]]).tolist() == [ranks[3], ranks[2], ranks[3]]
    assert len(set(ranks)) > 45
    assert max(ranks) > 1 << 30
