"""`df.write` and `df.writeStream` into a real server."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.client.client import Client
from penstock.types import Record


def all_of(client: Client, topic: str) -> list[Record]:
    """Every record of a topic."""
    found: list[Record] = []
    after = 0
    while True:
        page = client.read(topic, after=after, limit=10_000)
        found += page.records
        after = page.next_seq
        if page.caught_up:
            return found


def test_a_row_without_data_is_one_json_object(
    spark: SparkSession, client: Client, url: str, topic: str
) -> None:
    frame = spark.range(0, 25_000, 1, 3).select("id", F.concat(F.lit("n"), "id").alias("name"))

    frame.write.format("penstock").option("url", url).option("topic", topic).mode("append").save()

    found = [record.data for record in all_of(client, topic)]
    assert sorted(found, key=lambda one: one["id"]) == [
        {"id": n, "name": f"n{n}"} for n in range(25_000)
    ]
