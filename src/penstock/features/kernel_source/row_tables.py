"""Tables of entries by key: sets (the entry is the key) and counts (a key, its count, and more).

A small table is searched from the first entry to the last. A larger one is an open-addressed hash
table. In a set no key is 0; in a table of counts no count is.
"""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.features.kernel_source.row_blocks import (
    _allocate,
    _block_words,
    _head,
    _release,
)
from penstock.features.kernel_source.row_shapes import (
    HEAD_BLOCK,
    HEAD_EXTRA,
    HEAD_SHAPE,
    HEAD_WORDS,
    LINEAR_MODE_MAX,
    LIST_MODE,
    MODE_BITS,
    MODE_MASK,
    REGISTERS_MODE,
)

if not cython.compiled:
    GOLDEN = 0x9E3779B97F4A7C15
    MIX_1 = 0xBF58476D1CE4E5B9
    MIX_2 = 0x94D049BB133111EB
    WORD_MAX = 0xFFFFFFFFFFFFFFFF


def _mix(word):
    """The finalizer of SplitMix64: every bit depends on every bit, and no two words collide."""
    word = ((word ^ (word >> 30)) * MIX_1) & WORD_MAX
    word = ((word ^ (word >> 27)) * MIX_2) & WORD_MAX
    return word ^ (word >> 31)


def _slot(key, mode):
    """Where the search for a key begins in a table of 2**mode entries."""
    return ((key * GOLDEN) & WORD_MAX) >> (64 - mode)


def _room(mode):
    """How many entries a table holds: three quarters of a hash table."""
    if mode <= LINEAR_MODE_MAX:
        return 1 << mode
    return 3 << (mode - 2)


def _find(blocks, row, width, key):
    """Where the entry with this key begins, or 0."""
    shape: int64_t = blocks.heads[HEAD_WORDS * row + HEAD_SHAPE]
    at: int64_t = blocks.heads[HEAD_WORDS * row + HEAD_BLOCK]
    mode: int64_t = shape & MODE_MASK
    end: int64_t
    slot: int64_t
    entry: int64_t
    mark: int64_t = 1 if width > 1 else 0
    if mode <= LINEAR_MODE_MAX:
        end = at + width * (shape >> MODE_BITS)
        while at < end:
            if blocks.words[at] == key:
                return at
            at += width
        return 0
    slot = _slot(key, mode)
    while True:
        entry = at + width * slot
        if blocks.words[entry + mark] == 0:
            return 0
        if blocks.words[entry] == key:
            return entry
        slot = (slot + 1) & ((1 << mode) - 1)


def _place(blocks, at, mode, used, width, key):
    """Where an entry with a new key belongs in a table that has room."""
    slot: int64_t
    mark: int64_t = 1 if width > 1 else 0
    if mode <= LINEAR_MODE_MAX:
        return at + width * used
    slot = _slot(key, mode)
    while blocks.words[at + width * slot + mark]:
        slot = (slot + 1) & ((1 << mode) - 1)
    return at + width * slot


def _insert(blocks, row, width, key):
    """Where the new entry with this key begins. In a table of counts, the caller sets its count at
    once."""
    head: int64_t = HEAD_WORDS * row
    used: int64_t = blocks.heads[head + HEAD_SHAPE] >> MODE_BITS
    mode: int64_t = blocks.heads[head + HEAD_SHAPE] & MODE_MASK
    entry: int64_t
    if blocks.heads[head + HEAD_BLOCK] == 0:
        blocks.heads[head + HEAD_BLOCK] = _allocate(blocks, width)
    elif used == _room(mode):
        mode += 1
        _rebuild(blocks, row, width, mode)
    entry = _place(blocks, blocks.heads[head + HEAD_BLOCK], mode, used, width, key)
    blocks.words[entry] = key
    blocks.heads[head + HEAD_SHAPE] = ((used + 1) << MODE_BITS) | mode
    return entry


