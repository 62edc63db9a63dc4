"""The types of the fold kernel's functions, in both forms. Docstrings are in `kernel_source`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_] | NDArray[np.uint8]
Objects = NDArray[Any]
Words = NDArray[np.uint64]

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
    shared: dict[Any, Any] | None,
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
def ends_of_rows(rows: Sequence[int], ints: Int64s) -> tuple[int, int, int]: ...
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

# key_table
def encode_keys(
    is_text: bytes,
    numbers: Int64s,
    texts: list[list[str | None]],
    present: Flags,
    offsets: Int64s,
) -> bytearray: ...
def find_slots(
    entries: NDArray[np.uint64],
    seed: int,
    other: int,
    starts: Int64s,
    arena: NDArray[np.uint8],
    state: Int64s,
    offsets: Int64s,
    texts: NDArray[np.uint8],
    present: Flags,
    inserts: bool,
    slots: Int64s,
    created: Int64s,
) -> None: ...
def find_slot(
    entries: NDArray[np.uint64],
    seed: int,
    other: int,
    starts: Int64s,
    arena: NDArray[np.uint8],
    key: memoryview,
) -> int: ...
def erase_keys(
    entries: NDArray[np.uint64],
    seed: int,
    other: int,
    starts: Int64s,
    arena: NDArray[np.uint8],
    state: Int64s,
    slots: Int64s,
) -> None: ...
def move_entries(old: NDArray[np.uint64], entries: NDArray[np.uint64]) -> None: ...
def retire_slots(
    entries: NDArray[np.uint64],
    seed: int,
    other: int,
    starts: Int64s,
    arena: NDArray[np.uint8],
    state: Int64s,
    slots: Int64s,
    times: Int64s,
    largest: Int64s,
    touched: Int64s,
    cold_after: int,
    created: Int64s,
    retired: Int64s,
) -> None: ...
def gather_keys(
    starts: Int64s, arena: NDArray[np.uint8], slots: Int64s, sizes: NDArray[np.int32]
) -> bytearray: ...
def index_keys(
    entries: NDArray[np.uint64],
    seed: int,
    other: int,
    starts: Int64s,
    arena: NDArray[np.uint8],
    state: Int64s,
    slots: Int64s,
    keys: NDArray[np.uint8],
    sizes: NDArray[np.int32],
) -> None: ...

# cell_table
def find_cells(
    slots: Int64s,
    buckets: Int64s,
    firsts: Int64s,
    heads: NDArray[np.int32],
    tails: NDArray[np.int32],
    older: NDArray[np.int32],
    newer: NDArray[np.int32],
    starts: Int64s,
    state: Int64s,
    rows: Int64s,
) -> int: ...
def drop_old_cells(
    slot: int,
    stop: int,
    first: int,
    heads: NDArray[np.int32],
    tails: NDArray[np.int32],
    older: NDArray[np.int32],
    newer: NDArray[np.int32],
    starts: Int64s,
    state: Int64s,
) -> None: ...
def drop_cells(
    slots: Int64s,
    heads: NDArray[np.int32],
    tails: NDArray[np.int32],
    older: NDArray[np.int32],
    newer: NDArray[np.int32],
    starts: Int64s,
    state: Int64s,
) -> None: ...
def dropped_cells(older: NDArray[np.int32], state: Int64s, rows: Int64s) -> None: ...
def free_cells(older: NDArray[np.int32], state: Int64s, rows: Int64s) -> None: ...
def live_cells(
    slot: int,
    first: int,
    last: int,
    tails: NDArray[np.int32],
    newer: NDArray[np.int32],
    starts: Int64s,
) -> list[int]: ...
def count_cells(
    slots: Int64s,
    first: int,
    tails: NDArray[np.int32],
    newer: NDArray[np.int32],
    starts: Int64s,
    counts: NDArray[np.int32],
) -> int: ...
def gather_cells(
    slots: Int64s,
    first: int,
    tails: NDArray[np.int32],
    newer: NDArray[np.int32],
    starts: Int64s,
    rows: Int64s,
) -> None: ...
def link_cells(
    slots: Int64s,
    counts: NDArray[np.int32],
    buckets: Int64s,
    heads: NDArray[np.int32],
    tails: NDArray[np.int32],
    older: NDArray[np.int32],
    newer: NDArray[np.int32],
    starts: Int64s,
    state: Int64s,
    rows: Int64s,
) -> None: ...

# row_blocks
class RowBlocks: ...

def new_row_blocks() -> RowBlocks: ...
def grow_rows(blocks: RowBlocks, rows: int) -> None: ...
def memory_words(blocks: RowBlocks) -> int: ...
def text_at(blocks: RowBlocks, at: int) -> bytes: ...
def store_texts(blocks: RowBlocks, texts: Objects, refs: Words) -> None: ...
def row_head(blocks: RowBlocks, row: int) -> tuple[int, int, int]: ...
def list_bytes(blocks: RowBlocks, rows: Int64s, length_max: int) -> bytes | None: ...
def read_heads(
    blocks: RowBlocks, rows: Int64s, counts: Int64s, modes: Flags, extras: Words
) -> None: ...
def read_words(blocks: RowBlocks, rows: Int64s, width: int, out: Words) -> int: ...
def clear_rows(blocks: RowBlocks, rows: Int64s, width: int, text_word: int) -> None: ...

# row_tables
def mix_words(words: Words, hashes: Words) -> None: ...
def load_rows(
    blocks: RowBlocks,
    rows: Int64s,
    counts: Int64s,
    modes: Flags,
    extras: Words,
    width: int,
    words: Words,
) -> None: ...

# distinct_folds
def fold_distinct(
    blocks: RowBlocks, rows: Int64s, passes: Flags, present: Flags, hashes: Words
) -> None: ...
def merge_distinct(blocks: RowBlocks, row: int, others: RowBlocks, rows: Int64s) -> None: ...
def fold_members(
    blocks: RowBlocks,
    rows: Int64s,
    passes: Flags,
    present: Flags,
    hashes: Words,
    filter_words: int,
    probes: int,
) -> None: ...

# counting_folds
def fold_entropy(
    blocks: RowBlocks,
    rows: Int64s,
    passes: Flags,
    present: Flags,
    hashes: Words,
    categories_max: int,
) -> None: ...
def merge_counts(
    blocks: RowBlocks, row: int, others: RowBlocks, rows: Int64s, width: int
) -> None: ...
def table_counts(blocks: RowBlocks, row: int, width: int) -> list[int]: ...
def ranked_entries(blocks: RowBlocks, row: int, length: int) -> list[tuple[int, int, int]]: ...
def fold_ranked(
    blocks: RowBlocks,
    rows: Int64s,
    passes: Flags,
    present: Flags,
    keys: Words,
    has_texts: bool,
    texts: Objects,
) -> None: ...
def fold_buckets(
    blocks: RowBlocks, rows: Int64s, passes: Flags, present: Flags, words: Words
) -> None: ...
def merge_buckets(blocks: RowBlocks, row: int, others: RowBlocks, rows: Int64s) -> None: ...

# sample_folds
def fold_recent(
    blocks: RowBlocks,
    rows: Int64s,
    passes: Flags,
    present: Flags,
    words: Words,
    has_texts: bool,
    texts: Objects,
    length_max: int,
) -> None: ...
def fold_samples(
    blocks: RowBlocks,
    rows: Int64s,
    passes: Flags,
    present: Flags,
    words: Words,
    has_texts: bool,
    texts: Objects,
    length_max: int,
) -> None: ...
