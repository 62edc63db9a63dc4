"""Values against the statistics of a key: moments in buckets of time, a chain of them a key.

Unlike the cells of a window these are found from the key, so that an event can be compared with
the values before it. Buckets of all keys share one pool (`chains.py`). A chain has its newest
bucket first; a bucket is freed when a newer event of the key shows that it counts no more.

Columns of `keys`: newest bucket (index + 1, 0 none), values, newest ts, then what is kept to avoid
merging the chain for every event: is it valid, until which ts (if it is not: when expired buckets
are freed next), and its values. Columns of `key_floats`: newest value; kept mean, kept sum of
squares. Columns of `buckets`: start, values, outliers, next bucket (index + 1). Columns of
`bucket_floats`: mean, sum of squares.
"""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.features.kernel_source.c_types import INT64_MAX
from penstock.features.kernel_source.chains import _take_item


def fold_baselines(
    rows: cython.const[int64_t][::1],
    ts: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    values: cython.const[cython.double][::1],
    window_ms: int64_t,
    bucket_ms: int64_t,
    sigma: cython.double,
    warm_up: int64_t,
    keys: int64_t[:, ::1],
    key_floats: cython.double[:, ::1],
    buckets: int64_t[:, ::1],
    bucket_floats: cython.double[:, ::1],
    pool: int64_t[::1],
):
    """Fold each value into its bucket. With a sigma, count it as an outlier first if it is that
    many standard deviations away from the values before it. The pool has a free bucket for each
    event. Without a window (0) a key has one bucket."""
    i: cython.Py_ssize_t
    key: int64_t
    start: int64_t
    at: int64_t
    x: cython.double
    count: cython.double
    added: cython.double
    total: cython.double
    gap: cython.double
    mean: cython.double
    squares: cython.double
    is_outlier: cython.bint
    with cython.nogil:
        for i in range(rows.shape[0]):
            if not (passes[i] and present[i]):
                continue
            x = values[i]
            if x - x != 0.0:  # infinite, or no number
                continue
            key = rows[i]
            start = ts[i] // bucket_ms * bucket_ms if bucket_ms else 0
            if keys[key, 1] == 0 or ts[i] >= keys[key, 2]:
                keys[key, 2] = ts[i]
                key_floats[key, 0] = x
            elif window_ms > 0 and start <= keys[key, 2] - window_ms:
                continue  # its bucket counts no more
            keys[key, 1] += 1
            at = keys[key, 0] - 1
            if at < 0 or buckets[at, 0] != start:
                at = _bucket_at(
                    key, start, window_ms, keys, key_floats, buckets, bucket_floats, pool
                )
            is_outlier = False
            if sigma > 0.0:
                if keys[key, 3] == 0 or (window_ms > 0 and keys[key, 2] >= keys[key, 4]):
                    _keep_older(key, window_ms, keys, key_floats, buckets, bucket_floats, pool)
                count = keys[key, 5]
                added = buckets[keys[key, 0] - 1, 1]
                total = count + added
                if total >= warm_up:
                    mean = key_floats[key, 1]
                    squares = key_floats[key, 2]
                    if added > 0.0:
                        gap = bucket_floats[keys[key, 0] - 1, 0] - mean
                        mean += gap * added / total
                        squares += bucket_floats[keys[key, 0] - 1, 1] + gap * gap * (
                            count * added / total
                        )
                    gap = x - mean
                    is_outlier = squares > 0.0 and gap * gap * (total - 1.0) > (
                        sigma * sigma * squares
                    )
                if at != keys[key, 0] - 1:
                    keys[key, 3] = 0
            buckets[at, 1] += 1
            gap = x - bucket_floats[at, 0]
            bucket_floats[at, 0] += gap / buckets[at, 1]
            bucket_floats[at, 1] += gap * (x - bucket_floats[at, 0])
            if is_outlier:
                buckets[at, 2] += 1


def _bucket_at(key, start, window_ms, keys, key_floats, buckets, bucket_floats, pool):
    """The bucket of a key that starts then; a new one if there is none."""
    at: int64_t = keys[key, 0] - 1
    before: int64_t = -1
    while at >= 0 and buckets[at, 0] > start:
        before = at
        at = buckets[at, 3] - 1
    if at >= 0 and buckets[at, 0] == start:
        return at
    fresh: int64_t = _take_item(buckets, pool)
    buckets[fresh, 0] = start
    buckets[fresh, 1] = 0
    buckets[fresh, 2] = 0
    buckets[fresh, 3] = at + 1
    bucket_floats[fresh, 0] = 0.0
    bucket_floats[fresh, 1] = 0.0
    if before >= 0:
        buckets[before, 3] = fresh + 1
        keys[key, 3] = 0
    else:
        keys[key, 0] = fresh + 1
        if keys[key, 3] and at >= 0:
            _keep_too(key, at, window_ms, keys, key_floats, buckets, bucket_floats)
    if before < 0 and at < 0:
        keys[key, 4] = start
    if window_ms > 0 and keys[key, 3] == 0 and keys[key, 2] >= keys[key, 4]:
        # Not for each bucket: where nothing is kept, a quarter more may lie in the chain.
        _free_expired(key, keys[key, 2] - window_ms, keys, buckets, pool)
        keys[key, 4] = keys[key, 2] + window_ms // 4
    return fresh


