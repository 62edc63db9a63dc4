"""The Spark session of a `penstock pipeline` command."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from penstock.errors import InvalidArgument
from penstock.lake import spark_errors
from penstock.spark.sessions import prepare, session

# They log the text of an exception that is reported anyway.
_REDUNDANT_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_NAME = "penstock pipeline"
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",  # of times without a zone
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
}


@dataclass(frozen=True, slots=True)
class SparkTarget:
    """Where Spark runs, and its settings. `remote` is the address of a Spark Connect server; memory
    and UI are then settings of that server."""

    master: str = "local[*]"
    memory: str = "2g"
    ui: bool = False
    remote: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)
    py_files: Sequence[str] = ()


@contextlib.contextmanager
def opened(path: str, where: SparkTarget) -> Iterator[SparkSession]:
    """A session, which is stopped at the end unless the process had one before. Errors that Spark
    wraps are raised as errors of Penstock; `path` is the lake."""
    had = SparkSession.getActiveSession()
    for name in _REDUNDANT_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    for path in where.py_files:
        if not os.path.exists(path):
            raise InvalidArgument(f"--py-files: no such file {path}")
    remote = where.remote or os.environ.get("SPARK_REMOTE", "")
    try:
        spark = _connected(remote, where) if remote else _started(where)
        try:
            yield spark
        finally:
            if had is None:
                spark.stop()
    except Exception as error:
        if spark_errors.is_of_spark(error):
            raise spark_errors.unwrapped(error, path) from None
        raise


def _started(where: SparkTarget) -> SparkSession:
    return session(
        _NAME,
        master=where.master,
        driver_memory=where.memory,
        ui=where.ui,
        py_files=where.py_files,
        conf={**_SETTINGS, **where.conf},
    )


def _connected(address: str, where: SparkTarget) -> SparkSession:
    prepare("local")  # has no effect on a server that runs already
    builder = SparkSession.builder.appName(_NAME).remote(address)
    for key, value in {**_SETTINGS, **where.conf}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if where.py_files:
        spark.addArtifacts(*where.py_files, pyfile=True)
    return spark


def ui_of(spark: SparkSession) -> str | None:
    """The address of the Spark UI, if it is known. A client of Spark Connect does not know it."""
    try:
        return spark.sparkContext.uiWebUrl
    except (AttributeError, PySparkException):
        return None
