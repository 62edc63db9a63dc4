"""Folds into tables of counts: entropy's categories, the most frequent values, quantile's buckets.

What a table does when it is full differs. Entropy counts what is new as one category. top_k
subtracts the median of all counts from each and drops the entries that have none left (Misra and
Gries). A quantile makes its buckets twice as wide (UDDSketch, with the upper bits of a float for a
bucket instead of a logarithm, so that no rounding is involved).
"""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.features.kernel_source.row_blocks import (
    _allocate,
    _append_word,
    _block_words,
    _head,
    _release,
    _release_text,
    _store_text,
)
from penstock.features.kernel_source.row_shapes import (
    BUCKET_COUNT_MAX,
    BUCKET_MAGNITUDE_MASK,
    BUCKET_SHIFT,
    BUCKET_SIGN_BIT,
    BUCKET_UPPER_MASK,
    HEAD_BLOCK,
    HEAD_EXTRA,
    HEAD_SHAPE,
    HEAD_WORDS,
    LIST_MODE,
    MODE_BITS,
    MODE_MASK,
    QUANTILE_EXACT_MAX,
    RANKED_COUNT_MAX,
    RANKED_WIDTH,
    TEXT_BITS,
)
from penstock.features.kernel_source.row_tables import _find, _insert, _place

if not cython.compiled:
    from penstock.features.kernel_source.row_blocks import LOW_HALF


def fold_entropy(
    blocks: RowBlocks,
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    hashes: cython.const[uint64_t][::1],
    categories_max: uint64_t,
):
    """Count each hash. The extra word counts events of new hashes when there is no more room."""
    i: cython.Py_ssize_t
    head: int64_t
    entry: int64_t
    for i in range(len(rows)):
        if passes[i] and present[i]:
            head = _head(blocks, rows[i])
            entry = _find(blocks, rows[i], 2, hashes[i])
            if entry:
                blocks.words[entry + 1] += 1
            elif (blocks.heads[head + HEAD_SHAPE] >> MODE_BITS) >= categories_max:
                blocks.heads[head + HEAD_EXTRA] += 1
            else:
                entry = _insert(blocks, rows[i], 2, hashes[i])
                blocks.words[entry + 1] = 1


def _add_count(blocks, row, width, key, count):
    """Add to the count of a key. Where is its entry?"""
    entry: int64_t = _find(blocks, row, width, key)
    if entry == 0:
        entry = _insert(blocks, row, width, key)
    blocks.words[entry + 1] += count
    return entry


def merge_counts(
    blocks: RowBlocks,
    row: int64_t,
    others: RowBlocks,
    rows: cython.const[int64_t][::1],
    width: int64_t,
):
    """Add the counts of tables of `others` to a row of `blocks`, which takes any number of them.
    Further words of an entry are those of its first table."""
    i: cython.Py_ssize_t
    j: int64_t
    head: int64_t
    at: int64_t
    end: int64_t
    entry: int64_t
    _head(blocks, row)
    for i in range(len(rows)):
        head = _head(others, rows[i])
        blocks.heads[HEAD_WORDS * row + HEAD_EXTRA] += others.heads[head + HEAD_EXTRA]
        at = others.heads[head + HEAD_BLOCK]
        if at == 0:
            continue
        end = at + _block_words(0, others.heads[head + HEAD_SHAPE] & MODE_MASK, width)
        while at < end:
            if others.words[at + 1]:
                entry = _add_count(blocks, row, width, others.words[at], others.words[at + 1])
                for j in range(2, width):
                    if blocks.words[entry + j] == 0:
                        blocks.words[entry + j] = others.words[at + j]
            at += width


def table_counts(blocks: RowBlocks, row: int64_t, width: int64_t):
    """The counts of a table, in any order."""
    head: int64_t = _head(blocks, row)
    at: int64_t = blocks.heads[head + HEAD_BLOCK]
    end: int64_t = at
    counts: list = []
    if at:
        end += _block_words(0, blocks.heads[head + HEAD_SHAPE] & MODE_MASK, width)
    while at < end:
        if blocks.words[at + 1]:
            counts.append(blocks.words[at + 1])
        at += width
    return counts


def ranked_entries(blocks: RowBlocks, row: int64_t, length: uint64_t):
    """The entries with the largest `length` counts, and those with the same count as the last of
    them, in any order: (count, key, text)."""
    head: int64_t = _head(blocks, row)
    at: int64_t = blocks.heads[head + HEAD_BLOCK]
    end: int64_t = at
    low: uint64_t = 1
    high: uint64_t = 2
    middle: uint64_t
    entries: list = []
    if at:
        end += _block_words(0, blocks.heads[head + HEAD_SHAPE] & MODE_MASK, RANKED_WIDTH)
    if (blocks.heads[head + HEAD_SHAPE] >> MODE_BITS) > length:
        while _entries_from(blocks, at, end, high) >= length:
            low = high
            high *= 2
        while high - low > 1:
            middle = (low + high) // 2
            if _entries_from(blocks, at, end, middle) >= length:
                low = middle
            else:
                high = middle
    while at < end:
        if blocks.words[at + 1] >= low:
            entries.append(
                (blocks.words[at + 1], blocks.words[at], blocks.words[at + 2] & LOW_HALF)
            )
        at += RANKED_WIDTH
    return entries


