"""Straight lines through (time, value): centred sums of products, and of squared distances from
the line. They merge without loss.

The time of a row counts in seconds from its first folded event. Sums of raw products of ms since
1970 would cancel to noise. So would the distances from the line, taken as the difference of two
large sums; here they grow by what each value adds, which is never negative.
"""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython


def fold_comoments(
    rows: cython.const[int64_t][::1],
    ts: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    values: cython.const[cython.double][::1],
    ints: int64_t[:, ::1],
    floats: cython.double[:, ::1],
):
    """Integers: events, origin (ms). Floats: mean of time, mean of value, the centred sums
    time·time and time·value, and the sum of squared distances from the line."""
    i: cython.Py_ssize_t
    row: int64_t
    count: cython.double
    x: cython.double
    time: cython.double
    to_time: cython.double
    to_value: cython.double
    rest: cython.double
    share: cython.double
    with cython.nogil:
        for i in range(rows.shape[0]):
            if passes[i] and present[i]:
                x = values[i]
                if x - x != 0.0:  # infinite, or no number
                    continue
                row = rows[i]
                if ints[row, 0] == 0:
                    ints[row, 1] = ts[i]
                time = (ts[i] - ints[row, 1]) / 1000.0
                to_time = time - floats[row, 0]
                to_value = x - floats[row, 1]
                count = ints[row, 0]
                if floats[row, 2] > 0.0:
                    rest = to_value - floats[row, 3] / floats[row, 2] * to_time
                    share = 1.0 + 1.0 / count + to_time * to_time / floats[row, 2]
                    floats[row, 4] += rest * rest / share
                elif to_time == 0.0:
                    floats[row, 4] += to_value * to_value * (count / (count + 1.0))
                count += 1.0
                ints[row, 0] += 1
                floats[row, 0] += to_time / count
                floats[row, 1] += to_value / count
                floats[row, 2] += to_time * (time - floats[row, 0])
                floats[row, 3] += to_time * (x - floats[row, 1])


def merge_comoments(rows, ints: int64_t[:, ::1], floats: cython.double[:, ::1]):
    """Events, the centred sums time·time and time·value, and the sum of squared distances from the
    line, of these rows as one."""
    row: int64_t
    origin: int64_t = 0
    count: cython.double = 0.0
    added: cython.double
    total: cython.double
    share: cython.double
    mean_time: cython.double = 0.0
    mean_value: cython.double = 0.0
    to_time: cython.double
    to_value: cython.double
    time_time: cython.double = 0.0
    time_value: cython.double = 0.0
    distances: cython.double = 0.0
    within: cython.double
    turn: cython.double
    rest: cython.double
    for item in rows:
        row = item
        if ints[row, 0] == 0:
            continue
        added = ints[row, 0]
        if count == 0.0:
            origin = ints[row, 1]
        total = count + added
        to_time = floats[row, 0] + (ints[row, 1] - origin) / 1000.0 - mean_time
        to_value = floats[row, 1] - mean_value
        share = count * added / total
        distances += floats[row, 4]
        within = time_time + floats[row, 2]
        if time_time > 0.0 and floats[row, 2] > 0.0:  # two lines of different slopes
            turn = time_value / time_time - floats[row, 3] / floats[row, 2]
            distances += time_time * (floats[row, 2] / within) * turn * turn
        if within > 0.0:  # the way from one line to the other
            rest = to_value - (time_value + floats[row, 3]) / within * to_time
            distances += share * (rest * rest) / (1.0 + share * (to_time * to_time) / within)
        elif to_time == 0.0:
            distances += share * (to_value * to_value)
        time_time = within + to_time * to_time * share
        time_value += floats[row, 3] + to_time * to_value * share
        mean_time += to_time * added / total
        mean_value += to_value * added / total
        count = total
    return int(count), time_time, time_value, distances
