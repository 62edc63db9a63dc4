"""The Spark session of a command: quiet, small, and ended with it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from penstock.lake import faults
from penstock.spark.sessions import session

# They log what the error says, too.
_ALSO_TOLD = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


@contextlib.contextmanager
def opened(place: str, *, master: str, memory: str, ui: bool = False) -> Iterator[SparkSession]:
    """A session, which ends here unless the process had it before. What fails in it is told as an
    error of ours; `place` is the lake."""
    had = SparkSession.getActiveSession()
    for name in _ALSO_TOLD:
        PySparkLogger.getLogger(name).disabled = True
    spark = session(
        "penstock pipeline",
        master=master,
        driver_memory=memory,
        ui=ui,
        conf={
            "spark.sql.session.timeZone": "UTC",  # of times without a zone
            "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        },
    )
    try:
        yield spark
    except Exception as error:
        if faults.is_of_spark(error):
            raise faults.told(str(error), place) from None
        raise
    finally:
        if had is None:
            spark.stop()


def ui_of(spark: SparkSession) -> str | None:
    """Where Spark serves its own pages, if it does."""
    return spark.sparkContext.uiWebUrl
