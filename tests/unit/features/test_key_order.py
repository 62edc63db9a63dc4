"""Pages of keys in the order of their hashes."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from penstock.errors import InvalidArgument
from penstock.features import key_order
from penstock.features.key_order import HASH_END, NO_KEYS, InOrder
from tests.support.seeds import new_seed


def in_order(hashes: dict[int, int], first: int, most: int) -> InOrder:
    """As an index would give them: at least so many, and up to where it looked."""
    left = sorted((one, number) for number, one in hashes.items() if one >= first)
    later = [one for one, _ in left[most + 1 :] if one > left[most][0]]
    end = later[0] if later else HASH_END
    found = [(one, number) for one, number in left if one < end]
    return InOrder(
        np.array([number for _, number in found], np.int64),
        np.array([one for one, _ in found], np.uint64),
        end,
    )


@pytest.mark.parametrize("distinct", [3, 40, 1 << 16])
def test_pages_have_every_key_once_though_some_have_one_hash(distinct: int) -> None:
    chance = Random(new_seed())
    for most in (1, 2, 7, 100):
        numbers = iter(range(1000))
        sources = [
            {next(numbers): chance.randrange(distinct) << 48 for _ in range(count)}
            for count in (30, 60)
        ]
        shown: list[int] = []
        after: int | None = 0
        while after is not None:
            first = key_order.first_hash(after)
            here, there = (in_order(source, first, most + 1) for source in sources)
            page = key_order.next_keys(here, there, most)
            found = page.here.tolist() + page.there.tolist()
            known = [(sources[0] | sources[1])[number] for number in found]
            assert len(found) <= most or len(set(known)) == 1
            shown += found
            after = page.following
            assert after is None or after < 1 << 53

        assert sorted(shown) == list(range(90))


def test_an_empty_table_has_one_page() -> None:
    page = key_order.next_keys(NO_KEYS, NO_KEYS, 10)

    assert (page.here.tolist(), page.there.tolist(), page.following) == ([], [], None)


def test_a_cursor_of_another_process_is_refused() -> None:
    here = InOrder(np.arange(3), np.array([5 << 40, 6 << 40, 7 << 40], np.uint64), HASH_END)
    after = key_order.next_keys(here, NO_KEYS, 1).following
    assert after is not None

    assert key_order.first_hash(after) == 6 << 40
    for wrong in (1, 1000, after + (1 << 42), after - (1 << 42), 1 << 53, 1 << 80):
        with pytest.raises(InvalidArgument, match=f"invalid after={wrong}: .* begin again"):
            key_order.first_hash(wrong)


def test_a_hash_depends_on_the_whole_key() -> None:
    keys = [b"", b"a", b"b", b"a\0", bytes(8), bytes(16)]

    hashes = key_order.hashes(keys)

    assert len(set(hashes.tolist())) == len(keys)
    assert hashes.tolist() == [key_order.hashes([key]).tolist()[0] for key in keys]
    assert key_order.hashes([]).tolist() == []
