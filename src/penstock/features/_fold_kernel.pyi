"""The types of the fold kernel's functions, in both forms. Docstrings are in `kernel_source`."""

from collections.abc import Sequence
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
def merged_moments(
    rows: Int64s, counts: Int64s, means: Floats, squares: Floats
) -> tuple[int, float, float]: ...
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
    rows: Int64s,
    passes: Flags,
    present: Flags,
    values: Objects,
    is_least: bool,
    bests: Objects,
    shared: dict[Any, Any],
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
    rows: Int64s,
    passes: Flags,
    present: Flags,
    values: Objects,
    is_first: bool,
    ends: Objects,
    shared: dict[Any, Any] | None,
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

# chains
def chain_lengths(rows: Int64s, keys: Int64s, items: Int64s, lengths: Int64s) -> None: ...
def list_chains(rows: Int64s, keys: Int64s, items: Int64s, found: Int64s) -> None: ...
def link_chains(
    rows: Int64s, lengths: Int64s, keys: Int64s, items: Int64s, found: Int64s, pool: Int64s
) -> None: ...
def free_chains(rows: Int64s, keys: Int64s, items: Int64s, pool: Int64s) -> None: ...

# baseline_folds
def fold_baselines(
    rows: Int64s,
    ts: Int64s,
    passes: Flags,
    present: Flags,
    values: Floats,
    window_ms: int,
    bucket_ms: int,
    sigma: float,
    warm_up: int,
    keys: Int64s,
    key_floats: Floats,
    buckets: Int64s,
    bucket_floats: Floats,
    pool: Int64s,
) -> None: ...
def baseline(
    key: int, now_ms: int, window_ms: int, keys: Int64s, buckets: Int64s, bucket_floats: Floats
) -> tuple[int, float, float, int]: ...

# category_folds
def find_codes(
    texts: Objects, passes: Flags, present: Flags, codes: dict[str, int], found: Int64s
) -> list[int]: ...
def fold_categories(
    rows: Int64s,
    passes: Flags,
    present: Flags,
    codes: Int64s,
    categories_max: int,
    keys: Int64s,
    items: Int64s,
    pool: Int64s,
    uses: Int64s,
) -> None: ...

# decay_folds
def fold_decayed_sum(
    rows: Int64s,
    ts: Int64s,
    passes: Flags,
    present: Flags,
    values: Floats,
    half_life_ms: float,
    ints: Int64s,
    floats: Floats,
) -> None: ...
def fold_decayed_count(
    rows: Int64s, ts: Int64s, passes: Flags, half_life_ms: float, ints: Int64s, floats: Floats
) -> None: ...
def fold_ew_moments(
    rows: Int64s,
    ts: Int64s,
    passes: Flags,
    present: Flags,
    values: Floats,
    half_life_ms: float,
    ints: Int64s,
    floats: Floats,
) -> None: ...

# geo_folds
def fold_paths(
    rows: Int64s,
    ts: Int64s,
    passes: Flags,
    present: Flags,
    lats: Floats,
    lons: Floats,
    ints: Int64s,
    floats: Floats,
) -> None: ...
def fold_spreads(
    rows: Int64s,
    passes: Flags,
    present: Flags,
    lats: Floats,
    lons: Floats,
    ints: Int64s,
    floats: Floats,
) -> None: ...
def fold_places(
    rows: Int64s,
    passes: Flags,
    present: Flags,
    lats: Floats,
    lons: Floats,
    samples: int,
    ints: Int64s,
    floats: Floats,
) -> None: ...
def home_distance(row: int, samples: int, ints: Int64s, floats: Floats) -> float | None: ...

# histogram_folds
def fold_histograms(
    rows: Int64s, passes: Flags, present: Flags, values: Floats, bounds: Floats, counts: Int64s
) -> None: ...
def fold_hours(
    rows: Int64s, ts: Int64s, passes: Flags, first_hour: int, counts: Int64s
) -> None: ...
def fold_seasons(
    rows: Int64s,
    ts: Int64s,
    passes: Flags,
    present: Flags,
    values: Floats,
    ints: Int64s,
    floats: Floats,
) -> None: ...

# trend_folds
def fold_comoments(
    rows: Int64s,
    ts: Int64s,
    passes: Flags,
    present: Flags,
    values: Floats,
    ints: Int64s,
    floats: Floats,
) -> None: ...
def merge_comoments(
    rows: Sequence[int], ints: Int64s, floats: Floats
) -> tuple[int, float, float, float]: ...

# velocity_folds
def fold_endpoints(
    rows: Int64s,
    ts: Int64s,
    passes: Flags,
    present: Flags,
    values: Floats,
    ints: Int64s,
    floats: Floats,
) -> None: ...
def fold_held_values(
    rows: Int64s,
    ts: Int64s,
    passes: Flags,
    present: Flags,
    values: Floats,
    ints: Int64s,
    floats: Floats,
) -> None: ...
def held_mean(rows: Sequence[int], ints: Int64s, floats: Floats) -> float | None: ...
def fold_arrivals(rows: Int64s, ts: Int64s, passes: Flags, ints: Int64s) -> None: ...
def fold_bursts(
    rows: Int64s, ts: Int64s, passes: Flags, sub_window_ms: int, ints: Int64s
) -> None: ...
def largest_burst(rows: Sequence[int], ints: Int64s) -> int: ...
def fold_changes(
    rows: Int64s, ts: Int64s, passes: Flags, present: Flags, codes: Int64s, ints: Int64s
) -> None: ...
def count_changes(rows: Sequence[int], ints: Int64s) -> int: ...

# list_folds
def append_numbers(
    first: int,
    rows: Int64s,
    passes: Flags,
    present: Flags,
    values: Int64s,
    limit: int,
    is_ring: bool,
    starts: Int64s,
    lengths: NDArray[np.uint16],
    heads: NDArray[np.uint16],
    arena: Int64s,
    used: Int64s,
) -> int: ...
def append_objects(
    first: int,
    rows: Int64s,
    passes: Flags,
    present: Flags,
    values: Objects,
    limit: int,
    is_ring: bool,
    starts: Int64s,
    lengths: NDArray[np.uint16],
    heads: NDArray[np.uint16],
    arena: Objects,
    used: Int64s,
    shared: dict[Any, Any] | None,
) -> int: ...
def sort_in_times(
    first: int,
    rows: Int64s,
    passes: Flags,
    ts: Int64s,
    limit: int,
    starts: Int64s,
    lengths: NDArray[np.uint16],
    heads: NDArray[np.uint16],
    arena: Int64s,
    used: Int64s,
) -> int: ...
