"""Folds into a few numbers by row: counts, sums, moments, extremes, times and runs."""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.features.kernel_source.c_types import INT32_MIN, INT64_MAX, INT64_MIN


def fold_counts(
    rows: cython.const[int64_t][::1], passes: cython.const[uint8_t][::1], counts: int64_t[::1]
):
    """Count the events that pass."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            if passes[i]:
                counts[rows[i]] += 1


def fold_matches(
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    matches: int64_t[::1],
    events: int64_t[::1],
):
    """Count the events that pass, and all events."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            events[rows[i]] += 1
            if passes[i]:
                matches[rows[i]] += 1


def fold_int_sums(
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    values: cython.const[int64_t][::1],
    lows: int64_t[::1],
    carries: int32_t[::1],
):
    """Add exactly: a sum is its low plus carry times 2**64. A row without a
    sum has the carry INT32_MIN."""
    i: cython.Py_ssize_t
    row: int64_t
    low: int64_t
    value: int64_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            if passes[i] and present[i]:
                row = rows[i]
                value = values[i]
                low = lows[row]
                if carries[row] == INT32_MIN:
                    carries[row] = 0
                if value > 0 and low > INT64_MAX - value:
                    lows[row] = (low - INT64_MAX - 1) + (value - INT64_MAX - 1)
                    carries[row] += 1
                elif value < 0 and low < INT64_MIN - value:
                    lows[row] = (low + INT64_MAX + 1) + (value + INT64_MAX + 1)
                    carries[row] -= 1
                else:
                    lows[row] = low + value


def fold_float_sums(
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    values: cython.const[cython.double][::1],
    sums: cython.double[::1],
):
    """Add in order. An empty row has -0.0, which no sum can be: 0.0 is added to each value, and
    a sum of opposite numbers is 0.0."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            if passes[i] and present[i] and values[i] == values[i]:
                sums[rows[i]] += values[i] + 0.0


def fold_present(
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    counts: int64_t[::1],
):
    """Count the events that pass and have a value."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            if passes[i] and present[i]:
                counts[rows[i]] += 1


def fold_means(
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    values: cython.const[cython.double][::1],
    counts: int64_t[::1],
    sums: cython.double[::1],
):
    """Count and add in order."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            if passes[i] and present[i] and values[i] == values[i]:
                counts[rows[i]] += 1
                sums[rows[i]] += values[i]


def fold_moments(
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    values: cython.const[cython.double][::1],
    counts: int64_t[::1],
    means: cython.double[::1],
    squares: cython.double[::1],
):
    """Count, mean and sum of squared differences from it, by Welford's method."""
    i: cython.Py_ssize_t
    row: int64_t
    value: cython.double
    difference: cython.double
    with cython.nogil:
        for i in range(rows.shape[0]):
            value = values[i]
            if passes[i] and present[i] and value == value:
                row = rows[i]
                counts[row] += 1
                difference = value - means[row]
                means[row] += difference / counts[row]
                squares[row] += difference * (value - means[row])


def merged_moments(
    rows: cython.const[int64_t][::1],
    counts: cython.const[int64_t][::1],
    means: cython.const[cython.double][::1],
    squares: cython.const[cython.double][::1],
):
    """(count, mean, squares) of some rows, merged in this order by the formula of Chan."""
    i: cython.Py_ssize_t
    row: int64_t
    count: int64_t = 0
    total: int64_t
    mean: cython.double = 0.0
    square: cython.double = 0.0
    difference: cython.double
    for i in range(rows.shape[0]):
        row = rows[i]
        if counts[row] == 0:
            continue
        if count == 0:
            count, mean, square = counts[row], means[row], squares[row]
            continue
        total = count + counts[row]
        difference = means[row] - mean
        mean += difference * counts[row] / total
        square += squares[row] + difference * difference * count * counts[row] / total
        count = total
    return count, mean, square


