"""The types of the fold kernel's functions, in both forms. Docstrings are in `kernel_source`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_] | NDArray[np.uint8]
Objects = NDArray[Any]

COMPILED: bool

# scalar_folds
def fold_counts(rows: Int64s, passes: Flags, counts: Int64s) -> None: ...
def fold_matches(rows: Int64s, passes: Flags, matches: Int64s, events: Int64s) -> None: ...
def fold_int_sums(
    rows: Int64s,
    passes: Flags,
    present: Flags,
    values: Int64s,
    lows: Int64s,
    carries: NDArray[np.int32],
) -> None: ...
def fold_float_sums(
    rows: Int64s, passes: Flags, present: Flags, values: Floats, sums: Floats
) -> None: ...
def fold_present(rows: Int64s, passes: Flags, present: Flags, counts: Int64s) -> None: ...
def fold_means(
    rows: Int64s, passes: Flags, present: Flags, values: Floats, counts: Int64s, sums: Floats
) -> None: ...
def fold_moments(
    rows: Int64s,
    passes: Flags,
    present: Flags,
    values: Floats,
    counts: Int64s,
    means: Floats,
    squares: Floats,
) -> None: ...
def fold_int_extremes(
    rows: Int64s,
    passes: Flags,
    present: Flags,
    values: Int64s,
    is_least: bool,
    bests: Int64s,
    is_set: Flags,
) -> None: ...
def fold_float_extremes(
    rows: Int64s, passes: Flags, present: Flags, values: Floats, is_least: bool, bests: Floats
) -> None: ...
def fold_object_extremes(
    rows: Int64s, passes: Flags, present: Flags, values: Objects, is_least: bool, bests: Objects
) -> None: ...
def fold_ends(
    rows: Int64s,
    passes: Flags,
    present: Flags,
    values: Int64s,
    is_first: bool,
    ends: Int64s,
    is_set: Flags,
) -> None: ...
def fold_object_ends(
    rows: Int64s, passes: Flags, present: Flags, values: Objects, is_first: bool, ends: Objects
) -> None: ...
def fold_pairs(
    rows: Int64s,
    passes: Flags,
    present: Flags,
    values: Int64s,
    previous: Int64s,
    latest: Int64s,
    counts: Flags,
) -> None: ...
def fold_times(rows: Int64s, passes: Flags, ts: Int64s, is_first: bool, times: Int64s) -> None: ...
def fold_runs(rows: Int64s, passes: Flags, runs: Int64s) -> None: ...
def fold_longest_runs(rows: Int64s, passes: Flags, runs: Int64s, longest: Int64s) -> None: ...
