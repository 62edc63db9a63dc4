"""When keys leave, and which."""

from __future__ import annotations

import numpy as np

from penstock.features import memory_bound
from penstock.features.memory_bound import KeyUses, MemoryBound


def test_nothing_leaves_while_there_is_memory() -> None:
    bound = MemoryBound(1000)

    assert bound.surplus(700, 100, 1) == 0
    assert not bound.is_over(10**9)


def test_nearly_full_the_number_of_keys_stays_what_it_is() -> None:
    bound = MemoryBound(1000)

    assert bound.surplus(800, 160, 1) == 0
    assert bound.is_over(161)
    assert not bound.is_over(160)
    assert bound.surplus(900, 165, 1) == 5 + 10
    assert bound.surplus(900, 160, 1) == 0


def test_everything_leaves_when_memory_grows_beyond_the_bound() -> None:
    bound = MemoryBound(1000)
    bound.surplus(800, 160, 1)

    assert bound.surplus(1001, 120, 1) == 120
    assert not bound.is_over(10**9)


def test_a_larger_bound_lets_keys_in_again() -> None:
    bound = MemoryBound(1000)
    bound.surplus(800, 160, 1)
    bound.bytes_max = 2000

    assert bound.surplus(800, 170, 1) == 0
    assert not bound.is_over(170)


def test_the_oldest_are_those_whose_last_batch_is_the_oldest() -> None:
    uses = KeyUses()
    uses.note(np.array([0, 1, 2, 3]), 4)
    uses.note(np.array([1, 1, 100]), 101)
    uses.note(np.array([0]), 101)
    slots = np.array([0, 1, 2, 3, 100])

    assert uses.oldest(slots, 2).tolist() == [2, 3]
    assert set(uses.oldest(slots, 4).tolist()) == {1, 2, 3, 100}
    assert uses.oldest(slots, 5).tolist() == slots.tolist()


def test_the_number_of_batches_has_no_end() -> None:
    uses = KeyUses()
    uses._batch = memory_bound._BATCH_MAX - 1
    for slot in (0, 1, 2):
        uses.note(np.array([slot]), 3)

    assert uses.oldest(np.array([0, 1, 2]), 1).tolist() == [0]


def test_there_is_room_for_as_many_uses_as_there_were_last() -> None:
    bound = MemoryBound(1000)
    bound.surplus(800, 160, 30)

    assert bound.surplus(900, 170, 30) == 10 + 30
    assert bound.surplus(900, 400, 500) == 240 + 80
