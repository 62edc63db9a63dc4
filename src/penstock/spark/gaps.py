"""Missing records as rows of a gap table, and as the error for `onGap=fail`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from penstock.errors import StorageError

GAPS = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("epoch", LongType(), False),
        StructField("first", LongType(), False),
        StructField("last", LongType()),
        StructField("reason", StringType(), False),
        StructField("noticed", TimestampType(), False),
    ]
)


@dataclass(frozen=True, slots=True, order=True)
class GapRow:
    """Seqs `first` to `last` of one epoch of a topic. Without `last`: all seqs from `first` to the
    end of the epoch, whose head is unknown."""

    topic: str
    epoch: int
    first: int
    last: int | None
    reason: str

    def __str__(self) -> str:
        if self.last is None:
            return f"topic {self.topic}: the rest of epoch {self.epoch} from record {self.first} on"
        return f"topic {self.topic}: records {self.first} to {self.last} of epoch {self.epoch}"


class GapFound(StorageError):
    """Records in the range of a query are missing, and `onGap` is `fail`."""

    def __init__(self, path: str, gaps: Sequence[GapRow]) -> None:
        more = f" (and {len(gaps) - 1} more gaps)" if len(gaps) > 1 else ""
        super().__init__(
            path,
            reason=f"{gaps[0]} are gone ({gaps[0].reason}){more}",
            hint="onGap=report lists gaps and continues, onGap=ignore continues",
        )


def batch_of(schema: pa.Schema, rows: Sequence[GapRow], noticed_ms: int) -> Any:
    """The rows as an Arrow batch."""
    values: dict[str, list[Any]] = {
        "topic": [row.topic for row in rows],
        "epoch": [row.epoch for row in rows],
        "first": [row.first for row in rows],
        "last": [row.last for row in rows],
        "reason": [row.reason for row in rows],
        "noticed": [noticed_ms * 1000] * len(rows),
    }
    arrays = [pa.array(values[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
