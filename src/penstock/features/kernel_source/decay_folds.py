"""Folds whose weights halve with every half-life: sums, means and variances.

An event that is older than the newest one folded gets the smaller weight; the state stays at the
time of the newest. State of a row: integers (events, newest ts), floats by function.
"""

from __future__ import annotations

from math import exp2

from penstock.codec.kernel_source import cython_shim as cython


def fold_decayed_sum(
    rows: cython.const[int64_t][::1],
    ts: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    values: cython.const[cython.double][::1],
    half_life_ms: cython.double,
    ints: int64_t[:, ::1],
    floats: cython.double[:, ::1],
):
    """Floats: the sum as of the newest event."""
    i: cython.Py_ssize_t
    row: int64_t
    x: cython.double
    gap: int64_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            if passes[i] and present[i]:
                x = values[i]
                if x - x != 0.0:  # infinite, or no number
                    continue
                row = rows[i]
                if ints[row, 0] == 0:
                    floats[row, 0] = x
                    ints[row, 1] = ts[i]
                else:
                    gap = ts[i] - ints[row, 1]
                    if gap > 0:
                        floats[row, 0] = floats[row, 0] * exp2(-(gap / half_life_ms)) + x
                        ints[row, 1] = ts[i]
                    elif gap == 0:
                        floats[row, 0] += x
                    else:
                        floats[row, 0] += x * exp2(gap / half_life_ms)
                ints[row, 0] += 1


def fold_decayed_count(
    rows: cython.const[int64_t][::1],
    ts: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    half_life_ms: cython.double,
    ints: int64_t[:, ::1],
    floats: cython.double[:, ::1],
):
    """Floats: the count as of the newest event."""
    i: cython.Py_ssize_t
    row: int64_t
    gap: int64_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            if passes[i]:
                row = rows[i]
                if ints[row, 0] == 0:
                    floats[row, 0] = 1.0
                    ints[row, 1] = ts[i]
                else:
                    gap = ts[i] - ints[row, 1]
                    if gap > 0:
                        floats[row, 0] = floats[row, 0] * exp2(-(gap / half_life_ms)) + 1.0
                        ints[row, 1] = ts[i]
                    elif gap == 0:
                        floats[row, 0] += 1.0
                    else:
                        floats[row, 0] += exp2(gap / half_life_ms)
                ints[row, 0] += 1


def fold_ew_moments(
    rows: cython.const[int64_t][::1],
    ts: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    values: cython.const[cython.double][::1],
    half_life_ms: cython.double,
    ints: int64_t[:, ::1],
    floats: cython.double[:, ::1],
):
    """Floats: mean, variance, newest value."""
    i: cython.Py_ssize_t
    row: int64_t
    x: cython.double
    gap: int64_t
    alpha: cython.double
    delta: cython.double
    step: cython.double
    with cython.nogil:
        for i in range(rows.shape[0]):
            if passes[i] and present[i]:
                x = values[i]
                if x - x != 0.0:
                    continue
                row = rows[i]
                if ints[row, 0] == 0:
                    floats[row, 0] = x
                    floats[row, 2] = x
                    ints[row, 1] = ts[i]
                else:
                    gap = ts[i] - ints[row, 1]
                    if gap > 0:
                        alpha = 1.0 - exp2(-(gap / half_life_ms))
                        ints[row, 1] = ts[i]
                    elif gap == 0:
                        alpha = 0.5
                    else:
                        alpha = 0.5 * exp2(gap / half_life_ms)
                    if gap >= 0:
                        floats[row, 2] = x
                    delta = x - floats[row, 0]
                    step = alpha * delta
                    floats[row, 0] += step
                    floats[row, 1] = (1.0 - alpha) * (floats[row, 1] + delta * step)
                ints[row, 0] += 1
