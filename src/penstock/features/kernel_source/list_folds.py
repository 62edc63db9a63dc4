"""Folds into lists of bounded length by row.

The values of a row lie together in an arena. A block has room for two values at first, then for
twice as many each time, up to the limit: its size follows from the length. A full list is frozen,
or is a ring whose oldest value lies at the head. A block that became too small is left where it is;
the caller copies all blocks into a larger arena when the end is reached.
"""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython


def _block_of(length, limit):
    """How many values the block of a list of this length has room for."""
    size: int64_t = 0 if length == 0 else 2
    while size < length:
        size *= 2
    return min(size, limit)


def append_numbers(
    first: cython.Py_ssize_t,
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    values: cython.const[int64_t][::1],
    limit: int64_t,
    is_ring: cython.bint,
    starts: int64_t[::1],
    lengths: uint16_t[::1],
    heads: uint16_t[::1],
    arena: int64_t[::1],
    used: int64_t[::1],
):
    """Append values of events from `first` on. Values are 64 bits of any type. Returns the event
    for which the arena has no room, or the number of events."""
    i: cython.Py_ssize_t
    done: cython.Py_ssize_t = rows.shape[0]
    row: int64_t
    length: int64_t
    start: int64_t
    block: int64_t
    j: int64_t
    with cython.nogil:
        for i in range(first, rows.shape[0]):
            if not (passes[i] and present[i]):
                continue
            row = rows[i]
            length = lengths[row]
            if length == limit:
                if is_ring:
                    arena[starts[row] + heads[row]] = values[i]
                    heads[row] = heads[row] + 1 if heads[row] + 1 < limit else 0
                continue
            if length == _block_of(length, limit):
                block = _block_of(length + 1, limit)
                start = used[0]
                if start + block > arena.shape[0]:
                    done = i
                    break
                for j in range(length):
                    arena[start + j] = arena[starts[row] + j]
                starts[row] = start
                used[0] = start + block
            arena[starts[row] + length] = values[i]
            lengths[row] = length + 1
    return done


def append_objects(
    first: cython.Py_ssize_t,
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    values: object[::1],
    limit: int64_t,
    is_ring: cython.bint,
    starts: int64_t[::1],
    lengths: uint16_t[::1],
    heads: uint16_t[::1],
    arena: object[::1],
    used: int64_t[::1],
    shared: dict | None,
):
    """The same of Python objects. Equal texts in `shared` are one object, unless it is None."""
    i: cython.Py_ssize_t
    done: cython.Py_ssize_t = rows.shape[0]
    row: int64_t
    length: int64_t
    start: int64_t
    block: int64_t
    j: int64_t
    for i in range(first, rows.shape[0]):
        if not (passes[i] and present[i]):
            continue
        row = rows[i]
        length = lengths[row]
        if length == limit and not is_ring:
            continue
        value = values[i]
        if shared is not None:
            value = shared.setdefault(value, value)
        if length == limit:
            arena[starts[row] + heads[row]] = value
            heads[row] = heads[row] + 1 if heads[row] + 1 < limit else 0
            continue
        if length == _block_of(length, limit):
            block = _block_of(length + 1, limit)
            start = used[0]
            if start + block > arena.shape[0]:
                done = i
                break
            for j in range(length):
                arena[start + j] = arena[starts[row] + j]
                arena[starts[row] + j] = None
            starts[row] = start
            used[0] = start + block
        arena[starts[row] + length] = value
        lengths[row] = length + 1
    return done


def sort_in_times(
    first: cython.Py_ssize_t,
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    ts: cython.const[int64_t][::1],
    limit: int64_t,
    starts: int64_t[::1],
    lengths: uint16_t[::1],
    heads: uint16_t[::1],
    arena: int64_t[::1],
    used: int64_t[::1],
):
    """Keep the latest times in order. Returns as `append_numbers` does."""
    i: cython.Py_ssize_t
    done: cython.Py_ssize_t = rows.shape[0]
    row: int64_t
    length: int64_t
    start: int64_t
    block: int64_t
    j: int64_t
    at: int64_t
    before: int64_t
    with cython.nogil:
        for i in range(first, rows.shape[0]):
            if not passes[i]:
                continue
            row = rows[i]
            length = lengths[row]
            if length == limit:
                if ts[i] <= arena[starts[row] + heads[row]]:
                    continue
                at = heads[row]
                heads[row] = at + 1 if at + 1 < limit else 0
            else:
                if length == _block_of(length, limit):
                    block = _block_of(length + 1, limit)
                    start = used[0]
                    if start + block > arena.shape[0]:
                        done = i
                        break
                    for j in range(length):
                        arena[start + j] = arena[starts[row] + j]
                    starts[row] = start
                    used[0] = start + block
                at = length
                length += 1
                lengths[row] = length
            start = starts[row]
            j = length
            while j > 1:
                before = at - 1 if at else limit - 1
                if arena[start + before] <= ts[i]:
                    break
                arena[start + at] = arena[start + before]
                at = before
                j -= 1
            arena[start + at] = ts[i]
    return done
