"""The Spark data source and sink, `format("penstock")`, and feature tables computed by Spark."""

from penstock.spark.requirements import missing_requirement

try:
    from penstock.spark.executor_package import pack
    from penstock.spark.sessions import session
    from penstock.spark.source import register
except ModuleNotFoundError as error:
    raise missing_requirement(error) from None

__all__ = ["feature_table", "pack", "register", "session"]


def __getattr__(name: str) -> object:
    """Feature tables need more packages than the source: `penstock[features]`."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from penstock.spark import feature_tables
    except ModuleNotFoundError as error:
        raise missing_requirement(error) from None
    return getattr(feature_tables, name)
