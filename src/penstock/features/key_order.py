"""The order in which a scan shows keys: that of their hashes, which a key keeps when it moves
between memory and disk.

The upper half of a hash is the rank of the key, which says where it is in the table of those in
memory and in the table of those on disk. So both give their keys in this order without sorting.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from penstock.codec.kernel import xxh3_64
from penstock.errors import InvalidArgument
from penstock.features.event_column import Int64s
from penstock.features.evicted_index import Hashes
from penstock.features.key_index import RANK_BITS, KeyIndex, ranks

HASH_END: Final = 1 << 64

# A cursor: the number of this process, and the upper bits of a hash. It is below 2^53, so that
# every reader of JSON has it exactly.
_ORDER_BITS: Final = 42
_DROPPED_BITS: Final = 64 - _ORDER_BITS
_ORDER_MASK: Final = (1 << _ORDER_BITS) - 1
_PROCESS: Final = 1 + secrets.randbelow((1 << 53 - _ORDER_BITS) - 1)
_SECRET: Final = secrets.token_bytes(16)  # nobody can make hashes collide
_LOW_MASK: Final = (1 << RANK_BITS) - 1


def hashes(keys: Sequence[bytes]) -> Hashes:
    """The hash of each encoded key, for this process."""
    low = (xxh3_64(_SECRET + key) & _LOW_MASK for key in keys)
    return ranks(keys).astype(np.uint64) << np.uint64(RANK_BITS) | np.fromiter(
        low, np.uint64, len(keys)
    )


class InOrder(NamedTuple):
    """Some things that have hashes, in no order: all whose hash is at least what was asked for and
    below `end`."""

    found: Int64s
    hashes: Hashes
    end: int


NO_KEYS: Final = InOrder(np.empty(0, np.int64), np.empty(0, np.uint64), HASH_END)


class NextKeys(NamedTuple):
    """The keys of a page: numbers of the first source and of the second, and the next cursor."""

    here: Int64s
    there: Int64s
    following: int | None


def in_memory(keys: KeyIndex, first: int, most: int) -> InOrder:
    """The slots of at least `most` keys from this hash on, if there are so many."""
    slots, end = keys.in_order(first >> RANK_BITS, most)
    found = hashes(keys.encoded_keys(slots))
    is_next = found >= np.uint64(first)
    return InOrder(slots[is_next], found[is_next], end << RANK_BITS)


def next_keys(here: InOrder, there: InOrder, most: int) -> NextKeys:
    """The first `most` of both. More only if that many have one hash, about."""
    end = min(here.end, there.end)
    both = np.concatenate([here.hashes, there.hashes])
    if end < HASH_END:
        both = both[both < np.uint64(end)]
    if len(both) > most:
        orders = np.sort(both >> np.uint64(_DROPPED_BITS))
        last = int(orders[most])
        end = (last if int(orders[0]) < last else last + 1) << _DROPPED_BITS
    if end >= HASH_END:
        return NextKeys(here.found, there.found, None)
    before = np.uint64(end)
    following = _PROCESS << _ORDER_BITS | end >> _DROPPED_BITS
    return NextKeys(here.found[here.hashes < before], there.found[there.hashes < before], following)


def first_hash(after: int) -> int:
    """The hash at which the page of a cursor begins; 0: the first page."""
    if after == 0:
        return 0
    if after >> _ORDER_BITS != _PROCESS:
        raise InvalidArgument(
            f"invalid after={after}: it is not the next_after of a page since the log was opened; "
            "begin again with after=0"
        )
    return (after & _ORDER_MASK) << _DROPPED_BITS
