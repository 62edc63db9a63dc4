"""Folds of hashes: how many distinct ones a row has, and whether its newest was there before.

A row has a set of hashes. The set of n_unique becomes the registers of HyperLogLog when it would
exceed DISTINCT_EXACT_MAX hashes, and that of bloom_member the bits of a Bloom filter before it
takes more memory than these.
"""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.features.kernel_source.row_blocks import _allocate, _block_words, _head, _release
from penstock.features.kernel_source.row_shapes import (
    DISTINCT_EXACT_MAX,
    FILTER_MODE,
    HEAD_BLOCK,
    HEAD_EXTRA,
    HEAD_SHAPE,
    HEAD_WORDS,
    MODE_BITS,
    MODE_MASK,
    REGISTER_BITS,
    REGISTER_COUNT,
    REGISTER_RANK_MAX,
    REGISTER_WORDS,
    REGISTERS_MODE,
)
from penstock.features.kernel_source.row_tables import _find, _insert, _room

if not cython.compiled:
    from penstock.features.kernel_source.row_blocks import LOW_HALF


def fold_distinct(
    blocks: RowBlocks,
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    hashes: cython.const[uint64_t][::1],
):
    """Add the hash of each event to its row."""
    i: cython.Py_ssize_t
    for i in range(len(rows)):
        if passes[i] and present[i]:
            _head(blocks, rows[i])
            _add_distinct(blocks, rows[i], hashes[i])


def _add_distinct(blocks, row, hash):
    shape: int64_t = blocks.heads[HEAD_WORDS * row + HEAD_SHAPE]
    if (shape & MODE_MASK) == REGISTERS_MODE:
        _add_to_registers(blocks, blocks.heads[HEAD_WORDS * row + HEAD_BLOCK], hash)
    elif _find(blocks, row, 1, hash) == 0:
        if (shape >> MODE_BITS) < DISTINCT_EXACT_MAX:
            _insert(blocks, row, 1, hash)
        else:
            _to_registers(blocks, row)
            _add_to_registers(blocks, blocks.heads[HEAD_WORDS * row + HEAD_BLOCK], hash)


def _to_registers(blocks, row):
    """Replace the set of a row, which has a hash, by registers."""
    head: int64_t = HEAD_WORDS * row
    old: int64_t = blocks.heads[head + HEAD_BLOCK]
    size: int64_t = _block_words(0, blocks.heads[head + HEAD_SHAPE] & MODE_MASK, 1)
    fresh: int64_t = _allocate(blocks, REGISTER_WORDS)
    i: int64_t
    for i in range(size):
        if blocks.words[old + i]:
            _add_to_registers(blocks, fresh, blocks.words[old + i])
    _release(blocks, old, size)
    blocks.heads[head + HEAD_BLOCK] = fresh
    blocks.heads[head + HEAD_SHAPE] = (REGISTER_WORDS << MODE_BITS) | REGISTERS_MODE


def _add_to_registers(blocks, at, hash):
    """The lower bits of a hash choose a register, the zeros that follow are its rank."""
    number: uint64_t = hash & (REGISTER_COUNT - 1)
    rest: uint64_t = hash >> REGISTER_BITS
    rank: uint64_t = 1
    while not rest & 1 and rank < REGISTER_RANK_MAX:
        rest >>= 1
        rank += 1
    _raise_register(blocks, at, number, rank)


def _raise_register(blocks, at, number, rank):
    word: uint64_t = blocks.words[at + (number >> 3)]
    shift: uint64_t = 8 * (number & 7)
    now: uint64_t = (word >> shift) & 255
    if rank > now:
        blocks.words[at + (number >> 3)] = word ^ ((now ^ rank) << shift)


