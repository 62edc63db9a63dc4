"""Chains of items by key, in one pool: a key takes only the items it needs.

Column 0 of `keys` has the first item of a key, column 3 of `items` the item that follows, each as
index + 1, and 0 for none. `pool`: first free item (index + 1), items ever used.
"""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython


def _take_item(items, pool):
    """A free item. The caller has made sure that the pool has one."""
    fresh: int64_t = pool[0] - 1
    if fresh >= 0:
        pool[0] = items[fresh, 3]
    else:
        fresh = pool[1]
        pool[1] += 1
    return fresh


def chain_lengths(
    rows: cython.const[int64_t][::1],
    keys: int64_t[:, ::1],
    items: int64_t[:, ::1],
    lengths: int64_t[::1],
):
    """How many items each of these keys has."""
    i: cython.Py_ssize_t
    at: int64_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            at = keys[rows[i], 0]
            lengths[i] = 0
            while at > 0:
                lengths[i] += 1
                at = items[at - 1, 3]


def list_chains(
    rows: cython.const[int64_t][::1],
    keys: int64_t[:, ::1],
    items: int64_t[:, ::1],
    found: int64_t[::1],
):
    """The items of these keys, one key after the other, each in the order of its chain."""
    i: cython.Py_ssize_t
    at: int64_t
    count: int64_t = 0
    with cython.nogil:
        for i in range(rows.shape[0]):
            at = keys[rows[i], 0]
            while at > 0:
                found[count] = at - 1
                count += 1
                at = items[at - 1, 3]


def link_chains(
    rows: cython.const[int64_t][::1],
    lengths: cython.const[int64_t][::1],
    keys: int64_t[:, ::1],
    items: int64_t[:, ::1],
    found: int64_t[::1],
    pool: int64_t[::1],
):
    """Give new items to keys that have none: the reverse of `list_chains`."""
    i: cython.Py_ssize_t
    _: int64_t
    at: int64_t
    count: int64_t = 0
    last: int64_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            last = -1
            for _ in range(lengths[i]):
                at = _take_item(items, pool)
                items[at, 3] = 0
                if last < 0:
                    keys[rows[i], 0] = at + 1
                else:
                    items[last, 3] = at + 1
                last = at
                found[count] = at
                count += 1


def free_chains(
    rows: cython.const[int64_t][::1],
    keys: int64_t[:, ::1],
    items: int64_t[:, ::1],
    pool: int64_t[::1],
):
    """Give the items of these keys back to the pool."""
    i: cython.Py_ssize_t
    at: int64_t
    following: int64_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            at = keys[rows[i], 0]
            keys[rows[i], 0] = 0
            while at > 0:
                following = items[at - 1, 3]
                items[at - 1, 3] = pool[0]
                pool[0] = at
                at = following
