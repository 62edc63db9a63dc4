"""A job over Spark Connect, in a process of its own: one that has a classic session cannot have
another kind. What it saw is its last line."""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from penstock.spark import register
from penstock.spark.sessions import prepare


def main(told: dict[str, str]) -> dict[str, Any]:
    prepare("local[2]")
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    register(spark)
    place = {"path": told["path"], "topic": told["topic"]}
    rows = spark.read.format("penstock").options(**place).load()
    typed = spark.read.format("penstock").options(**place, schema="n BIGINT").load()
    row = typed.agg(f.count("n").alias("count"), f.sum("n").alias("sum")).collect()[0]

    rows.select("tag", "data").write.format("penstock").mode("append").options(
        url=told["url"], topic=told["batch"]
    ).save()
    for _ in range(2):
        stream = spark.readStream.format("penstock").options(**place).load()
        query = (
            stream.select("tag", "data")
            .writeStream.format("penstock")
            .options(url=told["url"], topic=told["stream"])
            .option("checkpointLocation", told["checkpoint"])
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    try:
        spark.read.format("penstock").options(path=told["path"], topic="none").load().collect()
        refused = False
    except PySparkException as error:
        refused = "none" in str(error)
    kind = type(spark).__module__
    spark.stop()
    return {"session": kind, "count": row["count"], "sum": row["sum"], "refused": refused}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))  # noqa: T201
