"""Cells of one window: each is one bucket of one slot, and is a row of the features' state.

The cells of a slot are a chain, newest first: `heads` and `tails` have its ends, `older` and
`newer` lead along it, -1 ends it. `starts` is where a cell's bucket begins. Cells that were dropped
are a chain along `older` until their state is cleared, and then one of free cells.
"""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.features.kernel_source.c_types import INT64_MAX

if not cython.compiled:  # the numbers are in cell_table.pxd too
    # The places of `state`.
    CELLS_USED = 0
    CELLS_FREE = 1
    CELLS_DROPPED = 2
    CELLS_LIVE = 3
    CELLS_TO_CLEAR = 4


def _drop_oldest(slot, first, heads, tails, older, newer, starts, state):
    """Drop the cells of a slot that begin before `first`."""
    cell: int64_t = tails[slot]
    count: int64_t = 0
    while cell >= 0 and starts[cell] < first:
        tails[slot] = newer[cell]
        older[cell] = state[CELLS_DROPPED]
        state[CELLS_DROPPED] = cell
        count += 1
        cell = tails[slot]
    if count:
        state[CELLS_LIVE] -= count
        state[CELLS_TO_CLEAR] += count
        if cell < 0:
            heads[slot] = -1
        else:
            older[cell] = -1
    return count


def find_cells(
    slots: cython.const[int64_t][::1],
    buckets: cython.const[int64_t][::1],
    firsts: cython.const[int64_t][::1],
    heads: int32_t[::1],
    tails: int32_t[::1],
    older: int32_t[::1],
    newer: int32_t[::1],
    starts: int64_t[::1],
    state: int64_t[::1],
    rows: int64_t[::1],
):
    """The cell of each event, which is made if it is missing; there is room for all. -1 when its
    bucket begins before the first one that can still be read. Returns how many have none."""
    i: int64_t
    slot: int64_t
    cell: int64_t
    next_newer: int64_t
    fresh: int64_t
    missing: int64_t = 0
    with cython.nogil:
        for i in range(slots.shape[0]):
            slot = slots[i]
            rows[i] = -1
            if buckets[i] < firsts[i]:
                missing += 1
                continue
            cell = heads[slot]
            next_newer = -1
            while cell >= 0 and starts[cell] > buckets[i]:
                next_newer = cell
                cell = older[cell]
            if cell >= 0 and starts[cell] == buckets[i]:
                rows[i] = cell
                continue
            fresh = state[CELLS_FREE]
            if fresh >= 0:
                state[CELLS_FREE] = older[fresh]
            else:
                fresh = state[CELLS_USED]
                state[CELLS_USED] += 1
            state[CELLS_LIVE] += 1
            starts[fresh] = buckets[i]
            older[fresh] = cell
            newer[fresh] = next_newer
            if cell >= 0:
                newer[cell] = fresh
            else:
                tails[slot] = fresh
            if next_newer >= 0:
                older[next_newer] = fresh
            else:
                heads[slot] = fresh
            rows[i] = fresh
            _drop_oldest(slot, firsts[i], heads, tails, older, newer, starts, state)
    return missing


def drop_old_cells(
    slot: int64_t,
    stop: int64_t,
    first: int64_t,
    heads: int32_t[::1],
    tails: int32_t[::1],
    older: int32_t[::1],
    newer: int32_t[::1],
    starts: int64_t[::1],
    state: int64_t[::1],
):
    """Drop the cells of the slots slot..stop-1 that begin before `first`."""
    with cython.nogil:
        while slot < stop:
            _drop_oldest(slot, first, heads, tails, older, newer, starts, state)
            slot += 1


def drop_cells(
    slots: cython.const[int64_t][::1],
    heads: int32_t[::1],
    tails: int32_t[::1],
    older: int32_t[::1],
    newer: int32_t[::1],
    starts: int64_t[::1],
    state: int64_t[::1],
):
    """Drop all cells of these slots."""
    i: int64_t
    for i in range(slots.shape[0]):
        _drop_oldest(slots[i], INT64_MAX, heads, tails, older, newer, starts, state)


