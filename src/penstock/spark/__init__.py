"""The data pipeline: Spark reads the log itself, and writes to it."""

from penstock.spark.missing import told

try:
    from penstock.spark.packing import pack
    from penstock.spark.sessions import session
    from penstock.spark.source import register
except ModuleNotFoundError as error:
    raise told(error) from None

__all__ = ["pack", "register", "session"]
