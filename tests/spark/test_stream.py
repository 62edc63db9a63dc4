"""What a streaming query gives, batch by batch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.engine import Log
from tests.spark.support import complete, filled, opened


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with opened(tmp_path / "data") as found:
        yield found


class Query:
    """A stream that is run as far as there is something, again and again from one checkpoint."""

    def __init__(self, spark: SparkSession, log: Log, place: Path, **options: Any) -> None:
        self._spark = spark
        self._options = {"path": log.core.parts.layout.root, "topic": "t", **options}
        self._checkpoint = str(place / "checkpoint")
        self.batches: list[list[tuple[str, int]]] = []

    def run(self) -> list[list[tuple[str, int]]]:
        """The batches of this run."""
        self.batches.clear()
        stream = self._spark.readStream.format("penstock").options(**self._options).load()
        writer = (
            stream.writeStream.foreachBatch(self._keep)
            .option("checkpointLocation", self._checkpoint)
            .trigger(availableNow=True)
        )
        complete(writer.start)
        return self.batches

    def _keep(self, frame: DataFrame, number: int) -> None:
        rows = frame.select("topic", "seq").orderBy("topic", "seq").collect()
        self.batches.append([(row.topic, row.seq) for row in rows])


def test_a_stream_goes_on_where_it_was(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    query = Query(spark, log, tmp_path, maxRecordsPerTrigger=4)
    filled(log)

    assert query.run() == [
        [("t", n) for n in some] for some in ([1, 2, 3, 4], [5, 6, 7, 8], [9, 10])
    ]

    filled(log, 2)
    log.compact()
    assert query.run() == [[("t", 11), ("t", 12)]]
    assert query.run() == []


def test_new_topics_that_match_are_picked_up(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    query = Query(spark, log, tmp_path, topic="o*")
    filled(log, 1, "one")

    assert query.run() == [[("one", 1)]]

    filled(log, 1, "others")
    filled(log, 1, "else")
    assert query.run() == [[("others", 1)]]


def test_evicted_records_fail_with_their_range_or_are_kept_in_a_ledger(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    log.create("t", cap_records=4)
    query = Query(spark, log, tmp_path)
    filled(log, 3)
    assert query.run() == [[("t", 1), ("t", 2), ("t", 3)]]
    filled(log, 10)

    with pytest.raises(Exception, match=r"records 4 to 9 of epoch \d+ are gone \(cap\)"):
        query.run()

    ledger = tmp_path / "gaps"
    report = Query(spark, log, tmp_path, onGap="report", gapLedger=str(ledger))
    assert report.run() == [[("t", n) for n in (10, 11, 12, 13)]]
    (row,) = spark.read.json(str(ledger)).collect()
    assert (row.topic, row.epoch, row.first, row.last, row.reason) == (
        "t",
        log.topic("t").epoch,
        4,
        9,
        "cap",
    )


def test_a_recreated_topic_is_never_passed_over(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    query = Query(spark, log, tmp_path)
    filled(log, 5)
    query.run()
    old = log.topic("t").epoch
    log.drop("t")
    filled(log, 3)

    with pytest.raises(Exception, match=f"the rest of epoch {old} from record 6 on"):
        query.run()

    ledger = tmp_path / "gaps"
    report = Query(spark, log, tmp_path, onGap="report", gapLedger=str(ledger))
    assert report.run() == [[("t", 1), ("t", 2), ("t", 3)]]
    told = [json.loads(path.read_text()) for path in ledger.iterdir()]
    assert [(one["epoch"], one["first"], one["last"]) for one in told] == [(old, 6, None)]


def test_a_batch_that_is_run_again_reads_the_same(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    query = Query(spark, log, tmp_path, maxBytesPerTrigger=100)
    filled(log)
    first = [list(one) for one in query.run()]
    assert len(first) > 1
    commits = tmp_path / "checkpoint" / "commits"
    number = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for name in (f"{number}", f".{number}.crc"):
        (commits / name).unlink(missing_ok=True)

    assert query.run() == first[-1:]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"topic": "nobody"}, "no topic named 'nobody'"),
        ({"onGap": "report"}, "needs option gapLedger"),
        ({"endingSeq": 5}, "a stream has no end"),
        ({"consumer": "me"}, "option consumer needs url"),
        ({"startingSeq": 50}, "startingSeq 50 is above the head"),
    ],
)
def test_what_is_wrong_is_said(
    spark: SparkSession, log: Log, tmp_path: Path, options: dict[str, Any], complaint: str
) -> None:
    filled(log, 1)

    with pytest.raises(Exception, match=complaint):
        Query(spark, log, tmp_path, **options).run()
