"""A batch job for a cluster: `python -m tests.support.spark_job JSON`.

It reads a topic out of a data directory, waits in one task until it is told to go on, and writes
all rows to another topic. Penstock is on no executor: it travels with the job.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.spark import session


def main() -> None:
    told = json.loads(sys.argv[1])
    spark = session(
        "penstock-job",
        master=told["master"],
        driver_memory="512m",
        shuffle_partitions=4,
        py_files=told["py_files"],
        conf={
            "spark.executor.memory": "512m",
            "spark.pyspark.python": told["python"],
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.warehouse.dir": told["home"],
        },
    )
    began, go = Path(told["began"]), Path(told["go"])

    def wait(rows: Iterator[Any]) -> Iterator[Any]:
        """Half of the rows are on their way when this task says that it has begun."""
        pause = threading.Event()
        for count, row in enumerate(rows):
            if count == 12_000 and not go.exists():
                began.touch()
                while not go.exists():
                    pause.wait(0.05)
            yield row

    records = spark.read.format("penstock").option("path", told["path"])
    rows = records.option("topic", told["topic"]).load().select("tag", "data").repartition(4, "tag")
    slow = spark.createDataFrame(rows.rdd.mapPartitions(wait), rows.schema)
    writing = slow.write.format("penstock").option("url", told["url"])
    writing.option("topic", told["copy"]).mode("append").save()
    spark.stop()


if __name__ == "__main__":
    main()
