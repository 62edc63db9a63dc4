"""Folds into lists of values with a bounded length: the most recent ones, and a random sample.

A value is a word: 64 bits of a number, or where a text lies.
"""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.features.kernel_source.row_blocks import (
    _append_word,
    _head,
    _release_text,
    _store_text,
)
from penstock.features.kernel_source.row_shapes import HEAD_BLOCK, HEAD_EXTRA
from penstock.features.kernel_source.row_tables import _mix


def fold_recent(
    blocks: RowBlocks,
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    words: cython.const[uint64_t][::1],
    has_texts: cython.bint,
    texts: object[::1],
    length_max: uint64_t,
):
    """Keep the last values of each row, or the last texts. The extra word counts all: value i is at
    i % length_max."""
    i: cython.Py_ssize_t
    number: uint64_t
    word: uint64_t
    for i in range(len(rows)):
        if passes[i] and present[i]:
            number = blocks.heads[_head(blocks, rows[i]) + HEAD_EXTRA]
            word = _store_text(blocks, texts[i]) if has_texts else words[i]
            _put_value(blocks, rows[i], number, number % length_max, word, has_texts)


def fold_samples(
    blocks: RowBlocks,
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    words: cython.const[uint64_t][::1],
    has_texts: cython.bint,
    texts: object[::1],
    length_max: uint64_t,
):
    """Keep a uniform sample of the values of each row (Waterman's algorithm R). The extra word
    counts all values; its hash is the random number, so that the sample can be repeated."""
    i: cython.Py_ssize_t
    number: uint64_t
    place: uint64_t
    word: uint64_t
    for i in range(len(rows)):
        if passes[i] and present[i]:
            number = blocks.heads[_head(blocks, rows[i]) + HEAD_EXTRA]
            place = number
            if number >= length_max:
                place = _mix(number) % (number + 1)
            if place < length_max:
                word = _store_text(blocks, texts[i]) if has_texts else words[i]
                _put_value(blocks, rows[i], number, place, word, has_texts)
            blocks.heads[_head(blocks, rows[i]) + HEAD_EXTRA] = number + 1


def _put_value(blocks, row, number, place, word, is_text):
    """Put value `number` of a row into a place: its next one, or one that has a value."""
    head: int64_t = _head(blocks, row)
    at: int64_t
    if place == number:
        _append_word(blocks, row, word)
    else:
        at = blocks.heads[head + HEAD_BLOCK] + place
        if is_text:
            _release_text(blocks, blocks.words[at])
        blocks.words[at] = word
    blocks.heads[head + HEAD_EXTRA] = number + 1
