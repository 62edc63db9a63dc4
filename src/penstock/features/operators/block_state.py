"""Rows that take as many words as they need: the state of sketches and of lists of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from penstock.features import fold_kernel
from penstock.features.event_column import Int64s
from penstock.features.kernel_source.row_shapes import HEAD_WORDS, LIST_MODE, REGISTERS_MODE
from penstock.features.operators.row_state import array_of
from penstock.features.operators.value_words import Words

if TYPE_CHECKING:
    from penstock.features._fold_kernel import RowBlocks

TEXT_MASK = np.uint64(0xFFFFFFFF)
HEAD_BYTES = 8 * HEAD_WORDS
TABLE_MODE = 0


class Heads(NamedTuple):
    """What the heads of some rows say."""

    counts: Int64s  # entries of a table, words of anything else
    modes: Any  # uint8: TABLE_MODE, LIST_MODE or that of a sketch
    extras: Words

    def sizes(self, width: int) -> Int64s:
        """How many words each row has."""
        return np.where(self.modes == TABLE_MODE, width, 1) * self.counts


class BlockState:
    """The memory half of an operator: a subclass folds into `blocks` and reads values from them.

    `width` is the number of words of a table's entry, `text_word` the one of them that is a text.
    """

    def __init__(self, width: int = 1, text_word: int | None = None) -> None:
        self.width = width
        self.text_word = text_word
        self.blocks = fold_kernel.chosen.new_row_blocks()

    def grow(self, rows: int) -> None:
        fold_kernel.chosen.grow_rows(self.blocks, rows)

    def clear(self, rows: Int64s) -> None:
        text_word = -1 if self.text_word is None else self.text_word
        rows = np.ascontiguousarray(rows)
        fold_kernel.chosen.clear_rows(self.blocks, rows, self.width, text_word)

    def save(self, rows: Int64s) -> Mapping[str, Any]:
        """The words of all rows, one row after the other. Entries of a table are in the order of
        their keys, so that equal states are saved as equal bytes."""
        rows = np.ascontiguousarray(rows)
        heads = heads_of(self.blocks, rows)
        words = words_of(self.blocks, rows, heads, self.width)
        self._sort_tables(heads, words)
        saved = {**heads._asdict(), "words": words}
        if self.text_word is not None:
            refs = words[self.text_word :: self.width]
            saved["texts"] = [self.text_bytes(ref) for ref in (refs & TEXT_MASK).tolist()]
            refs &= ~TEXT_MASK
        return saved

    def _sort_tables(self, heads: Heads, words: Words) -> None:
        is_table = heads.modes == TABLE_MODE
        in_tables = np.repeat(is_table, heads.sizes(self.width))
        entries = words[in_tables].reshape(-1, self.width)
        rows = np.repeat(np.arange(np.count_nonzero(is_table)), heads.counts[is_table])
        words[in_tables] = entries[np.lexsort((entries[:, 0], rows))].ravel()

    def lengths(self, saved: Mapping[str, Any]) -> Mapping[str, Int64s]:
        heads = Heads(saved["counts"], saved["modes"], saved["extras"])
        sizes = heads.sizes(self.width)
        if self.text_word is None:
            return {"words": sizes}
        return {"words": sizes, "texts": sizes // self.width}

    def load(self, rows: Int64s, saved: Mapping[str, Any]) -> None:
        heads = Heads(
            array_of(saved, "counts", np.dtype(np.int64), len(rows)),
            array_of(saved, "modes", np.dtype(np.uint8), len(rows)),
            array_of(saved, "extras", np.dtype(np.uint64), len(rows)),
        )
        size = int(heads.sizes(self.width).sum())
        words = array_of(saved, "words", np.dtype(np.uint64), size)
        if not (heads.counts >= 0).all() or not self.is_possible(heads, words):
            raise ValueError("saved state: no such rows can be")
        if self.text_word is not None:
            words = self._with_texts(words, saved.get("texts"))
        fold_kernel.chosen.load_rows(
            self.blocks, np.ascontiguousarray(rows), *heads, self.width, words
        )

    def is_possible(self, heads: Heads, words: Words) -> bool:
        """Can the operator have had these rows? A fold relies on it."""
        raise NotImplementedError

    def _with_texts(self, words: Words, texts: Any) -> Words:
        words = words.copy()
        refs = np.zeros(len(words[self.text_word :: self.width]), np.uint64)
        if (words[self.text_word :: self.width] & TEXT_MASK).any():
            raise ValueError("saved state 'words': a text is saved beside them, not in them")
        is_texts = isinstance(texts, list) and all(isinstance(text, bytes) for text in texts)
        if not is_texts or len(texts) != len(refs):
            raise ValueError(f"saved state 'texts': expected {len(refs)} texts as bytes")
        decoded = np.empty(len(texts), np.object_)
        decoded[:] = [str(text, "utf-8", "surrogatepass") for text in texts]
        fold_kernel.chosen.store_texts(self.blocks, decoded, refs)
        words[self.text_word :: self.width] |= refs
        return words

    def text_bytes(self, ref: int) -> bytes:
        return fold_kernel.chosen.text_at(self.blocks, ref)

    def text(self, ref: int) -> str:
        return self.text_bytes(ref).decode("utf-8", "surrogatepass")

    @property
    def bytes(self) -> int:
        return 8 * fold_kernel.chosen.memory_words(self.blocks)


def heads_of(blocks: RowBlocks, rows: Int64s) -> Heads:
    size = len(rows)
    heads = Heads(np.empty(size, np.int64), np.empty(size, np.uint8), np.empty(size, np.uint64))
    fold_kernel.chosen.read_heads(blocks, rows, *heads)
    # How much room a table or a list has is no part of its state.
    heads.modes[heads.modes < LIST_MODE] = TABLE_MODE
    heads.modes[(heads.modes > LIST_MODE) & (heads.modes < REGISTERS_MODE)] = LIST_MODE
    return heads


def words_of(blocks: RowBlocks, rows: Int64s, heads: Heads, width: int) -> Words:
    """The words of all these rows, one row after the other."""
    words = np.empty(int(heads.sizes(width).sum()), np.uint64)
    fold_kernel.chosen.read_words(blocks, rows, width, words)
    return words


def one_row() -> RowBlocks:
    """An empty row 0, for the merge of several rows."""
    blocks = fold_kernel.chosen.new_row_blocks()
    fold_kernel.chosen.grow_rows(blocks, 1)
    return blocks


def row_array(rows: Sequence[int]) -> Int64s:
    return np.array(rows, np.int64)


FIRST_ROW = row_array([0])