def _rebuild(blocks, row, width, mode):
    """Move the entries of a row to a table of 2**mode entries."""
    head: int64_t = HEAD_WORDS * row
    old: int64_t = blocks.heads[head + HEAD_BLOCK]
    old_words: int64_t = _block_words(0, blocks.heads[head + HEAD_SHAPE] & MODE_MASK, width)
    fresh: int64_t = _allocate(blocks, width << mode)
    mark: int64_t = 1 if width > 1 else 0
    used: int64_t = 0
    at: int64_t = old
    entry: int64_t
    i: int64_t
    while at < old + old_words:
        if blocks.words[at + mark]:
            entry = _place(blocks, fresh, mode, used, width, blocks.words[at])
            for i in range(width):
                blocks.words[entry + i] = blocks.words[at + i]
            used += 1
        at += width
    _release(blocks, old, old_words)
    blocks.heads[head + HEAD_BLOCK] = fresh
    blocks.heads[head + HEAD_SHAPE] = (used << MODE_BITS) | mode


def mix_words(words: cython.const[uint64_t][::1], hashes: uint64_t[::1]):
    """The hash of each word: never 0, which is that of an empty entry."""
    i: cython.Py_ssize_t
    hash: uint64_t
    for i in range(len(words)):
        hash = _mix(words[i])
        hashes[i] = hash if hash else 1


def load_rows(
    blocks: RowBlocks,
    rows: cython.const[int64_t][::1],
    counts: cython.const[int64_t][::1],
    modes: cython.const[uint8_t][::1],
    extras: cython.const[uint64_t][::1],
    width: int64_t,
    words: cython.const[uint64_t][::1],
):
    """Put saved words into empty rows. A row has `count` entries of a table (mode 0), or as many
    words. ValueError: they are not the words of these rows."""
    i: cython.Py_ssize_t
    head: int64_t
    at: int64_t = 0
    end: int64_t
    size: int64_t = len(words)
    for i in range(len(rows)):
        head = _head(blocks, rows[i])
        if counts[i] < 0 or counts[i] > size or blocks.heads[head + HEAD_BLOCK]:
            raise ValueError(f"{counts[i]} entries of row {rows[i]} among {size} saved words")
        end = at + counts[i] * (width if modes[i] < LIST_MODE else 1)
        if end > size:
            raise ValueError(f"saved rows have more than {size} words")
        if counts[i] == 0:
            pass
        elif modes[i] < LIST_MODE:
            _load_table(blocks, rows[i], width, words, at, end)
        else:
            _load_words(blocks, head, modes[i], words, at, end)
        blocks.heads[head + HEAD_EXTRA] = extras[i]
        at = end


def _load_table(blocks, row, width, words, at, end):
    mark: int64_t = 1 if width > 1 else 0
    j: int64_t
    entry: int64_t
    while at < end:
        if words[at + mark] == 0 or (words[at + mark] >> 62 and width > 1):
            raise ValueError(f"a saved table of row {row} has an entry that is none")
        if _find(blocks, row, width, words[at]):
            raise ValueError(f"a saved table of row {row} has a key twice")
        entry = _insert(blocks, row, width, words[at])
        for j in range(1, width):
            blocks.words[entry + j] = words[at + j]
        at += width


def _load_words(blocks, head, mode, words, at, end):
    """A list, whose block has a power of two of words, or a sketch."""
    count: int64_t = end - at
    block: int64_t
    i: int64_t
    if mode < REGISTERS_MODE:
        mode = LIST_MODE
        while 1 << (mode - LIST_MODE) < count:
            mode += 1
    block = _allocate(blocks, _block_words(count, mode, 1))
    for i in range(count):
        blocks.words[block + i] = words[at + i]
    blocks.heads[head + HEAD_BLOCK] = block
    blocks.heads[head + HEAD_SHAPE] = (count << MODE_BITS) | mode
