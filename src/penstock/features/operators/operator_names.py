"""The names of all operators, known without loading them."""

from __future__ import annotations

# The order of the table in the docs.
NAMES = (
    *("count", "sum", "mean", "min", "max", "var", "std", "ratio"),
    *("n_unique", "quantile", "top_k", "bloom_member", "entropy"),
    *("first", "last", "first_n", "last_n", "lag"),
    *("first_seen", "last_seen", "age", "has_seen", "time_since", "time_since_last_n"),
    *("streak", "max_streak", "negative_streak", "first_seen_in_window"),
    *("ewma", "ewvar", "ew_zscore", "decayed_sum", "decayed_count", "twa"),
    *("rate_of_change", "inter_arrival_stats", "burst_count", "delta_from_prev"),
    *("trend", "trend_residual", "outlier_count", "value_change_count", "z_score"),
    *("histogram", "hour_of_day_histogram", "dow_hour_histogram", "seasonal_deviation"),
    *("event_type_mix", "most_recent_n", "reservoir_sample"),
    *("geo_velocity", "geo_distance", "geo_spread", "distance_from_home"),
)
