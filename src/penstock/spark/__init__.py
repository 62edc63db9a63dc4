"""The data pipeline: Spark reads the log itself, and writes to it."""

from penstock.spark.packing import pack
from penstock.spark.sessions import session
from penstock.spark.source import register

__all__ = ["pack", "register", "session"]
