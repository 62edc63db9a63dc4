"""A batch job for a cluster: `python -m tests.support.spark_job JSON`.

It reads a topic out of a data directory and writes all rows to two others. In the first write one
task hangs, and is run a second time beside itself. In the second, tasks wait in the middle until
they are told to go on; by then a worker is gone. Penstock is on no executor: it travels along.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from penstock.spark import session
from tests.support import spark_java

MIDDLE = 12_000  # rows of a partition: more than one frame is on its way by then


def hanging(go: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The first attempt of the first task does not go on."""

    def work(rows: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        is_first = context is not None and not (context.partitionId() or context.attemptNumber())
        for count, row in enumerate(rows):
            if is_first and count == MIDDLE:
                pause = threading.Event()
                while not os.path.exists(go):
                    pause.wait(0.05)
            yield row

    return work


def waiting(began: str, go: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Every task says where it runs, and waits."""

    def work(rows: Iterator[Any]) -> Iterator[Any]:
        for count, row in enumerate(rows):
            if count == MIDDLE and not os.path.exists(go):
                with open(began, "a") as file:
                    file.write(f"{os.getsid(0)}\n")
                pause = threading.Event()
                while not os.path.exists(go):
                    pause.wait(0.05)
            yield row

    return work


def main() -> None:
    told = json.loads(sys.argv[1])
    spark = session(
        "penstock-job",
        master=told["master"],
        driver_memory="512m",
        shuffle_partitions=4,
        py_files=told["py_files"],
        conf={
            **spark_java.DRIVER,
            **spark_java.EXECUTOR,
            "spark.executor.memory": "512m",
            "spark.pyspark.python": told["python"],
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.multiplier": "1.01",
            "spark.speculation.quantile": "0.5",
            "spark.speculation.efficiency.enabled": "false",
            "spark.speculation.minTaskRuntime": "2s",
            "spark.sql.warehouse.dir": told["home"],
        },
    )
    records = spark.read.format("penstock").option("path", told["path"])
    rows = records.option("topic", told["topic"]).load().select("tag", "data")
    # In an order that is the same each time: what a shuffle brings comes in any.
    rows = rows.repartition(4, "tag").sortWithinPartitions("data")
    for name, work in (
        ("first", hanging(told["go"])),
        ("second", waiting(told["began"], told["go"])),
    ):
        slow = spark.createDataFrame(rows.rdd.mapPartitions(work), rows.schema)
        writing = slow.write.format("penstock").option("url", told["url"])
        writing.option("topic", told[name]).mode("append").save()
        Path(told["home"], f"{name}-done").touch()
    spark.stop()


if __name__ == "__main__":
    main()
