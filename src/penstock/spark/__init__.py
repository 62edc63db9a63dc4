"""The data pipeline: Spark reads the log itself, and writes to it."""

from penstock.spark.source import register

__all__ = ["register"]
