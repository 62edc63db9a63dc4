"""`df.write` and `df.writeStream` into a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import penstock
from penstock.client.client import Client
from penstock.types import Record
from tests.spark.conftest import Start, url_of
from tests.support import serving


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


def write(frame: DataFrame, url: str, topic: str = "", **options: str) -> None:
    writing = frame.write.format("penstock").option("url", url).options(**options)
    if topic:
        writing = writing.option("topic", topic)
    writing.mode("append").save()


def test_a_row_without_data_is_one_json_object(
    spark: SparkSession, client: Client, url: str, topic: str
) -> None:
    frame = spark.range(0, 25_000, 1, 3).select("id", F.concat(F.lit("n"), "id").alias("name"))

    write(frame, url, topic)

    found = [record.data for record in all_of(client, topic)]
    assert sorted(found, key=lambda one: one["id"]) == [
        {"id": n, "name": f"n{n}"} for n in range(25_000)
    ]


def test_a_value_of_any_type_is_json_as_spark_has_it(
    spark: SparkSession, client: Client, url: str, topic: str
) -> None:
    """Held against `to_json`, but for the form of times and for nulls, which we keep."""
    frame = spark.sql(
        """SELECT 1 AS i, 1.5D AS d, CAST(2.50 AS DECIMAL(10,2)) AS m, 'a"\\\\\\n' AS s, true AS b,
        NULL AS n, DATE'2026-01-02' AS day, ARRAY(1, 2) AS l, MAP('k', 1) AS p,
        NAMED_STRUCT('x', 1, 'y', 'z') AS t, X'0001' AS x"""
    )
    spark_says = json.loads(frame.select(F.to_json(F.struct("*"))).first()[0])

    write(frame, url, topic)

    (record,) = all_of(client, topic)
    assert record.data == spark_says | {"n": None}


def test_columns_of_a_record_and_a_topic_for_each_row(
    spark: SparkSession, client: Client, url: str, topic: str
) -> None:
    rows = [(f"{topic}-{n % 2}", f"t{n}", "n1", '{"m":1}', str(n)) for n in range(6)]
    frame = spark.createDataFrame(
        rows, "topic string, tag string, node string, meta string, data string"
    )

    write(frame.coalesce(1), url)

    for part in range(2):
        found = all_of(client, f"{topic}-{part}")
        assert [(r.tag, r.node, r.meta, r.data) for r in found] == [
            (f"t{n}", "n1", {"m": 1}, n) for n in range(part, 6, 2)
        ]


def test_a_write_with_a_name_happens_once(
    spark: SparkSession, client: Client, url: str, topic: str
) -> None:
    frame = spark.range(0, 1_000, 1, 2)

    for _ in range(2):
        write(frame, url, topic, writeId="import/7")
    write(frame, url, topic)

    assert len(all_of(client, topic)) == 2_000, "once by its name, and once without"


def test_a_named_write_with_other_rows_is_refused_and_not_dropped(
    spark: SparkSession, client: Client, url: str, topic: str
) -> None:
    write(spark.range(0, 100, 1, 1), url, topic, writeId="import")

    with pytest.raises(PySparkException, match="comes again with other rows"):
        write(spark.range(50, 150, 1, 1), url, topic, writeId="import")

    assert len(all_of(client, topic)) == 100
    # Sorted, the same rows are the same write in whatever order they come.
    frame = spark.range(0, 100, 1, 1)
    write(frame, url, topic, writeId="sorted", rowOrder="any")
    write(frame.orderBy(F.desc("id")).coalesce(1), url, topic, writeId="sorted", rowOrder="any")
    assert len(all_of(client, topic)) == 200


@pytest.mark.parametrize(
    ("options", "expression", "why"),
    [
        ({}, "'{' AS data", "not valid JSON"),
        ({"topik": "x"}, "'1' AS data", "did you mean topic"),
        ({}, "'1' AS data, 2 AS other", "cannot be beside column data"),
        ({"timeoutMs": "1", "url": "http://127.0.0.1:9"}, "'1' AS data", "Check that the server"),
    ],
)
def test_what_cannot_be_written_says_why(
    spark: SparkSession, url: str, topic: str, options: dict[str, str], expression: str, why: str
) -> None:
    frame = spark.range(1).selectExpr(*expression.split(", "))

    with pytest.raises(PySparkException, match=why):
        write(
            frame,
            options.get("url", url),
            topic,
            **{k: v for k, v in options.items() if k != "url"},
        )


def test_a_server_with_keys_takes_rows_with_a_token_only(
    spark: SparkSession, start: Start, topic: str, tmp_path: Path
) -> None:
    server = start(PENSTOCK_API_KEYS="secret-of-the-sink")
    frame = spark.range(3)

    with pytest.raises(PySparkException, match="rejected the credentials") as caught:
        write(frame, url_of(server), topic, token="wrong-secret")
    assert "wrong-secret" not in str(caught.value)
    write(frame, url_of(server), topic, token="secret-of-the-sink")

    with penstock.connect(
        url_of(server), token="secret-of-the-sink", timeout_s=serving.DEADLINE_S
    ) as client:
        assert len(all_of(client, topic)) == 3
