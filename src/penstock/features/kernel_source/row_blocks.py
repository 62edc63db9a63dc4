"""Blocks of 64-bit words by row, in one piece of memory: a row takes only the words it needs.

A row has a head of three words and a block. The block is a table of entries by key, a list, or the
registers or bits of a sketch; `row_shapes.py` has the arrangement. Released blocks are used again
for blocks of the same size. Text lies in blocks of its own.
"""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.features.kernel_source.row_shapes import (
    BLOCK_SIZE_MAX,
    BLOCK_SIZES,
    HEAD_BLOCK,
    HEAD_EXTRA,
    HEAD_SHAPE,
    HEAD_WORDS,
    LIST_MODE,
    MODE_BITS,
    MODE_MASK,
    REGISTERS_MODE,
    TEXT_BITS,
)

if not cython.compiled:
    from array import array

    LOW_HALF = 0xFFFFFFFF


class RowBlocks:
    """The words of all rows. Block 0 is none; new rows have zeros for a head."""

    def __init__(self):
        self.end = 1
        if not cython.compiled:
            self.words = []
            self.heads = []
            self.released = [0] * BLOCK_SIZES
            self.capacity = 0
            self.rows = 0
            self.row_capacity = 0

    def __dealloc__(self):
        if cython.compiled:
            free(self.words)
            free(self.heads)


def new_row_blocks() -> RowBlocks:
    """Words of no row."""
    return RowBlocks()


