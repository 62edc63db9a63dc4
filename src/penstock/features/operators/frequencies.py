"""How often each value occurs: the most frequent ones, and how evenly they are spread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.features import fold_kernel
from penstock.features.event_column import ColumnType
from penstock.features.kernel_source.row_shapes import RANKED_COUNT_MAX, RANKED_WIDTH, TEXT_BITS
from penstock.features.operators.block_state import (
    HEAD_BYTES,
    TABLE_MODE,
    BlockState,
    Heads,
    one_row,
    row_array,
)
from penstock.features.operators.operator import Fold
from penstock.features.operators.operator_kind import Arguments, OperatorKind, Parameter
from penstock.features.operators.value_words import (
    NO_TEXTS,
    Words,
    has_texts,
    hashes_of,
    texts_of,
    value_of_word,
    words_of_numbers,
)

if TYPE_CHECKING:
    from penstock.features._fold_kernel import RowBlocks

CATEGORIES_MAX = 8192
CATEGORY_WIDTH = 2  # hash and count
TEXT_BYTES = 24  # of a value of top_k that is a text, about


class CountTable(BlockState):
    """A table of counts for each row."""

    def merged(self, rows: Sequence[int]) -> tuple[RowBlocks, int]:
        """A table with the counts of all these rows, of which there is one at least."""
        if len(rows) == 1:
            return self.blocks, rows[0]
        blocks = one_row()
        fold_kernel.chosen.merge_counts(blocks, 0, self.blocks, row_array(rows), self.width)
        return blocks, 0


class Entropy(CountTable):
    """How often each hash occurs; those above the limit are counted together."""

    def __init__(self, categories_max: int) -> None:
        super().__init__(CATEGORY_WIDTH)
        self._categories_max = categories_max

    def fold(self, fold: Fold) -> None:
        (column,) = fold.fields
        fold_kernel.chosen.fold_entropy(
            self.blocks,
            fold.rows,
            fold.passes,
            column.is_present,
            hashes_of(column),
            self._categories_max,
        )

    def value(self, rows: Sequence[int], now_ms: int) -> float:
        if not rows:
            return 0.0
        blocks, row = self.merged(rows)
        counts = fold_kernel.chosen.table_counts(blocks, row, self.width)
        _, _, others = fold_kernel.chosen.row_head(blocks, row)
        return entropy([*counts, others] if others else counts)

    def is_possible(self, heads: Heads, words: Words) -> bool:
        is_table = (heads.modes == TABLE_MODE) & (heads.counts <= self._categories_max)
        return bool(is_table.all())


def entropy(counts: Sequence[int]) -> float:
    """Of shares in proportion to these counts, in bits. Their order does not matter."""
    total = sum(counts)
    if len(counts) < 2:
        return 0.0
    return math.fsum(count / total * math.log2(total / count) for count in counts)


class TopK(CountTable):
    """How often each value occurs; when there are too many, rare ones are dropped."""

    def __init__(self, type_: ColumnType, length: int) -> None:
        super().__init__(RANKED_WIDTH, text_word=2 if has_texts(type_) else None)
        self._type = type_
        self._length = length

    def fold(self, fold: Fold) -> None:
        (column,) = fold.fields
        is_text = has_texts(self._type)
        fold_kernel.chosen.fold_ranked(
            self.blocks,
            fold.rows,
            fold.passes,
            column.is_present,
            hashes_of(column) if is_text else words_of_numbers(column),
            is_text,
            texts_of(column) if is_text else NO_TEXTS,
        )

    def value(self, rows: Sequence[int], now_ms: int) -> list[dict[str, Any]]:
        if not rows:
            return []
        entries = fold_kernel.chosen.ranked_entries(*self.merged(rows), self._length)
        ranked = sorted((-count, self._value(key, ref)) for count, key, ref in entries)
        return [{"count": -count, "value": value} for count, value in ranked[: self._length]]

    def _value(self, key: int, ref: int) -> Any:
        return self.text(ref) if has_texts(self._type) else value_of_word(self._type, key)

    def is_possible(self, heads: Heads, words: Words) -> bool:
        """A base above the row's own would be a negative residue."""
        bases = words[2 :: self.width] >> np.uint64(TEXT_BITS)
        is_table = (heads.modes == TABLE_MODE) & (heads.counts <= RANKED_COUNT_MAX)
        return bool(is_table.all() and (bases <= np.repeat(heads.extras, heads.counts)).all())


def _table_bytes(entries: int, width: int) -> int:
    """Of a table with room for so many entries: a quarter stays free, in a power of two."""
    return HEAD_BYTES + (8 * width << math.ceil(math.log2(entries * 4 / 3)))


def _top_k_bytes(arguments: Arguments) -> int:
    texts = TEXT_BYTES * RANKED_COUNT_MAX if has_texts(arguments.field_types[0]) else 0
    return _table_bytes(RANKED_COUNT_MAX, RANKED_WIDTH) + texts


KINDS = (
    OperatorKind(
        name="top_k",
        summary='The `k` most frequent values, as an array of {"count", "value"}: the largest '
        "count first, equal counts in the order of the values.",
        fields=(("field", "scalar"),),
        parameters=(Parameter("k", "int", default=10, minimum=1, maximum=1024),),
        window="optional",
        output="json",
        make=lambda arguments: TopK(arguments.field_types[0], arguments.parameters["k"]),
        row_bytes=_top_k_bytes,
        error=f"Exact up to {RANKED_COUNT_MAX:,} different values, then by Misra and Gries: a "
        f"count is never too high, and too low by at most 1/{RANKED_COUNT_MAX // 2} of all events; "
        "a value that occurs in fewer of them may be missing.",
    ),
    OperatorKind(
        name="entropy",
        summary="The Shannon entropy of the values, in bits; 0.0 if all values are equal, or "
        "without values.",
        fields=(("field", "any"),),
        parameters=(
            Parameter("max_categories", "int", default=1024, minimum=1, maximum=CATEGORIES_MAX),
        ),
        window="optional",
        output="f64",
        make=lambda arguments: Entropy(arguments.parameters["max_categories"]),
        row_bytes=lambda arguments: _table_bytes(
            arguments.parameters["max_categories"], CATEGORY_WIDTH
        ),
        error="Exact up to `max_categories` different values; those that come later count "
        "together as one more.",
    ),
)
