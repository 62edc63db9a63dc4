"""Folds of events in the order of their time: first and last event of a row, and what lies
between them.

A row is often a cell of a window, and its events can arrive out of order. Each fold keeps what
two neighbouring cells need to be joined at read: the ends of both.
"""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython


def fold_endpoints(
    rows: cython.const[int64_t][::1],
    ts: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    values: cython.const[cython.double][::1],
    ints: int64_t[:, ::1],
    floats: cython.double[:, ::1],
):
    """Integers: events, first ts, last ts. Floats: first value, last value. Of events at the same
    time the one that comes first in the log is the first, and the one that comes last the last."""
    i: cython.Py_ssize_t
    row: int64_t
    x: cython.double
    with cython.nogil:
        for i in range(rows.shape[0]):
            if passes[i] and present[i]:
                x = values[i]
                if x - x != 0.0:  # infinite, or no number
                    continue
                row = rows[i]
                if ints[row, 0] == 0 or ts[i] < ints[row, 1]:
                    ints[row, 1] = ts[i]
                    floats[row, 0] = x
                if ints[row, 0] == 0 or ts[i] >= ints[row, 2]:
                    ints[row, 2] = ts[i]
                    floats[row, 1] = x
                ints[row, 0] += 1


def fold_held_values(
    rows: cython.const[int64_t][::1],
    ts: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    values: cython.const[cython.double][::1],
    ints: int64_t[:, ::1],
    floats: cython.double[:, ::1],
):
    """Integers: events, first ts, last ts. Floats: first value, last value, and the sum of each
    value times the ms until the next. An event between the first and the last of its row is left
    out: the value that it interrupts is known no more."""
    i: cython.Py_ssize_t
    row: int64_t
    x: cython.double
    with cython.nogil:
        for i in range(rows.shape[0]):
            if passes[i] and present[i]:
                x = values[i]
                if x - x != 0.0:
                    continue
                row = rows[i]
                if ints[row, 0] == 0:
                    ints[row, 1] = ts[i]
                    ints[row, 2] = ts[i]
                    floats[row, 0] = x
                    floats[row, 1] = x
                elif ts[i] >= ints[row, 2]:
                    floats[row, 2] += floats[row, 1] * (ts[i] - ints[row, 2])
                    if ints[row, 1] == ts[i]:
                        floats[row, 0] = x  # the values before it were held for no time
                    ints[row, 2] = ts[i]
                    floats[row, 1] = x
                elif ts[i] < ints[row, 1]:
                    floats[row, 2] += x * (ints[row, 1] - ts[i])
                    ints[row, 1] = ts[i]
                    floats[row, 0] = x
                else:
                    continue
                ints[row, 0] += 1


def held_mean(rows, ints: int64_t[:, ::1], floats: cython.double[:, ::1]):
    """The mean of the values of these rows, oldest first, each weighted by the time that it was
    held; None without events."""
    row: int64_t
    area: cython.double = 0.0
    held: cython.double = 0.0
    value: cython.double = 0.0
    newest: int64_t = 0
    is_empty: cython.bint = True
    for item in rows:
        row = item
        if ints[row, 0] == 0:
            continue
        if not is_empty:
            area += value * (ints[row, 1] - newest)
            held += ints[row, 1] - newest
        area += floats[row, 2]
        held += ints[row, 2] - ints[row, 1]
        newest = ints[row, 2]
        value = floats[row, 1]
        is_empty = False
    if is_empty:
        return None
    return area / held if held > 0.0 else value


def ends_of_rows(rows, ints: int64_t[:, ::1]):
    """The events of these rows, oldest first, and the first and the last row that has any."""
    row: int64_t
    events: int64_t = 0
    first: int64_t = -1
    last: int64_t = -1
    for item in rows:
        row = item
        if ints[row, 0] > 0:
            events += ints[row, 0]
            last = row
            if first < 0:
                first = row
    return events, first, last


