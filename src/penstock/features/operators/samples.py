"""Some of the values: the most recent ones, and a random sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.features import fold_kernel
from penstock.features.event_column import ColumnType
from penstock.features.kernel_source.row_shapes import LIST_MODE
from penstock.features.operators.block_state import (
    HEAD_BYTES,
    TABLE_MODE,
    BlockState,
    Heads,
    row_array,
)
from penstock.features.operators.operator import Fold
from penstock.features.operators.operator_kind import Arguments, OperatorKind, Parameter
from penstock.features.operators.value_words import (
    NO_TEXTS,
    Words,
    has_texts,
    texts_of,
    value_of_text,
    values_of_bytes,
    words_of_numbers,
)

LENGTH_MAX = 1024
TEXT_BYTES = 24  # of a value that is a text, about


class ValueList(BlockState):
    """A list of values for each row, of bounded length. The extra word counts all values."""

    def __init__(self, type_: ColumnType, length_max: int) -> None:
        super().__init__(text_word=0 if has_texts(type_) else None)
        self.type = type_
        self.length_max = length_max

    def fold_with(self, folded: Callable[..., None], fold: Fold) -> None:
        """Fold by one of the kernel's functions for lists."""
        (column,) = fold.fields
        is_text = has_texts(self.type)
        folded(
            self.blocks,
            fold.rows,
            fold.passes,
            column.is_present,
            np.empty(0, np.uint64) if is_text else words_of_numbers(column),
            is_text,
            texts_of(column) if is_text else NO_TEXTS,
            self.length_max,
        )

    def values(self, row: int) -> tuple[list[Any], int]:
        """The values of a row by their place, and how many there were."""
        data = fold_kernel.chosen.list_bytes(self.blocks, row_array([row]), self.length_max)
        if data is None:
            raise AssertionError(f"row {row} is no list of at most {self.length_max} values")
        _, _, count = fold_kernel.chosen.row_head(self.blocks, row)
        if not has_texts(self.type):
            return values_of_bytes(self.type, data), count
        refs = values_of_bytes("i64", data)
        return [value_of_text(self.type, self.text(ref)) for ref in refs], count

    def is_possible(self, heads: Heads, words: Words) -> bool:
        is_empty = (heads.modes == TABLE_MODE) & (heads.counts == 0) & (heads.extras == 0)
        is_full = heads.counts.view(np.uint64) == np.minimum(heads.extras, self.length_max)
        is_list = (heads.modes == LIST_MODE) & is_full
        return bool((is_empty | is_list).all()) and not (has_texts(self.type) and words.any())


class MostRecentN(ValueList):
    """A ring: value i is at i % length_max."""

    def fold(self, fold: Fold) -> None:
        self.fold_with(fold_kernel.chosen.fold_recent, fold)

    def value(self, rows: Sequence[int], now_ms: int) -> list[Any]:
        if not rows:
            return []
        values, count = self.values(rows[-1])
        oldest = count % self.length_max if count > self.length_max else 0
        return [*values[oldest:], *values[:oldest]][::-1]


class ReservoirSample(ValueList):
    """Each value so far is in the sample with the same probability."""

    def fold(self, fold: Fold) -> None:
        self.fold_with(fold_kernel.chosen.fold_samples, fold)

    def value(self, rows: Sequence[int], now_ms: int) -> list[Any]:
        return self.values(rows[-1])[0] if rows else []


def _list_bytes(arguments: Arguments, length_max: int) -> int:
    """The room of a list is a power of two."""
    texts = TEXT_BYTES * length_max if has_texts(arguments.field_types[0]) else 0
    return HEAD_BYTES + 8 * (1 << (length_max - 1).bit_length()) + texts


KINDS = (
    OperatorKind(
        name="most_recent_n",
        summary="The last `n` values that are not null, as an array, newest first.",
        fields=(("field", "any"),),
        parameters=(Parameter("n", "int", minimum=1, maximum=LENGTH_MAX, is_required=True),),
        window="none",
        output="json",
        make=lambda arguments: MostRecentN(arguments.field_types[0], arguments.parameters["n"]),
        row_bytes=lambda arguments: _list_bytes(arguments, arguments.parameters["n"]),
    ),
    OperatorKind(
        name="reservoir_sample",
        summary="A uniform random sample of at most `samples` values, as an array. It depends "
        "only on the values and their order, so a replay gives the same sample.",
        fields=(("field", "any"),),
        parameters=(Parameter("samples", "int", minimum=1, maximum=LENGTH_MAX, is_required=True),),
        window="none",
        output="json",
        make=lambda arguments: ReservoirSample(
            arguments.field_types[0], arguments.parameters["samples"]
        ),
        row_bytes=lambda arguments: _list_bytes(arguments, arguments.parameters["samples"]),
    ),
)