def _free_expired(key, oldest, keys, buckets, pool):
    """Free the buckets of a key that start at this time or earlier, except for its newest."""
    before: int64_t = keys[key, 0] - 1
    at: int64_t
    last: int64_t
    while buckets[before, 3] > 0 and buckets[buckets[before, 3] - 1, 0] > oldest:
        before = buckets[before, 3] - 1
    at = buckets[before, 3]
    if at > 0:
        last = at - 1
        while buckets[last, 3] > 0:
            last = buckets[last, 3] - 1
        buckets[last, 3] = pool[0]
        pool[0] = at
        buckets[before, 3] = 0
    return 0


def _keep_older(key, window_ms, keys, key_floats, buckets, bucket_floats, pool):
    """Merge all buckets of a key but the newest, and keep the result with the key."""
    at: int64_t
    kept: int64_t = 0
    oldest: int64_t = INT64_MAX
    count: cython.double = 0.0
    added: cython.double
    part: cython.double
    gap: cython.double
    mean: cython.double = 0.0
    squares: cython.double = 0.0
    if window_ms > 0:
        _free_expired(key, keys[key, 2] - window_ms, keys, buckets, pool)
    at = buckets[keys[key, 0] - 1, 3] - 1
    while at >= 0:
        added = buckets[at, 1]
        if added > 0.0:  # it is not new
            count += added
            part = added / count
            gap = bucket_floats[at, 0] - mean
            mean += gap * part
            squares += bucket_floats[at, 1] + gap * gap * (added - added * part)
            kept += buckets[at, 1]
        oldest = buckets[at, 0]
        at = buckets[at, 3] - 1
    keys[key, 3] = 1
    keys[key, 4] = oldest + window_ms if window_ms > 0 and kept > 0 else INT64_MAX
    keys[key, 5] = kept
    key_floats[key, 1] = mean
    key_floats[key, 2] = squares
    return 0


def _keep_too(key, at, window_ms, keys, key_floats, buckets, bucket_floats):
    """Merge a bucket into what is kept with the key."""
    count: cython.double = keys[key, 5]
    added: cython.double = buckets[at, 1]
    total: cython.double = count + added
    gap: cython.double = bucket_floats[at, 0] - key_floats[key, 1]
    if added == 0.0:  # it is new
        return 0
    key_floats[key, 1] += gap * added / total
    key_floats[key, 2] += bucket_floats[at, 1] + gap * gap * (count * added / total)
    keys[key, 5] += buckets[at, 1]
    if window_ms > 0 and buckets[at, 0] + window_ms < keys[key, 4]:
        keys[key, 4] = buckets[at, 0] + window_ms
    return 0


def baseline(
    key: int64_t,
    now_ms: int64_t,
    window_ms: int64_t,
    keys: int64_t[:, ::1],
    buckets: int64_t[:, ::1],
    bucket_floats: cython.double[:, ::1],
):
    """Values, mean, sum of squares and outliers of the buckets of a key that count now. A read
    before the newest value does not count what is too old for that: it may be free already."""
    at: int64_t = keys[key, 0] - 1
    oldest: int64_t = (now_ms if now_ms > keys[key, 2] else keys[key, 2]) - window_ms
    kept: int64_t = 0
    outliers: int64_t = 0
    count: cython.double = 0.0
    added: cython.double
    total: cython.double
    gap: cython.double
    mean: cython.double = 0.0
    squares: cython.double = 0.0
    while at >= 0:
        if window_ms == 0 or oldest < buckets[at, 0] <= now_ms:
            added = buckets[at, 1]
            total = count + added
            gap = bucket_floats[at, 0] - mean
            mean += gap * added / total
            squares += bucket_floats[at, 1] + gap * gap * (count * added / total)
            kept += buckets[at, 1]
            outliers += buckets[at, 2]
            count = total
        at = buckets[at, 3] - 1
    return kept, mean, squares, outliers