def grow_rows(blocks: RowBlocks, rows: int64_t):
    """Make room for this many rows. New ones are empty."""
    wanted: int64_t
    if rows > blocks.row_capacity:
        wanted = max(rows, blocks.row_capacity + blocks.row_capacity // 2, 8)
        if cython.compiled:
            blocks.heads = cython.cast(
                cython.pointer(uint64_t),
                _resized(blocks.heads, HEAD_WORDS * blocks.row_capacity, HEAD_WORDS * wanted),
            )
        else:
            blocks.heads += [0] * (HEAD_WORDS * (wanted - blocks.row_capacity))
        blocks.row_capacity = wanted
    blocks.rows = max(blocks.rows, rows)


def memory_words(blocks: RowBlocks):
    """How many words are reserved, for rows or for what is to come."""
    return blocks.capacity + HEAD_WORDS * blocks.row_capacity


def _resized(words, old, new):
    """The words in a larger piece of memory. The new ones are zeros."""
    fresh: cython.pointer(uint64_t) = cython.cast(cython.pointer(uint64_t), realloc(words, 8 * new))
    if fresh == cython.NULL:
        raise MemoryError
    memset(fresh + old, 0, 8 * (new - old))
    return fresh


def _head(blocks, row):
    """Where the head of a row begins."""
    if row < 0 or row >= blocks.rows:
        raise IndexError(f"row {row} of {blocks.rows}")
    return HEAD_WORDS * row


def _block_size(number):
    """Sizes are 1, 2, 3, 4, 6, 8, 12, 16 and so on."""
    if number & 1:
        return 1 << ((number + 1) >> 1)
    return 3 << ((number >> 1) - 1) if number else 1


def _block_number(size):
    """The number of the least size that is enough."""
    number: int64_t = 0
    while _block_size(number) < size:
        number += 1
    return number


def _allocate(blocks, size):
    """A block of this many words, all zeros."""
    if size > BLOCK_SIZE_MAX:
        raise MemoryError
    number: int64_t = _block_number(size)
    at: int64_t = blocks.released[number]
    full: int64_t = _block_size(number)
    wanted: int64_t
    if at:
        blocks.released[number] = blocks.words[at]
        _fill_zeros(blocks, at, full)
        return at
    at = blocks.end
    if at + full > blocks.capacity:
        wanted = max(at + full, blocks.capacity + blocks.capacity // 2, 64)
        if cython.compiled:
            blocks.words = cython.cast(
                cython.pointer(uint64_t), _resized(blocks.words, blocks.capacity, wanted)
            )
        else:
            blocks.words += [0] * (wanted - blocks.capacity)
        blocks.capacity = wanted
    blocks.end = at + full
    return at


def _release(blocks, at, size):
    """Let a block of this size be used again. What lies in it is void."""
    number: int64_t = _block_number(size)
    blocks.words[at] = blocks.released[number]
    blocks.released[number] = at


def _fill_zeros(blocks, at, size):
    if cython.compiled:
        memset(blocks.words + at, 0, 8 * size)
    else:
        blocks.words[at : at + size] = [0] * size


def _block_words(count, mode, width):
    """The size of the block of a row."""
    if mode < LIST_MODE:
        return width << mode
    if mode < REGISTERS_MODE:
        return 1 << (mode - LIST_MODE)
    return count


def _append_word(blocks, row, word):
    """Put a word at the end of the list of a row."""
    head: int64_t = HEAD_WORDS * row
    count: int64_t = blocks.heads[head + HEAD_SHAPE] >> MODE_BITS
    mode: int64_t = blocks.heads[head + HEAD_SHAPE] & MODE_MASK
    at: int64_t = blocks.heads[head + HEAD_BLOCK]
    fresh: int64_t
    i: int64_t
    if at == 0:
        mode = LIST_MODE
        at = _allocate(blocks, 1)
    elif count >> (mode - LIST_MODE):
        fresh = _allocate(blocks, 2 * count)
        for i in range(count):
            blocks.words[fresh + i] = blocks.words[at + i]
        _release(blocks, at, count)
        at = fresh
        mode += 1
    blocks.words[at + count] = word
    blocks.heads[head + HEAD_BLOCK] = at
    blocks.heads[head + HEAD_SHAPE] = (count + 1) << MODE_BITS | mode


def _store_text(blocks, text):
    """A block with the length of a text in bytes, and then its bytes."""
    data: bytes = text.encode("utf-8", "surrogatepass")
    size: int64_t = len(data)
    at: int64_t = _allocate(blocks, 1 + (size + 7) // 8)
    if at >> TEXT_BITS:
        _release(blocks, at, 1 + (size + 7) // 8)
        raise MemoryError("a feature has more than 32 GiB of text")
    blocks.words[at] = size
    if cython.compiled:
        memcpy(blocks.words + at + 1, cython.cast(cython.p_char, data), size)
    else:
        for i in range((size + 7) // 8):
            blocks.words[at + 1 + i] = int.from_bytes(data[8 * i : 8 * i + 8], "little")
    return at


def _release_text(blocks, at):
    size: int64_t = blocks.words[at]
    _release(blocks, at, 1 + (size + 7) // 8)


def text_at(blocks: RowBlocks, at: int64_t):
    """The bytes of a stored text."""
    if at < 1 or at >= blocks.end:
        raise IndexError(f"text at {at} of {blocks.end}")
    size: int64_t = blocks.words[at]
    if cython.compiled:
        return PyBytes_FromStringAndSize(cython.cast(cython.p_char, blocks.words + at + 1), size)
    else:
        words = blocks.words[at + 1 : at + 1 + (size + 7) // 8]
        return b"".join(word.to_bytes(8, "little") for word in words)[:size]


def store_texts(blocks: RowBlocks, texts: object[::1], refs: uint64_t[::1]):
    """Store texts, each a str, and add where they lie to `refs`."""
    i: cython.Py_ssize_t
    for i in range(len(texts)):
        refs[i] |= _store_text(blocks, texts[i])


def row_head(blocks: RowBlocks, row: int64_t):
    """(count, mode, extra word) of a row."""
    shape: uint64_t = blocks.heads[_head(blocks, row) + HEAD_SHAPE]
    return shape >> MODE_BITS, shape & MODE_MASK, blocks.heads[HEAD_WORDS * row + HEAD_EXTRA]


def list_bytes(blocks: RowBlocks, rows: cython.const[int64_t][::1], length_max: uint64_t):
    """The lists of these rows, one after the other, as bytes. None: a row has something else, or
    they are longer than this."""
    i: cython.Py_ssize_t
    head: int64_t
    count: uint64_t
    mode: uint64_t
    total: uint64_t = 0
    parts: list = []
    for i in range(len(rows)):
        head = _head(blocks, rows[i])
        count = blocks.heads[head + HEAD_SHAPE] >> MODE_BITS
        mode = blocks.heads[head + HEAD_SHAPE] & MODE_MASK
        total += count
        if (count and not LIST_MODE <= mode < REGISTERS_MODE) or total > length_max:
            return None
        if count:
            parts.append(_word_bytes(blocks, blocks.heads[head + HEAD_BLOCK], count))
    return b"".join(parts)


def _word_bytes(blocks, at, count):
    if cython.compiled:
        return PyBytes_FromStringAndSize(cython.cast(cython.p_char, blocks.words + at), 8 * count)
    else:
        return array("Q", blocks.words[at : at + count]).tobytes()


def read_heads(
    blocks: RowBlocks,
    rows: cython.const[int64_t][::1],
    counts: int64_t[::1],
    modes: uint8_t[::1],
    extras: uint64_t[::1],
):
    """The count, mode and extra word of each of these rows."""
    i: cython.Py_ssize_t
    head: int64_t
    for i in range(len(rows)):
        head = _head(blocks, rows[i])
        counts[i] = blocks.heads[head + HEAD_SHAPE] >> MODE_BITS
        modes[i] = blocks.heads[head + HEAD_SHAPE] & MODE_MASK
        extras[i] = blocks.heads[head + HEAD_EXTRA]


def read_words(
    blocks: RowBlocks, rows: cython.const[int64_t][::1], width: int64_t, out: uint64_t[::1]
):
    """Copy the words of these rows, one row after the other: of a table those of its entries.
    Returns how many there are; no more than fit are copied."""
    i: cython.Py_ssize_t
    head: int64_t
    count: int64_t
    mode: int64_t
    at: int64_t
    step: int64_t
    mark: int64_t
    end: int64_t
    j: int64_t
    total: int64_t = 0
    room: int64_t = len(out)
    for i in range(len(rows)):
        head = _head(blocks, rows[i])
        count = blocks.heads[head + HEAD_SHAPE] >> MODE_BITS
        mode = blocks.heads[head + HEAD_SHAPE] & MODE_MASK
        at = blocks.heads[head + HEAD_BLOCK]
        if at == 0:
            continue
        step = width if mode < LIST_MODE else 1
        mark = 1 if step > 1 else 0
        end = at + (width << mode if mode < LIST_MODE else count)
        while at < end:
            if mode >= LIST_MODE or blocks.words[at + mark]:
                for j in range(step):
                    if total < room:
                        out[total] = blocks.words[at + j]
                    total += 1
            at += step
    return total


def clear_rows(
    blocks: RowBlocks, rows: cython.const[int64_t][::1], width: int64_t, text_word: int64_t
):
    """Release the blocks of these rows. `text_word`: which word of an entry is a text, or -1."""
    i: cython.Py_ssize_t
    head: int64_t
    for i in range(len(rows)):
        head = _head(blocks, rows[i])
        _empty_row(blocks, head, width, text_word)


def _empty_row(blocks, head, width, text_word):
    count: int64_t = blocks.heads[head + HEAD_SHAPE] >> MODE_BITS
    mode: int64_t = blocks.heads[head + HEAD_SHAPE] & MODE_MASK
    at: int64_t = blocks.heads[head + HEAD_BLOCK]
    size: int64_t
    i: int64_t
    text: int64_t
    if at:
        size = _block_words(count, mode, width)
        if text_word >= 0:
            i = text_word
            while i < size:
                text = blocks.words[at + i] & LOW_HALF
                if text:
                    _release_text(blocks, text)
                i += width
        _release(blocks, at, size)
    blocks.heads[head + HEAD_BLOCK] = 0
    blocks.heads[head + HEAD_SHAPE] = 0
    blocks.heads[head + HEAD_EXTRA] = 0
