"""The Spark data source and sink, `format("penstock")`, and feature tables computed by Spark."""

import importlib

from penstock.spark.requirements import missing_requirement

try:
    from penstock.spark.executor_package import pack
    from penstock.spark.sessions import session
    from penstock.spark.source import register
except ModuleNotFoundError as error:
    raise missing_requirement(error) from None

_FEATURES = {  # these need more packages than the source: `penstock[features]`
    "backfill": "feature_backfill",
    "feature_stream": "feature_streams",
    "feature_table": "feature_tables",
    "snapshot_table": "feature_state",
    "training_set": "feature_training",
    "verify_features": "feature_verify",
}
__all__ = [
    "backfill",
    "feature_stream",
    "feature_table",
    "pack",
    "register",
    "session",
    "snapshot_table",
    "training_set",
    "verify_features",
]


def __getattr__(name: str) -> object:
    if name not in _FEATURES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"penstock.spark.{_FEATURES[name]}")
    except ModuleNotFoundError as error:
        raise missing_requirement(error) from None
    return getattr(module, name)
