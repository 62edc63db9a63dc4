"""A Spark driver to be killed: `python -m tests.support.spark_driver JSON`.

A streaming query copies JSON files, or a log, into a topic, two tasks an epoch. What a row's number
says happens to its task: the first attempt fails there, or hangs there. After the sink's commit of
one epoch, and before the checkpoint's, the driver is killed. Somebody else goes on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter
from pyspark.sql.types import StructType

from penstock.engine.engine import Log
from penstock.spark.sessions import session
from penstock.spark.sink import StreamWriter
from penstock.spark.sink_options import sink_options
from tests.support import spark_java

ROWS = 12_500  # of a file: more than one frame holds
FILES = 2  # of an epoch
EPOCH_IDS = 100_000  # numbers of an epoch's rows
FAILS, HANGS = 0, 1  # epochs in which a first attempt does so
KILLED = 1  # and after whose commit the driver is killed
HANG_S = 60.0
SCHEMA = "id long, name string"


class KillingWriter(StreamWriter):
    """Kills the driver when the sink has committed."""

    pid = 0
    epoch = -1

    def commit(self, messages: Any, batchId: int) -> None:
        super().commit(messages, batchId)
        if batchId == self.epoch:
            os.kill(self.pid, signal.SIGKILL)


class KillingSource(DataSource):
    """`format("killing")`: as ours, with a death after one commit."""

    @classmethod
    def name(cls) -> str:
        return "killing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        told = dict(self.options)
        pid, epoch = int(told.pop("pid")), int(told.pop("epoch"))
        writer = KillingWriter(sink_options(told), schema, overwrite=overwrite)
        writer.pid, writer.epoch = pid, epoch
        return writer


def write_files(directory: Path, epoch: int) -> list[int]:
    """The files of an epoch, whole under their names; the numbers of their rows."""
    ids = []
    for part in range(FILES):
        first = epoch * EPOCH_IDS + part * ROWS
        lines = [f'{{"id":{n},"name":"row {n}"}}\n' for n in range(first, first + ROWS)]
        path = directory / f"{epoch:04d}-{part}.json"
        path.with_suffix(".tmp").write_text("".join(lines))
        path.with_suffix(".tmp").rename(path)
        ids += range(first, first + ROWS)
    return ids


def files(spark: SparkSession, directory: Path) -> Any:
    """A stream of those, an epoch at a time."""
    reader = spark.readStream.schema(SCHEMA).option("pathGlobFilter", "*.json")
    return reader.option("maxFilesPerTrigger", FILES).json(str(directory))


def append_records(log: Log, epoch: int) -> list[int]:
    """The same rows as records of a topic."""
    first = epoch * EPOCH_IDS
    ids = list(range(first, first + ROWS * FILES))
    for start in range(0, len(ids), 5_000):
        log.append("rows", [{"id": n, "name": f"row {n}"} for n in ids[start : start + 5_000]])
    log.sync()
    return ids


def records(spark: SparkSession, directory: str) -> Any:
    """A stream of those, an epoch at a time, in as many tasks as there would be files."""
    reader = spark.readStream.format("penstock").option("path", directory).option("topic", "rows")
    reader = reader.option("maxRecordsPerTrigger", ROWS * FILES).option("partitionRecords", ROWS)
    return reader.schema(SCHEMA).load()


def is_alone(context: TaskContext) -> bool:
    """Is there one executor only? Spark runs no second attempt beside the first one then."""
    return str(context.getLocalProperty("spark.master")).startswith("local[")


def trouble(number: int) -> int:
    """In the middle of the second file, when most of its rows are on their way already."""
    context = TaskContext.get()
    if number % EPOCH_IDS == ROWS + ROWS - 100 and context is not None:
        epoch = number // EPOCH_IDS
        if context.attemptNumber() == 0 and epoch == FAILS:
            raise RuntimeError("this attempt fails, as it was told to")
        if context.attemptNumber() == 0 and epoch == HANGS and not is_alone(context):
            threading.Event().wait(HANG_S)
    return number


def main() -> None:
    told = json.loads(sys.argv[1])
    spark = session(
        "penstock-driver",
        master=told["master"],
        driver_memory="512m",
        shuffle_partitions=2,
        conf={
            **spark_java.DRIVER,
            **spark_java.EXECUTOR,
            "spark.executor.memory": "512m",
            "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.multiplier": "1.01",
            "spark.speculation.quantile": "0.5",
            "spark.speculation.efficiency.enabled": "false",
            "spark.speculation.minTaskRuntime": "3s",
            "spark.sql.warehouse.dir": told["home"],
        },
    )
    spark.dataSource.register(KillingSource)
    jvm = spark.sparkContext._jvm
    pid = jvm.java.lang.ProcessHandle.current().pid()
    rows = records(spark, told["log"]) if told["log"] else files(spark, Path(told["files"]))
    rows = rows.withColumn("id", F.udf(trouble, "long")("id"))
    query = (
        rows.writeStream.format("killing")
        .option("pid", pid)
        .option("epoch", told["epoch"])
        .option("url", told["url"])
        .option("topic", told["topic"])
        .option("checkpointLocation", told["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