def _entries_from(blocks, at, end, count):
    """How many entries have this count, or a larger one?"""
    found: int64_t = 0
    while at < end:
        if blocks.words[at + 1] >= count:
            found += 1
        at += RANKED_WIDTH
    return found


def fold_ranked(
    blocks: RowBlocks,
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    keys: cython.const[uint64_t][::1],
    has_texts: cython.bint,
    texts: object[::1],
):
    """Count each key, and keep the text of it. The extra word is the count that a dropped key may
    have had; a new entry keeps it, for it may have missed as many events."""
    i: cython.Py_ssize_t
    head: int64_t
    entry: int64_t
    text: int64_t
    for i in range(len(rows)):
        if not (passes[i] and present[i]):
            continue
        head = _head(blocks, rows[i])
        entry = _find(blocks, rows[i], RANKED_WIDTH, keys[i])
        if entry:
            blocks.words[entry + 1] += 1
            continue
        if (blocks.heads[head + HEAD_SHAPE] >> MODE_BITS) >= RANKED_COUNT_MAX:
            _drop_rare(blocks, rows[i], has_texts)
        text = _store_text(blocks, texts[i]) if has_texts else 0
        entry = _insert(blocks, rows[i], RANKED_WIDTH, keys[i])
        blocks.words[entry + 1] = 1
        blocks.words[entry + 2] = (blocks.heads[head + HEAD_EXTRA] << TEXT_BITS) | text


def _residue(blocks, entry, dropped):
    """What of the count of an entry was not subtracted yet."""
    return blocks.words[entry + 1] + (blocks.words[entry + 2] >> TEXT_BITS) - dropped


def _has_half(blocks, at, end, dropped, cut):
    """Has at least half of the entries of a full table no more than `cut` left?"""
    found: int64_t = 0
    while at < end:
        if blocks.words[at + 1] and _residue(blocks, at, dropped) <= cut:
            found += 1
        at += RANKED_WIDTH
    return 2 * found >= RANKED_COUNT_MAX


def _drop_rare(blocks, row, has_texts):
    """Subtract the median from the counts of a full table, and drop what has nothing left."""
    head: int64_t = HEAD_WORDS * row
    mode: int64_t = blocks.heads[head + HEAD_SHAPE] & MODE_MASK
    old: int64_t = blocks.heads[head + HEAD_BLOCK]
    end: int64_t = old + (RANKED_WIDTH << mode)
    dropped: uint64_t = blocks.heads[head + HEAD_EXTRA]
    low: uint64_t = 0
    cut: uint64_t = 1
    middle: uint64_t
    fresh: int64_t
    entry: int64_t
    j: int64_t
    used: int64_t = 0
    at: int64_t = old
    while not _has_half(blocks, old, end, dropped, cut):
        low = cut
        cut *= 2
    while cut - low > 1:
        middle = (low + cut) // 2
        if _has_half(blocks, old, end, dropped, middle):
            cut = middle
        else:
            low = middle
    fresh = _allocate(blocks, RANKED_WIDTH << mode)
    while at < end:
        if blocks.words[at + 1]:
            if _residue(blocks, at, dropped) > cut:
                entry = _place(blocks, fresh, mode, used, RANKED_WIDTH, blocks.words[at])
                for j in range(RANKED_WIDTH):
                    blocks.words[entry + j] = blocks.words[at + j]
                used += 1
            elif has_texts:
                _release_text(blocks, blocks.words[at + 2] & LOW_HALF)
        at += RANKED_WIDTH
    _release(blocks, old, RANKED_WIDTH << mode)
    blocks.heads[head + HEAD_BLOCK] = fresh
    blocks.heads[head + HEAD_SHAPE] = (used << MODE_BITS) | mode
    blocks.heads[head + HEAD_EXTRA] = dropped + cut


