"""What rows look like: raw columns of records, typed ones out of their JSON, or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StructType

from penstock.codec.columns import Columns
from penstock.spark import schema
from penstock.spark.options import Mode, ReadOptions


@dataclass(frozen=True, slots=True)
class Shape:
    """Spark's schema in Arrow's terms. Travels to the tasks."""

    arrow: Any
    mode: Mode = "permissive"

    @property
    def wanted(self) -> int:
        """The texts it takes, as the kernel is asked for them."""
        found = schema.wanted(self.arrow.names)
        return found

    def batch_of(self, topic: str, epoch: int, found: Columns) -> Any:
        """Some records as Spark takes them."""
        return schema.batch_of(self.arrow, topic, epoch, found)


def shape_of(options: ReadOptions, asked: StructType) -> Shape:
    """As Spark asks for it, or InvalidArgument."""
    return Shape(schema.arrow_of(schema.asked_for(asked), schema.ARROW), options.mode)
