"""The Spark data source and sink, `format("penstock")`."""

from penstock.spark.requirements import missing_requirement

try:
    from penstock.spark.executor_package import pack
    from penstock.spark.sessions import session
    from penstock.spark.source import register
except ModuleNotFoundError as error:
    raise missing_requirement(error) from None

__all__ = ["pack", "register", "session"]
