"""Streams and batches through a server; large records and the lag of a stream."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.client.client import Client
from tests.spark.support import complete
from tests.support.serving import Server


def test_a_stream_tells_the_server_how_far_it_is(
    spark: SparkSession, server: Server, url: str, client: Client, topic: str, tmp_path: Path
) -> None:
    client.append(topic, [{"n": n} for n in range(10)])
    reader = spark.readStream.format("penstock").options(
        url=url, path=str(server.data_dir), topic=topic, consumer="lake", maxRecordsPerTrigger=6
    )

    def run() -> None:
        write = reader.schema("seq bigint, n int").load().writeStream.format("parquet")
        write = write.option("checkpointLocation", str(tmp_path / "checkpoint"))
        complete(write.option("path", str(tmp_path / "rows")).trigger(availableNow=True).start)

    run()
    client.append(topic, [{"n": n} for n in range(10, 15)])
    run()

    rows = spark.read.parquet(str(tmp_path / "rows")).orderBy("seq").collect()
    assert [tuple(row) for row in rows] == [(n + 1, n) for n in range(15)]
    held = client.position(topic, "lake")
    assert held is not None
    assert (held.seq, held.lag_records) == (15, 0)


def test_records_of_a_mebibyte_come_through(
    spark: SparkSession, server: Server, url: str, client: Client, topic: str
) -> None:
    text = "x" * (1_000_000)
    for _ in range(5):
        client.append(topic, [{"text": text}])

    for place in ({"url": url}, {"url": url, "path": str(server.data_dir)}):
        reader = spark.read.format("penstock").options(topic=topic, **place)
        lengths = reader.schema("text string").load().selectExpr("length(text) AS n").collect()
        assert [row.n for row in lengths] == [1_000_000] * 5


def test_a_server_that_is_not_there_is_said(spark: SparkSession, topic: str) -> None:
    reader = spark.read.format("penstock").options(topic=topic, url="http://127.0.0.1:9")

    with pytest.raises(Exception, match=r"127\.0\.0\.1:9"):
        reader.load().collect()