def dropped_cells(
    older: cython.const[int32_t][::1], state: cython.const[int64_t][::1], rows: int64_t[::1]
):
    """The cells that were dropped and are not free yet."""
    i: int64_t = 0
    cell: int64_t = state[CELLS_DROPPED]
    while cell >= 0:
        rows[i] = cell
        i += 1
        cell = older[cell]


def free_cells(older: int32_t[::1], state: int64_t[::1], rows: cython.const[int64_t][::1]):
    """The dropped cells, whose state was cleared, can be used again. The last one first."""
    i: int64_t
    for i in range(rows.shape[0]):
        older[rows[i]] = state[CELLS_FREE]
        state[CELLS_FREE] = rows[i]
    state[CELLS_DROPPED] = -1
    state[CELLS_TO_CLEAR] = 0


def live_cells(
    slot: int64_t,
    first: int64_t,
    last: int64_t,
    tails: cython.const[int32_t][::1],
    newer: cython.const[int32_t][::1],
    starts: cython.const[int64_t][::1],
):
    """The cells of a slot that begin at first..last, oldest first."""
    rows: list = []
    cell: int64_t = tails[slot]
    while cell >= 0 and starts[cell] <= last:
        if starts[cell] >= first:
            rows.append(cell)
        cell = newer[cell]
    return rows


def count_cells(
    slots: cython.const[int64_t][::1],
    first: int64_t,
    tails: cython.const[int32_t][::1],
    newer: cython.const[int32_t][::1],
    starts: cython.const[int64_t][::1],
    counts: int32_t[::1],
):
    """How many cells each slot has that do not begin before `first`. Returns their sum."""
    i: int64_t
    cell: int64_t
    count: int32_t
    total: int64_t = 0
    for i in range(slots.shape[0]):
        count = 0
        cell = tails[slots[i]]
        while cell >= 0:
            if starts[cell] >= first:
                count += 1
            cell = newer[cell]
        counts[i] = count
        total += count
    return total


def gather_cells(
    slots: cython.const[int64_t][::1],
    first: int64_t,
    tails: cython.const[int32_t][::1],
    newer: cython.const[int32_t][::1],
    starts: cython.const[int64_t][::1],
    rows: int64_t[::1],
):
    """The cells that `count_cells` counts, slot by slot, oldest first."""
    i: int64_t
    at: int64_t = 0
    cell: int64_t
    for i in range(slots.shape[0]):
        cell = tails[slots[i]]
        while cell >= 0:
            if starts[cell] >= first:
                rows[at] = cell
                at += 1
            cell = newer[cell]


def link_cells(
    slots: cython.const[int64_t][::1],
    counts: cython.const[int32_t][::1],
    buckets: cython.const[int64_t][::1],
    heads: int32_t[::1],
    tails: int32_t[::1],
    older: int32_t[::1],
    newer: int32_t[::1],
    starts: int64_t[::1],
    state: int64_t[::1],
    rows: int64_t[::1],
):
    """Give cells to slots that have none: `counts` for each, which begin at `buckets`, slot by
    slot, oldest first. There is room for all. `rows` gets them."""
    i: int64_t
    at: int64_t = 0
    end: int64_t = 0
    cell: int64_t
    last: int64_t
    for i in range(slots.shape[0]):
        if heads[slots[i]] >= 0:
            raise ValueError(f"slot {slots[i]} has cells already")
        last = -1
        end += counts[i]
        while at < end:
            cell = state[CELLS_FREE]
            if cell >= 0:
                state[CELLS_FREE] = older[cell]
            else:
                cell = state[CELLS_USED]
                state[CELLS_USED] += 1
            state[CELLS_LIVE] += 1
            starts[cell] = buckets[at]
            older[cell] = last
            newer[cell] = -1
            if last < 0:
                tails[slots[i]] = cell
            elif starts[cell] <= starts[last]:
                raise ValueError(f"slot {slots[i]}: its cells are not in order")
            else:
                newer[last] = cell
            heads[slots[i]] = cell
            rows[at] = cell
            last = cell
            at += 1
