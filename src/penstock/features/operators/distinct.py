"""Which values there were: how many different ones, and whether the newest was there before."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.features import fold_kernel
from penstock.features.kernel_source.row_shapes import (
    DISTINCT_EXACT_MAX,
    FILTER_MODE,
    REGISTER_BITS,
    REGISTER_COUNT,
    REGISTER_RANK_MAX,
    REGISTER_WORDS,
    REGISTERS_MODE,
)
from penstock.features.operators.block_state import (
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
from penstock.features.operators.operator_kind import Arguments, OperatorKind, Parameter
from penstock.features.operators.value_words import Words, hashes_of

EXPECTED_MAX = 1 << 20


class NUnique(BlockState):
    """The hashes of a row as a set; above DISTINCT_EXACT_MAX as registers of HyperLogLog."""

    def fold(self, fold: Fold) -> None:
        (column,) = fold.fields
        fold_kernel.chosen.fold_distinct(
            self.blocks, fold.rows, fold.passes, column.is_present, hashes_of(column)
        )

    def value(self, rows: Sequence[int], now_ms: int) -> int:
        if not rows:
            return 0
        blocks, row = self.blocks, rows[0]
        if len(rows) > 1:
            blocks, row = one_row(), 0
            fold_kernel.chosen.merge_distinct(blocks, row, self.blocks, row_array(rows))
        count, mode, _ = fold_kernel.chosen.row_head(blocks, row)
        if mode != REGISTERS_MODE:
            return count
        picked = row_array([row])
        registers = words_of(blocks, picked, heads_of(blocks, picked), 1).view(np.uint8)
        return max(round(cardinality(registers)), DISTINCT_EXACT_MAX + 1)

    def is_possible(self, heads: Heads, words: Words) -> bool:
        is_set = heads.modes == TABLE_MODE
        is_sketch = (heads.modes == REGISTERS_MODE) & (heads.counts == REGISTER_WORDS)
        return bool((is_set & (heads.counts <= DISTINCT_EXACT_MAX) | is_sketch).all())


def cardinality(registers: Any) -> float:
    """How many hashes raised these registers, by Ertl's estimator, which has no bias to correct."""
    counts = np.bincount(registers, minlength=REGISTER_RANK_MAX + 1).tolist()
    estimate = REGISTER_COUNT * _tau(1 - counts[REGISTER_RANK_MAX] / REGISTER_COUNT)
    for rank in range(REGISTER_RANK_MAX - 1, 0, -1):
        estimate = (estimate + counts[rank]) / 2
    estimate += REGISTER_COUNT * _sigma(counts[0] / REGISTER_COUNT)
    return REGISTER_COUNT**2 / (2 * math.log(2) * estimate)


def _sigma(x: float) -> float:
    """x plus the sum of x**(2**k) * 2**(k - 1), for k from 1 on."""
    total, weight, before = x, 1.0, -1.0
    while total != before:
        x *= x
        before = total
        total += x * weight
        weight *= 2
    return total


def _tau(x: float) -> float:
    """A third of 1 - x less the sum of (1 - x**(2**-k))**2 * 2**-k, for k from 1 on."""
    if x in (0.0, 1.0):
        return 0.0
    total, weight, before = 1 - x, 1.0, -1.0
    while total != before:
        x = math.sqrt(x)
        before = total
        weight /= 2
        total -= (1 - x) ** 2 * weight
    return total / 3


class BloomMember(BlockState):
    """The hashes of a row as a set; as bits of a Bloom filter before it takes more memory."""

    def __init__(self, expected: int, target_fpr: float) -> None:
        super().__init__()
        self._filter_words = filter_words(expected, target_fpr)
        self._probes = max(1, round(64 * self._filter_words / expected * math.log(2)))

    def fold(self, fold: Fold) -> None:
        (column,) = fold.fields
        fold_kernel.chosen.fold_members(
            self.blocks,
            fold.rows,
            fold.passes,
            column.is_present,
            hashes_of(column),
            self._filter_words,
            self._probes,
        )

    def value(self, rows: Sequence[int], now_ms: int) -> bool | None:
        if not rows:
            return None
        _, _, answer = fold_kernel.chosen.row_head(self.blocks, rows[-1])
        return answer == 2 if answer else None

    def is_possible(self, heads: Heads, words: Words) -> bool:
        is_set = heads.modes == TABLE_MODE
        is_sketch = (heads.modes == FILTER_MODE) & (heads.counts == self._filter_words)
        return bool((is_set | is_sketch).all())


def filter_words(expected: int, target_fpr: float) -> int:
    """The size of a Bloom filter with the fewest bits that keep the rate."""
    return math.ceil(-expected * math.log(target_fpr) / math.log(2) ** 2 / 64)


def _filter_words_of(parameters: Mapping[str, Any]) -> int:
    return filter_words(parameters["expected_n"], parameters["target_fpr"])


def _bloom_member(arguments: Arguments) -> BloomMember:
    return BloomMember(arguments.parameters["expected_n"], arguments.parameters["target_fpr"])


_REGISTERS_ERROR = 1.04 / 2 ** (REGISTER_BITS / 2)

KINDS = (
    OperatorKind(
        name="n_unique",
        summary="The number of different values; 0 without values. JSON values compare as values: "
        '2 equals 2.0, but not `true` or `"2"`.',
        fields=(("field", "any"),),
        parameters=(),
        window="optional",
        output="i64",
        make=lambda arguments: NUnique(),
        row_bytes=lambda arguments: HEAD_BYTES + 8 * 2 * DISTINCT_EXACT_MAX,
        error=f"Exact up to {DISTINCT_EXACT_MAX:,} different values, then HyperLogLog with "
        f"{REGISTER_COUNT:,} registers: a standard error of {_REGISTERS_ERROR:.1%}.",
    ),
    OperatorKind(
        name="bloom_member",
        summary="Whether the newest value occurred in an earlier event of the key; null without "
        "values.",
        fields=(("field", "any"),),
        parameters=(
            Parameter("expected_n", "int", default=1024, minimum=1, maximum=EXPECTED_MAX),
            Parameter("target_fpr", "float", default=0.01, minimum=1e-6, maximum=0.5),
        ),
        window="none",
        output="bool",
        make=_bloom_member,
        row_bytes=lambda arguments: HEAD_BYTES + 8 * _filter_words_of(arguments.parameters),
        error="Exact while a set of hashes is smaller than the filter, then a Bloom filter: never "
        "false for a value that was there, true for one that was not with a probability of up to "
        "`target_fpr`, and of more above `expected_n` different values.",
    ),
)
