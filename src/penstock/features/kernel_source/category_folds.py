"""Counts by category: a chain of categories for each key, the one counted last in front.

Categories are numbers; -1 is one that is not counted. Columns of `keys`: first category, events,
categories. Columns of `items`: category, events, unused, next.
"""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.features.kernel_source.chains import _take_item


def find_codes(
    texts: object[::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    codes: dict,
    found: int64_t[::1],
):
    """Look up the number of each text, -1 if it has none. Returns the places of those."""
    i: cython.Py_ssize_t
    missing: list = []
    for i in range(len(texts)):
        if passes[i] and present[i]:
            code = codes.get(texts[i])
            if code is None:
                found[i] = -1
                missing.append(i)
            else:
                found[i] = code
    return missing


def fold_categories(
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    codes: cython.const[int64_t][::1],
    categories_max: int64_t,
    keys: int64_t[:, ::1],
    items: int64_t[:, ::1],
    pool: int64_t[::1],
    uses: int64_t[::1],
):
    """Count events by category, and how many keys use each. Beyond the maximum a new category
    counts as an event and has no count of its own. The pool has a free item for each event."""
    i: cython.Py_ssize_t
    key: int64_t
    code: int64_t
    at: int64_t
    before: int64_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            if not (passes[i] and present[i]):
                continue
            key = rows[i]
            code = codes[i]
            keys[key, 1] += 1
            if code < 0:
                continue
            at = keys[key, 0] - 1
            before = -1
            while at >= 0 and items[at, 0] != code:
                before = at
                at = items[at, 3] - 1
            if at < 0:
                if keys[key, 2] >= categories_max:
                    continue
                at = _take_item(items, pool)
                items[at, 0] = code
                items[at, 1] = 0
                items[at, 2] = 0
                keys[key, 2] += 1
                uses[code] += 1
            elif before >= 0:
                items[before, 3] = items[at, 3]
            if before >= 0 or keys[key, 0] != at + 1:
                items[at, 3] = keys[key, 0]
                keys[key, 0] = at + 1
            items[at, 1] += 1