def fold_arrivals(
    rows: cython.const[int64_t][::1],
    ts: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    ints: int64_t[:, ::1],
):
    """Integers: events, first ts, last ts."""
    i: cython.Py_ssize_t
    row: int64_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            if passes[i]:
                row = rows[i]
                if ints[row, 0] == 0:
                    ints[row, 1] = ts[i]
                    ints[row, 2] = ts[i]
                elif ts[i] < ints[row, 1]:
                    ints[row, 1] = ts[i]
                elif ts[i] > ints[row, 2]:
                    ints[row, 2] = ts[i]
                ints[row, 0] += 1


def fold_bursts(
    rows: cython.const[int64_t][::1],
    ts: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    sub_window_ms: int64_t,
    ints: int64_t[:, ::1],
):
    """Integers: number and events of the first sub-window, number and events of the last, and the
    most events of any. An event of a sub-window between the first and the last is left out, for
    its count is known no more."""
    i: cython.Py_ssize_t
    row: int64_t
    number: int64_t
    count: int64_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            if passes[i]:
                row = rows[i]
                number = ts[i] // sub_window_ms
                count = 1
                if ints[row, 4] == 0:
                    ints[row, 0] = number
                    ints[row, 1] = 1
                    ints[row, 2] = number
                    ints[row, 3] = 1
                elif number == ints[row, 2]:
                    count = ints[row, 3] + 1
                    ints[row, 3] = count
                    if number == ints[row, 0]:
                        ints[row, 1] = count
                elif number > ints[row, 2]:
                    ints[row, 2] = number
                    ints[row, 3] = 1
                elif number == ints[row, 0]:
                    count = ints[row, 1] + 1
                    ints[row, 1] = count
                elif number < ints[row, 0]:
                    ints[row, 0] = number
                    ints[row, 1] = 1
                else:
                    continue
                if count > ints[row, 4]:
                    ints[row, 4] = count


def largest_burst(rows, ints: int64_t[:, ::1]):
    """The most events in any sub-window, of these rows, oldest first. A sub-window may begin in
    one row and end in a later one."""
    row: int64_t
    most: int64_t = 0
    open_slice: int64_t = 0
    open_count: int64_t = 0
    for item in rows:
        row = item
        if ints[row, 4] == 0:
            continue
        if ints[row, 4] > most:
            most = ints[row, 4]
        if open_count > 0 and ints[row, 0] == open_slice:
            open_count += ints[row, 1]
        else:
            open_count = ints[row, 1]
        if open_count > most:
            most = open_count
        if ints[row, 2] != ints[row, 0]:
            open_count = ints[row, 3]
        open_slice = ints[row, 2]
    return most


def fold_changes(
    rows: cython.const[int64_t][::1],
    ts: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    codes: cython.const[int64_t][::1],
    ints: int64_t[:, ::1],
):
    """Integers: events, first ts, last ts, first code, last code, changes. An event between the
    first and the last of its row is left out: its neighbours are known no more."""
    i: cython.Py_ssize_t
    row: int64_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            if passes[i] and present[i]:
                row = rows[i]
                if ints[row, 0] == 0:
                    ints[row, 1] = ts[i]
                    ints[row, 2] = ts[i]
                    ints[row, 3] = codes[i]
                    ints[row, 4] = codes[i]
                elif ts[i] >= ints[row, 2]:
                    if codes[i] != ints[row, 4]:
                        ints[row, 5] += 1
                    ints[row, 2] = ts[i]
                    ints[row, 4] = codes[i]
                elif ts[i] < ints[row, 1]:
                    if codes[i] != ints[row, 3]:
                        ints[row, 5] += 1
                    ints[row, 1] = ts[i]
                    ints[row, 3] = codes[i]
                else:
                    continue
                ints[row, 0] += 1


def count_changes(rows, ints: int64_t[:, ::1]):
    """The changes inside of these rows, oldest first, and between them."""
    row: int64_t
    changes: int64_t = 0
    code: int64_t = 0
    is_empty: cython.bint = True
    for item in rows:
        row = item
        if ints[row, 0] == 0:
            continue
        changes += ints[row, 5]
        if not is_empty and ints[row, 3] != code:
            changes += 1
        code = ints[row, 4]
        is_empty = False
    return changes