def fold_int_extremes(
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    values: cython.const[int64_t][::1],
    is_least: cython.bint,
    bests: int64_t[::1],
    is_set: uint8_t[::1],
):
    """Keep the least, or the greatest, value of each row."""
    i: cython.Py_ssize_t
    row: int64_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            if passes[i] and present[i]:
                row = rows[i]
                if not is_set[row]:
                    is_set[row] = 1
                    bests[row] = values[i]
                elif values[i] < bests[row] if is_least else values[i] > bests[row]:
                    bests[row] = values[i]


def fold_float_extremes(
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    values: cython.const[cython.double][::1],
    is_least: cython.bint,
    bests: cython.double[::1],
):
    """Keep the least, or the greatest, value of each row. An empty row has NaN."""
    i: cython.Py_ssize_t
    row: int64_t
    value: cython.double
    best: cython.double
    with cython.nogil:
        for i in range(rows.shape[0]):
            value = values[i]
            if passes[i] and present[i] and value == value:
                row = rows[i]
                best = bests[row]
                if best != best or (value < best if is_least else value > best):
                    bests[row] = value


def fold_object_extremes(
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    values: object[::1],
    is_least: cython.bint,
    bests: object[::1],
    shared: dict | None,
):
    """Keep the least, or the greatest, text of each row. An empty row has None. Equal texts in
    `shared` are one object, unless it is None."""
    i: cython.Py_ssize_t
    row: int64_t
    for i in range(len(rows)):
        if passes[i] and present[i]:
            row = rows[i]
            value = values[i]
            best = bests[row]
            if best is None or (value < best if is_least else value > best):
                bests[row] = value if shared is None else shared.setdefault(value, value)


def fold_ends(
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    values: cython.const[int64_t][::1],
    is_first: cython.bint,
    ends: int64_t[::1],
    is_set: uint8_t[::1],
):
    """Keep the first, or the last, value of each row. Values are 64 bits of any type."""
    i: cython.Py_ssize_t
    row: int64_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            if passes[i] and present[i]:
                row = rows[i]
                if not (is_first and is_set[row]):
                    ends[row] = values[i]
                    is_set[row] = 1


def fold_object_ends(
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    values: object[::1],
    is_first: cython.bint,
    ends: object[::1],
    shared: dict | None,
):
    """Keep the first, or the last, value of each row. An empty row has None. Equal texts in
    `shared` are one object, unless it is None."""
    i: cython.Py_ssize_t
    row: int64_t
    for i in range(len(rows)):
        if passes[i] and present[i]:
            row = rows[i]
            if not (is_first and ends[row] is not None):
                value = values[i]
                ends[row] = value if shared is None else shared.setdefault(value, value)


def fold_pairs(
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    values: cython.const[int64_t][::1],
    previous: int64_t[::1],
    latest: int64_t[::1],
    counts: uint8_t[::1],
):
    """Keep the last two values of each row, and how many of them there are."""
    i: cython.Py_ssize_t
    row: int64_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            if passes[i] and present[i]:
                row = rows[i]
                previous[row] = latest[row]
                latest[row] = values[i]
                if counts[row] < 2:
                    counts[row] += 1


def fold_times(
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    ts: cython.const[int64_t][::1],
    is_first: cython.bint,
    times: int64_t[::1],
):
    """Keep the earliest, or the latest, time of an event that passes. An empty row has
    INT64_MIN."""
    i: cython.Py_ssize_t
    row: int64_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            if passes[i]:
                row = rows[i]
                if times[row] == INT64_MIN or (
                    ts[i] < times[row] if is_first else ts[i] > times[row]
                ):
                    times[row] = ts[i]


def fold_runs(
    rows: cython.const[int64_t][::1], passes: cython.const[uint8_t][::1], runs: int64_t[::1]
):
    """Count the events that pass since the last one that did not."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            runs[rows[i]] = runs[rows[i]] + 1 if passes[i] else 0


def fold_longest_runs(
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    runs: int64_t[::1],
    longest: int64_t[::1],
):
    """The same, and the longest of these runs."""
    i: cython.Py_ssize_t
    row: int64_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            row = rows[i]
            runs[row] = runs[row] + 1 if passes[i] else 0
            if runs[row] > longest[row]:
                longest[row] = runs[row]
