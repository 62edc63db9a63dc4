"""Folds into a fixed number of counts or moments by row: by value, by hour and by weekday."""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython


def fold_histograms(
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    values: cython.const[cython.double][::1],
    bounds: cython.const[cython.double][::1],
    counts: int64_t[:, ::1],
):
    """Count each value in the bin whose lower bound it reaches."""
    i: cython.Py_ssize_t
    x: cython.double
    low: cython.Py_ssize_t
    high: cython.Py_ssize_t
    middle: cython.Py_ssize_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            x = values[i]
            if passes[i] and present[i] and x == x:
                low = 0
                high = bounds.shape[0]
                while low < high:
                    middle = (low + high) // 2
                    if x < bounds[middle]:
                        high = middle
                    else:
                        low = middle + 1
                counts[rows[i], low] += 1


def fold_hours(
    rows: cython.const[int64_t][::1],
    ts: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    first_hour: int64_t,
    counts: int64_t[:, ::1],
):
    """Count events by the hour of their time in a cycle as long as a row. `first_hour` is the
    hour of the cycle in which 1970 began."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            if passes[i]:
                counts[rows[i], (ts[i] // 3600000 + first_hour) % counts.shape[1]] += 1


def fold_seasons(
    rows: cython.const[int64_t][::1],
    ts: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    values: cython.const[cython.double][::1],
    ints: int64_t[:, ::1],
    floats: cython.double[:, ::1],
):
    """Integers: values of each hour of the day; values, ts of the newest. Floats: means of each
    hour, sums of squared differences of each hour; newest value."""
    i: cython.Py_ssize_t
    row: int64_t
    hour: int64_t
    x: cython.double
    delta: cython.double
    with cython.nogil:
        for i in range(rows.shape[0]):
            if passes[i] and present[i]:
                x = values[i]
                if x - x != 0.0:  # infinite, or no number
                    continue
                row = rows[i]
                hour = ts[i] // 3600000 % 24
                ints[row, hour] += 1
                delta = x - floats[row, hour]
                floats[row, hour] += delta / ints[row, hour]
                floats[row, 24 + hour] += delta * (x - floats[row, hour])
                if ints[row, 24] == 0 or ts[i] >= ints[row, 25]:
                    ints[row, 25] = ts[i]
                    floats[row, 48] = x
                ints[row, 24] += 1
