"""The Spark session of a command: quiet, small, and ended with it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from penstock.errors import InvalidArgument
from penstock.lake import faults
from penstock.spark.sessions import prepare, session

# They log what the error says, too.
_ALSO_TOLD = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_NAME = "penstock pipeline"
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",  # of times without a zone
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
}


@dataclass(frozen=True, slots=True)
class Where:
    """Where Spark runs, and what it is told. A `remote` is an address of Spark Connect, whose
    server has been given memory and pages of its own."""

    master: str = "local[*]"
    memory: str = "2g"
    ui: bool = False
    remote: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)
    py_files: Sequence[str] = ()


@contextlib.contextmanager
def opened(place: str, where: Where) -> Iterator[SparkSession]:
    """A session, which ends here unless the process had it before. What fails in it is told as an
    error of ours; `place` is the lake."""
    had = SparkSession.getActiveSession()
    for name in _ALSO_TOLD:
        PySparkLogger.getLogger(name).disabled = True
    for path in where.py_files:
        if not os.path.exists(path):
            raise InvalidArgument(f"--py-files: {path} is not there")
    remote = where.remote or os.environ.get("SPARK_REMOTE", "")
    try:
        spark = _connected(remote, where) if remote else _started(where)
        try:
            yield spark
        finally:
            if had is None:
                spark.stop()
    except Exception as error:
        if faults.is_of_spark(error):
            raise faults.of(error, place) from None
        raise


def _started(where: Where) -> SparkSession:
    return session(
        _NAME,
        master=where.master,
        driver_memory=where.memory,
        ui=where.ui,
        py_files=where.py_files,
        conf={**_SETTINGS, **where.conf},
    )


def _connected(address: str, where: Where) -> SparkSession:
    prepare("local")  # no matter for a server that is there already
    builder = SparkSession.builder.appName(_NAME).remote(address)
    for key, value in {**_SETTINGS, **where.conf}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if where.py_files:
        spark.addArtifacts(*where.py_files, pyfile=True)
    return spark


def ui_of(spark: SparkSession) -> str | None:
    """Where Spark serves its own pages, if it does and that is known. A client of Spark Connect
    has no context to ask."""
    try:
        return spark.sparkContext.uiWebUrl
    except (AttributeError, PySparkException):
        return None
