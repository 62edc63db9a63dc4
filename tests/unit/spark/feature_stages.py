"""Spark's part between the two stages, on lists of Arrow batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from penstock.codec.checksum import xxh3_64
from penstock.codec.columns import Columns
from penstock.features.definition import Definition
from penstock.features.table_part import TablePart
from penstock.spark import feature_columns, feature_tasks
from penstock.spark.feature_columns import KEYED_ARROW, SUMMARY
from penstock.spark.feature_job import FeatureJob, KeyShuffle

STEP_MS = 50  # between the times at which the log took two records


def records(texts: Sequence[bytes], first_seq: int = 1, epoch: int = 1) -> Any:
    """Records as Spark has them."""
    count = len(texts)
    return pa.RecordBatch.from_pydict(
        {
            "epoch": pa.array([epoch] * count, pa.int64()),
            "seq": pa.array(range(first_seq, first_seq + count), pa.int64()),
            "ts": pa.array([ts_of(first_seq + i) for i in range(count)], pa.int64()),
            "data": pa.array([text.decode() for text in texts], pa.string()),
        }
    )


def ts_of(seq: int) -> int:
    return 1_700_000_000_000 + STEP_MS * seq


def columns(texts: Sequence[bytes], first_seq: int = 1) -> Columns:
    """The same records for an online part."""
    return feature_columns.records_of(records(texts, first_seq))


def online(definition: Definition, table: str, texts: Sequence[bytes]) -> TablePart:
    """The part that has folded all records."""
    part = TablePart(definition.plan(table))
    part.apply(columns(texts))
    return part


def keyed(
    job: FeatureJob, buckets: int, partitions: Iterable[Iterable[Any]], **options: Any
) -> list[Any]:
    """The first stage over partitions of batches."""
    shuffle = KeyShuffle(buckets, **options)
    return [found for batches in partitions for found in feature_tasks.keyed(job, shuffle, batches)]


def bucket_of(key: bytes, buckets: int) -> int:
    return xxh3_64(key) % buckets


def shuffled(batches: Iterable[Any], buckets: int) -> list[list[Any]]:
    """What the task of each bucket reads, in small batches."""
    by_bucket: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for batch in batches:
        for row in batch.to_pylist():
            if row["kind"] != SUMMARY:
                row["bucket"] = bucket_of(row["key"], buckets)
            by_bucket[row["bucket"]].append(row)
    found = []
    for bucket in range(buckets):
        rows = sorted(by_bucket[bucket], key=lambda row: (row["kind"], row["seq"] or 0))
        table = pa.Table.from_pylist(rows, schema=KEYED_ARROW)
        found.append([batch for batch in table.to_batches(7) if batch.num_rows])
    return found


def by_key(batches: Iterable[Any], key: int) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Rows by their first `key` columns."""
    found = {}
    for batch in batches:
        for row in batch.to_pylist():
            values = list(row.values())
            found[tuple(values[:key])] = dict(list(row.items())[key:])
    return found


def expected_row(job: FeatureJob, row: dict[str, Any]) -> dict[str, Any]:
    """A row of an online part as Spark has it."""
    types = feature_columns.types_of(job)
    return {
        name: feature_columns.json_text(row[name])
        if types[name] == "json" and row[name] is not None
        else feature_columns.plain(types[name], row[name])
        for name in job.features
    }
