"""A value that a share of all values does not exceed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from penstock.features import fold_kernel
from penstock.features.event_column import Floats
from penstock.features.kernel_source.row_shapes import (
    BUCKET_COUNT_MAX,
    BUCKET_MAGNITUDE_MASK,
    BUCKET_SHIFT,
    BUCKET_SIGN_BIT,
    LIST_MODE,
    QUANTILE_EXACT_MAX,
)
from penstock.features.operators.block_state import (
    FIRST_ROW,
    HEAD_BYTES,
    TABLE_MODE,
    BlockState,
    Heads,
    heads_of,
    one_row,
    row_array,
    words_of,
)
from penstock.features.operators.operator import Fold
from penstock.features.operators.operator_kind import OperatorKind, Parameter
from penstock.features.operators.value_words import Words, bits_of, values_of_bytes

WIDTH = 2  # bucket and count
WIDENINGS_MAX = 16  # then a bucket is half of all floats of its sign
BUCKETS_OF_OCTAVE = 1 << (52 - BUCKET_SHIFT)


class Quantile(BlockState):
    """The values of a row; above QUANTILE_EXACT_MAX how many there are in each bucket."""

    def __init__(self, share: float) -> None:
        super().__init__(WIDTH)
        self._share = share

    def fold(self, fold: Fold) -> None:
        (column,) = fold.fields
        words = bits_of(column.floats())
        fold_kernel.chosen.fold_buckets(
            self.blocks, fold.rows, fold.passes, column.is_present, words
        )

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        blocks, picked = self.blocks, row_array(rows)
        exact = fold_kernel.chosen.list_bytes(blocks, picked, QUANTILE_EXACT_MAX)
        if exact is not None:
            values = sorted(values_of_bytes("f64", exact))
            return between(*around(values, self._share * (len(values) - 1))) if values else None
        if len(picked) > 1:
            blocks, picked = one_row(), FIRST_ROW
            fold_kernel.chosen.merge_buckets(blocks, 0, self.blocks, row_array(rows))
        heads = heads_of(blocks, picked)
        entries = words_of(blocks, picked, heads, WIDTH).reshape(-1, WIDTH)
        return self._estimate(entries, int(heads.extras[0]))

    def _estimate(self, entries: Words, widenings: int) -> float:
        values = middles(entries[:, 0], widenings)
        order = np.argsort(values)
        ranks = np.cumsum(entries[order, 1]).astype(np.int64)
        place = self._share * (int(ranks[-1]) - 1)
        found = np.searchsorted(ranks, [int(place), math.ceil(place)], side="right")
        low, high = values[order[found]].tolist()
        return between(low, high, place - int(place))

    def is_possible(self, heads: Heads, words: Words) -> bool:
        is_list = (heads.modes == LIST_MODE) & (heads.counts <= QUANTILE_EXACT_MAX)
        is_sketch = (heads.modes == TABLE_MODE) & (heads.counts <= BUCKET_COUNT_MAX)
        return bool(((is_list | is_sketch) & (heads.extras <= WIDENINGS_MAX)).all())


def middles(buckets: Words, widenings: int) -> Floats:
    """The middle of each bucket. That of the bucket with 0.0 is 0.0."""
    lowest = (buckets & np.uint64(BUCKET_MAGNITUDE_MASK)) << np.uint64(widenings)
    highest = lowest + np.uint64(1 << widenings)
    one, other = ((edge << np.uint64(BUCKET_SHIFT)).view(np.float64) for edge in (lowest, highest))
    middle = np.where(lowest == 0, 0.0, one + (other - one) / 2)
    return np.where(buckets >> np.uint64(BUCKET_SIGN_BIT), -middle, middle)


def around(values: Sequence[float], place: float) -> tuple[float, float, float]:
    """The values on both sides of a place among them, and how far it is from the first."""
    low = int(place)
    return values[low], values[math.ceil(place)], place - low


def between(low: float, high: float, share: float) -> float:
    return low + (high - low) * share if share else low


KINDS = (
    OperatorKind(
        name="quantile",
        summary="The quantile `q` of the values, with linear interpolation between two values; "
        "null without values.",
        fields=(("field", "number"),),
        parameters=(Parameter("q", "float", default=0.5, minimum=0.0, maximum=1.0),),
        window="optional",
        output="f64",
        make=lambda arguments: Quantile(arguments.parameters["q"]),
        row_bytes=lambda arguments: HEAD_BYTES + 8 * WIDTH * 2048,
        error=f"Exact up to {QUANTILE_EXACT_MAX} values, then off by at most "
        f"{0.5 / BUCKETS_OF_OCTAVE:.1%} of the value; by twice as much each time when the values "
        f"lie in more than {BUCKET_COUNT_MAX:,} buckets, of which a factor of two between the "
        f"smallest and the largest takes {BUCKETS_OF_OCTAVE}.",
    ),
)
