"""The Spark session of a command, such as `penstock pipeline run`."""

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
from penstock.spark.source import register

# They log the text of an exception that is reported anyway.
_REDUNDANT_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
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
    name: str = "penstock"
    log_level: str = "ERROR"  # of Java


@contextlib.contextmanager
def opened(path: str, where: SparkTarget) -> Iterator[SparkSession]:
    """A session, which is stopped at the end unless the process had one before. Errors that Spark
    wraps are raised as errors of Penstock; `path` is what is read or written, such as a lake."""
    had = SparkSession.getActiveSession()
    for name in _REDUNDANT_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    for file in where.py_files:
        if not os.path.exists(file):
            raise InvalidArgument(f"--py-files: no such file {file}")
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
        where.name,
        master=where.master,
        driver_memory=where.memory,
        ui=where.ui,
        py_files=where.py_files,
        conf={**_SETTINGS, **where.conf},
        log_level=where.log_level,
    )


def _connected(address: str, where: SparkTarget) -> SparkSession:
    prepare("local")  # has no effect on a server that runs already
    builder = SparkSession.builder.appName(where.name).remote(address)
    for key, value in {**_SETTINGS, **where.conf}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if where.py_files:
        spark.addArtifacts(*where.py_files, pyfile=True)
    register(spark)
    return spark


def ui_of(spark: SparkSession) -> str | None:
    """The address of the Spark UI, if it is known. A client of Spark Connect does not know it."""
    try:
        return spark.sparkContext.uiWebUrl
    except (AttributeError, PySparkException):
        return None


def tasks_of(spark: SparkSession) -> tuple[int, int] | None:
    """How many tasks of the running stages are done, of how many; None if it is not known."""
    try:
        tracker = spark.sparkContext.statusTracker()
    except (AttributeError, PySparkException):
        return None
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]  # None: it has ended meanwhile
    return sum(one.numCompletedTasks for one in known), sum(one.numTasks for one in known)
