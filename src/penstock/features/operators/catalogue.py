"""All operators by name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from penstock.features import operators
from penstock.features.operators.operator_kind import OperatorKind

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


def _kinds_of_families() -> Iterator[OperatorKind]:
    """A family is a module of `operators` that has KINDS."""
    for module in pkgutil.iter_modules(operators.__path__, f"{operators.__name__}."):
        if module.name != __name__:
            yield from getattr(importlib.import_module(module.name), "KINDS", ())


def _in_order() -> Mapping[str, OperatorKind]:
    kinds = list(_kinds_of_families())
    found = {kind.name: kind for kind in kinds}
    if len(found) != len(kinds) or not set(found) <= set(NAMES):
        raise AssertionError(f"twice, or not in the table: {sorted(kind.name for kind in kinds)}")
    return MappingProxyType({name: found[name] for name in NAMES if name in found})


KINDS = _in_order()