def merge_distinct(
    blocks: RowBlocks, row: int64_t, others: RowBlocks, rows: cython.const[int64_t][::1]
):
    """Add what these rows of `others` have to a row of `blocks`."""
    i: cython.Py_ssize_t
    j: int64_t
    head: int64_t
    at: int64_t
    shape: int64_t
    _head(blocks, row)
    for i in range(len(rows)):
        head = _head(others, rows[i])
        at = others.heads[head + HEAD_BLOCK]
        shape = others.heads[head + HEAD_SHAPE]
        if at == 0:
            continue
        if (shape & MODE_MASK) == REGISTERS_MODE:
            _merge_registers(blocks, row, others, at)
            continue
        for j in range(_block_words(0, shape & MODE_MASK, 1)):
            if others.words[at + j]:
                _add_distinct(blocks, row, others.words[at + j])


def _merge_registers(blocks, row, others, at):
    head: int64_t = HEAD_WORDS * row
    number: int64_t
    if blocks.heads[head + HEAD_BLOCK] == 0:
        blocks.heads[head + HEAD_BLOCK] = _allocate(blocks, REGISTER_WORDS)
        blocks.heads[head + HEAD_SHAPE] = (REGISTER_WORDS << MODE_BITS) | REGISTERS_MODE
    elif (blocks.heads[head + HEAD_SHAPE] & MODE_MASK) != REGISTERS_MODE:
        _to_registers(blocks, row)
    for number in range(REGISTER_COUNT):
        _raise_register(
            blocks,
            blocks.heads[head + HEAD_BLOCK],
            number,
            (others.words[at + (number >> 3)] >> (8 * (number & 7))) & 255,
        )


def fold_members(
    blocks: RowBlocks,
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    hashes: cython.const[uint64_t][::1],
    filter_words: int64_t,
    probes: int64_t,
):
    """Add the hash of each event to its row. The extra word of a row is 2 when its newest hash was
    there before, else 1."""
    i: cython.Py_ssize_t
    head: int64_t
    shape: int64_t
    for i in range(len(rows)):
        if not (passes[i] and present[i]):
            continue
        head = _head(blocks, rows[i])
        shape = blocks.heads[head + HEAD_SHAPE]
        if (shape & MODE_MASK) != FILTER_MODE:
            if _find(blocks, rows[i], 1, hashes[i]):
                blocks.heads[head + HEAD_EXTRA] = 2
                continue
            if (shape >> MODE_BITS) < _room(shape & MODE_MASK) or (
                (2 << (shape & MODE_MASK)) < filter_words
            ):
                _insert(blocks, rows[i], 1, hashes[i])
                blocks.heads[head + HEAD_EXTRA] = 1
                continue
            _to_filter(blocks, rows[i], filter_words, probes)
        blocks.heads[head + HEAD_EXTRA] = 1 + _add_to_filter(
            blocks, blocks.heads[head + HEAD_BLOCK], filter_words, probes, hashes[i]
        )


def _to_filter(blocks, row, filter_words, probes):
    """Replace the set of a row, which has a hash, by a filter."""
    head: int64_t = HEAD_WORDS * row
    old: int64_t = blocks.heads[head + HEAD_BLOCK]
    size: int64_t = _block_words(0, blocks.heads[head + HEAD_SHAPE] & MODE_MASK, 1)
    fresh: int64_t = _allocate(blocks, filter_words)
    i: int64_t
    for i in range(size):
        if blocks.words[old + i]:
            _add_to_filter(blocks, fresh, filter_words, probes, blocks.words[old + i])
    _release(blocks, old, size)
    blocks.heads[head + HEAD_BLOCK] = fresh
    blocks.heads[head + HEAD_SHAPE] = (filter_words << MODE_BITS) | FILTER_MODE


def _add_to_filter(blocks, at, filter_words, probes, hash):
    """Set the bits of a hash. Were all of them set?"""
    step: uint64_t = (hash >> 32) | 1
    place: uint64_t = hash & LOW_HALF
    was_set: int64_t = 1
    bit: uint64_t
    _probe: int64_t
    one: uint64_t = 1
    for _probe in range(probes):
        bit = (place * (64 * filter_words)) >> 32
        if not (blocks.words[at + (bit >> 6)] >> (bit & 63)) & 1:
            was_set = 0
            blocks.words[at + (bit >> 6)] |= one << (bit & 63)
        place = (place + step) & LOW_HALF
    return was_set