def fold_buckets(
    blocks: RowBlocks,
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    words: cython.const[uint64_t][::1],
):
    """Add floats, given as words. A row has a list of them, and above QUANTILE_EXACT_MAX a table of
    buckets with their counts. The extra word is how often the buckets were made wider."""
    i: cython.Py_ssize_t
    shape: int64_t
    for i in range(len(rows)):
        if passes[i] and present[i]:
            shape = blocks.heads[_head(blocks, rows[i]) + HEAD_SHAPE]
            if shape == 0 or (shape & MODE_MASK) >= LIST_MODE:
                if (shape >> MODE_BITS) < QUANTILE_EXACT_MAX:
                    _append_word(blocks, rows[i], words[i])
                    continue
                _to_buckets(blocks, rows[i])
            _add_to_bucket(blocks, rows[i], _bucket(words[i], 0), 1)


def _bucket(word, widenings):
    """The bucket of a float: its sign, and the upper bits of its magnitude."""
    return _wider(
        ((word >> 63) << BUCKET_SIGN_BIT) | ((word >> BUCKET_SHIFT) & BUCKET_UPPER_MASK), widenings
    )


def _wider(bucket, widenings):
    """The bucket that a bucket is part of."""
    magnitude: uint64_t = (bucket & BUCKET_MAGNITUDE_MASK) >> widenings
    return (bucket >> BUCKET_SIGN_BIT << BUCKET_SIGN_BIT) | magnitude


def _to_buckets(blocks, row):
    """Replace the list of a row by buckets."""
    head: int64_t = HEAD_WORDS * row
    old: int64_t = blocks.heads[head + HEAD_BLOCK]
    count: int64_t = blocks.heads[head + HEAD_SHAPE] >> MODE_BITS
    size: int64_t = _block_words(count, blocks.heads[head + HEAD_SHAPE] & MODE_MASK, 1)
    i: int64_t
    blocks.heads[head + HEAD_BLOCK] = 0
    blocks.heads[head + HEAD_SHAPE] = 0
    for i in range(count):
        _add_to_bucket(blocks, row, _bucket(blocks.words[old + i], 0), 1)
    _release(blocks, old, size)


def _add_to_bucket(blocks, row, bucket, count):
    """Add to the count of a bucket of a row that was never made wider. A full row gets wider
    buckets until one is free."""
    head: int64_t = HEAD_WORDS * row
    wide: uint64_t = _wider(bucket, blocks.heads[head + HEAD_EXTRA])
    entry: int64_t = _find(blocks, row, 2, wide)
    while entry == 0 and (blocks.heads[head + HEAD_SHAPE] >> MODE_BITS) >= BUCKET_COUNT_MAX:
        _widen(blocks, row)
        wide = _wider(bucket, blocks.heads[head + HEAD_EXTRA])
        entry = _find(blocks, row, 2, wide)
    if entry == 0:
        entry = _insert(blocks, row, 2, wide)
    blocks.words[entry + 1] += count


def _widen(blocks, row):
    """Make the buckets of a row twice as wide."""
    head: int64_t = HEAD_WORDS * row
    mode: int64_t = blocks.heads[head + HEAD_SHAPE] & MODE_MASK
    old: int64_t = blocks.heads[head + HEAD_BLOCK]
    at: int64_t = old
    blocks.heads[head + HEAD_BLOCK] = 0
    blocks.heads[head + HEAD_SHAPE] = 0
    blocks.heads[head + HEAD_EXTRA] += 1
    while at < old + (2 << mode):
        if blocks.words[at + 1]:
            _add_count(blocks, row, 2, _wider(blocks.words[at], 1), blocks.words[at + 1])
        at += 2
    _release(blocks, old, 2 << mode)


def merge_buckets(
    blocks: RowBlocks, row: int64_t, others: RowBlocks, rows: cython.const[int64_t][::1]
):
    """Add lists and buckets of `others` to the buckets of an empty row of `blocks`, which takes any
    number of them. They are as wide as the widest."""
    i: cython.Py_ssize_t
    j: int64_t
    head: int64_t
    shape: int64_t
    at: int64_t
    end: int64_t
    extra: uint64_t
    widest: uint64_t = 0
    own: int64_t = _head(blocks, row)
    for i in range(len(rows)):
        extra = others.heads[_head(others, rows[i]) + HEAD_EXTRA]
        widest = max(widest, extra)
    blocks.heads[own + HEAD_EXTRA] = widest
    for i in range(len(rows)):
        head = HEAD_WORDS * rows[i]
        shape = others.heads[head + HEAD_SHAPE]
        at = others.heads[head + HEAD_BLOCK]
        extra = widest - others.heads[head + HEAD_EXTRA]
        if at == 0:
            continue
        if (shape & MODE_MASK) >= LIST_MODE:
            for j in range(shape >> MODE_BITS):
                _add_count(blocks, row, 2, _bucket(others.words[at + j], widest), 1)
            continue
        end = at + (2 << (shape & MODE_MASK))
        while at < end:
            if others.words[at + 1]:
                _add_count(blocks, row, 2, _wider(others.words[at], extra), others.words[at + 1])
            at += 2
