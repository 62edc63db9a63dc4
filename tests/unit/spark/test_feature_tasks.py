"""The two stages give what one part gives, for every operator."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from penstock.errors import InvalidArgument
from penstock.features.definition import Definition
from penstock.features.table_part import TablePart
from penstock.spark import feature_tasks
from penstock.spark.feature_job import job_of
from penstock.spark.feature_tasks import BucketRows
from tests.support import feature_history, seeds
from tests.unit.spark.feature_stages import (
    by_key,
    expected_row,
    keyed,
    online,
    records,
    shuffled,
    ts_of,
)

COUNT = 400
DEFINITION = Definition.parse(feature_history.document(cold_after="10s"))


def history(count: int = COUNT) -> list[bytes]:
    return list(feature_history.events(Random(seeds.new_seed()), count))


def partitions_of(texts: list[bytes], *cuts: int) -> list[list[Any]]:
    """Partitions of two batches each."""
    found = []
    for start, end in zip((0, *cuts), (*cuts, len(texts)), strict=True):
        middle = (start + end) // 2
        found.append(
            [
                records(texts[start:middle], start + 1),
                records([], middle + 1),
                records(texts[middle:end], middle + 1),
            ]
        )
    return found


@pytest.mark.parametrize("table", ["T", "All"])
@pytest.mark.parametrize("buckets", [1, 3])
def test_rows_are_those_of_one_part_that_folded_everything(table: str, buckets: int) -> None:
    texts = history()
    job = job_of(DEFINITION, table)
    part = online(DEFINITION, table, texts)
    now_ms = part.largest_time or 0

    rows = keyed(job, buckets, partitions_of(texts, 90, 91, 250))
    found = {
        key: row
        for batches in shuffled(rows, buckets)
        for key, row in by_key(
            feature_tasks.table_rows(job, now_ms, batches), len(job.plan.key)
        ).items()
    }

    keys = list(part.all_keys())
    every = {key: part.row(key, now_ms, job.features) for key in keys}
    assert found == {key: expected_row(job, row) for key, row in every.items() if row is not None}
    assert len(found) > (0 if table == "All" else 5)


def test_the_counts_of_all_buckets_are_those_of_one_part() -> None:
    texts = history()
    job = job_of(DEFINITION, "T")

    counts: dict[str, int] = {}
    for batches in shuffled(keyed(job, 3, partitions_of(texts, 200)), 3):
        part = TablePart(job.plan)
        BucketRows(batches).fold_into(part)
        for name, count in part.counters.items():
            counts[name] = counts.get(name, 0) + count

    assert counts == online(DEFINITION, "T", texts).counters
    assert counts["late"]
    assert counts["bad"]
    assert counts["ignored"]
    assert counts["filtered"]


def test_some_features_are_computed_alone() -> None:
    texts = history(60)
    job = job_of(DEFINITION, "T", ["mean", "count_w"])
    part = online(DEFINITION, "T", texts)

    (batches,) = shuffled(keyed(job, 1, partitions_of(texts)), 1)
    (rows,) = feature_tasks.table_rows(job, ts_of(60), batches)

    assert rows.schema.names == ["user", "band", "mean", "count_w"]
    for row in rows.to_pylist():
        found = part.row((row["user"], row["band"]), ts_of(60), ["mean", "count_w"])
        assert found == {"mean": row["mean"], "count_w": row["count_w"]}


def test_nothing_gives_no_rows() -> None:
    job = job_of(DEFINITION, "T")

    assert keyed(job, 2, [[records([])]]) == []
    assert list(feature_tasks.table_rows(job, 0, [])) == []


def test_records_of_two_epochs_are_refused() -> None:
    texts = history(4)
    job = job_of(DEFINITION, "T")
    batches = [records(texts[:2], 1, epoch=1), records(texts[2:], 3, epoch=2)]

    with pytest.raises(InvalidArgument, match="epochs 1 and 2: the topic was created again"):
        keyed(job, 1, [batches])


def test_a_task_with_the_keys_of_two_buckets_is_refused() -> None:
    job = job_of(DEFINITION, "T")
    rows = shuffled(keyed(job, 2, partitions_of(history(50))), 2)

    with pytest.raises(InvalidArgument, match=r"one task has the keys of buckets \[0, 1\]"):
        BucketRows([one[0].slice(0, 1) for one in rows])
