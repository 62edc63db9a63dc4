"""Values of a column as 64-bit words: their bits, or their hashes.

Numbers and booleans are hashed by SplitMix64's finalizer, which maps no two of them to one hash.
Texts are hashed by XXH3-64 of UTF-8, JSON values by that of a text in which equal values are
equal: keys are sorted, and 2.0 is 2. Two of n texts have one hash with a probability of about
n² / 2⁶⁵.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.codec import kernel
from penstock.features import fold_kernel
from penstock.features.event_column import ColumnType, EventColumn, Floats

Words = NDArray[np.uint64]
Texts = NDArray[Any]

NO_TEXTS: Texts = np.empty(0, np.object_)


def has_texts(type_: ColumnType) -> bool:
    """Are values of this type kept as texts? JSON values are."""
    return type_ in ("str", "json")


def words_of_numbers(column: EventColumn) -> Words:
    """The bits of numbers or booleans."""
    if column.type == "f64":
        return bits_of(column.values)
    bits: Words = column.values.astype(np.int64, copy=False).view(np.uint64)
    return bits


def bits_of(values: Floats) -> Words:
    """-0.0 has the bits of 0.0."""
    bits: Words = (values + 0.0).view(np.uint64)
    return bits


def value_of_word(type_: ColumnType, word: int) -> Any:
    """The number or boolean with these bits."""
    return values_of_bytes(type_, word.to_bytes(8, sys.byteorder))[0]


def values_of_bytes(type_: ColumnType, data: bytes) -> list[Any]:
    """The numbers or booleans whose bits these are, one after the other."""
    values: list[Any] = memoryview(data).cast("d" if type_ == "f64" else "q").tolist()
    return list(map(bool, values)) if type_ == "bool" else values


def hashes_of(column: EventColumn) -> Words:
    """A hash of each value. None is 0, and all are the same in every process."""
    if has_texts(column.type):
        texts = column.values if column.type == "str" else canonical_texts(column)
        hashes = np.frombuffer(kernel.hash_texts(texts.tolist()), "<u8")
        known: Words = np.maximum(hashes, np.uint64(1))
        return known
    hashes = np.empty(len(column), np.uint64)
    fold_kernel.chosen.mix_words(words_of_numbers(column), hashes)
    return hashes


def texts_of(column: EventColumn) -> Texts:
    """Texts as they are; of JSON values a text that they can be read from again."""
    if column.type == "str":
        texts: Texts = column.values
        return texts
    values = column.values.tolist()
    return _texts([None if value is None else json_text(value) for value in values])


def canonical_texts(column: EventColumn) -> Texts:
    """JSON values as texts that are equal where the values are."""
    return _texts(
        [None if value is None else json_text(_canonical(value)) for value in column.values]
    )


def _texts(values: list[str | None]) -> Texts:
    texts = np.empty(len(values), np.object_)
    texts[:] = values
    return texts


def json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def value_of_text(type_: ColumnType, text: str) -> Any:
    return json.loads(text) if type_ == "json" else text


def _canonical(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if isinstance(value, dict):
        return {key: _canonical(value[key]) for key in sorted(value)}
    return value
