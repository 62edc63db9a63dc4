"""Decodes the JSON of records into typed columns, or gives the reasons why it does not fit.

Everything here is a Spark expression: no record passes through Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from penstock.lake.column_types import digits_of, spark_type
from penstock.lake.evolution import Column, Seen, fields_of
from penstock.lake.project import UNDECODABLE as _BAD

_TYPES: dict[str, DataType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "timestamp": TimestampType(),
    "date": DateType(),
    "json": StringType(),
}
# Spark would convert a number to a text or a time silently, so the type of these is checked first.
_CHECKED_KINDS = {"string", "timestamp", "date", "json"}
_NUMBERS = r"^(BIGINT|DOUBLE|DECIMAL.*)$"


def spark_kind(kind: str) -> DataType:
    digits = digits_of(kind)
    return _TYPES[kind] if digits is None else DecimalType(*digits)


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows that fit, with typed columns, and the rows that do not, with a `reason`."""

    good: DataFrame
    bad: DataFrame


def decoded(rows: DataFrame, columns: Sequence[Column]) -> Decoded:
    """Decode rows that have the columns of bronze."""
    fields = [
        StructField(c.field, VariantType() if c.kind in _CHECKED_KINDS else spark_kind(c.kind))
        for c in columns
    ]
    schema = StructType([*fields, StructField(_BAD, StringType())])
    parsed = F.from_json("data", schema, {"columnNameOfCorruptRecord": _BAD})
    held = rows.withColumn("__parsed", parsed)
    values = {c.name: _value(c, F.col("__parsed").getField(c.field)) for c in columns}
    fits = F.col("__parsed").isNotNull() & F.col("__parsed").getField(_BAD).isNull()
    for column in columns:
        fits = fits & _fits(column, F.col("__parsed").getField(column.field), values[column.name])
    typed = [value.alias(name) for name, value in values.items()]
    log = [name for name in rows.columns if name not in ("meta", "data", "day")]
    raw = [name for name in rows.columns if name != "day"]
    good = held.filter(fits).select(*log, *typed, "day")
    bad = held.filter(~fits).withColumn("reason", _reason(columns))
    return Decoded(good, bad.select(*raw, "reason", "day"))


def seen(rows: DataFrame, columns: Sequence[Column]) -> Seen:
    """Types and ranges of the fields in these records."""
    whole = F.try_parse_json("data")
    loose = StructType([StructField(c.field, VariantType()) for c in columns])
    held = rows.select(whole.alias("whole"), F.from_json("data", loose).alias("parsed"))
    held = held.filter(_word(F.col("whole")).startswith("OBJECT"))
    numbers = [(at, c) for at, c in enumerate(columns) if _is_number(c.kind)]
    asked = [F.schema_of_variant_agg(F.col("whole")).alias("all")]
    for at, column in numbers:
        found = F.col("parsed").getField(column.field)
        asked.append(F.collect_set(_word(found)).alias(f"words{at}"))
        value = F.try_variant_get(found, "$", "bigint")
        asked += [F.min(value).alias(f"low{at}"), F.max(value).alias(f"high{at}")]
    row = held.agg(*asked).collect()[0]
    return Seen(
        fields_of(row["all"] or ""),
        {c.name: set(row[f"words{at}"]) for at, c in numbers},
        {c.name: (row[f"low{at}"] or 0, row[f"high{at}"] or 0) for at, c in numbers},
    )


def _is_number(kind: str) -> bool:
    return kind in ("int", "long") or digits_of(kind) is not None


def _value(column: Column, found: Expression) -> Expression:
    if column.kind not in _CHECKED_KINDS:
        return found
    if column.kind == "json":
        return F.when(~_is_nothing(found), F.to_json(found))
    text = F.when(_word(found) == "STRING", F.try_variant_get(found, "$", "string"))
    return text if column.kind == "string" else text.try_cast(spark_type(column.kind))


def _fits(column: Column, found: Expression, value: Expression) -> Expression:
    if column.required:
        return value.isNotNull()
    if column.kind not in _CHECKED_KINDS:
        return F.lit(True)  # otherwise Spark has marked the record as corrupt
    return _is_nothing(found) | value.isNotNull()


def _word(found: Expression) -> Expression:
    return F.schema_of_variant(found)


def _is_nothing(found: Expression) -> Expression:
    """The field is missing or null."""
    return found.isNull() | (_word(found) == "VOID")


def _reason(columns: Sequence[Column]) -> Expression:
    """All reasons why a record does not fit."""
    whole = F.try_parse_json("data")
    loose = StructType([StructField(c.field, VariantType()) for c in columns])
    parsed = F.from_json("data", loose)
    each = [_reason_of(column, parsed.getField(column.field)) for column in columns]
    listed = F.concat_ws("; ", *each)
    return (
        F.when(whole.isNull(), F.lit("undecodable JSON"))
        .when(
            ~_word(whole).startswith("OBJECT"),
            F.concat(F.lit("not a JSON object but "), F.lower(_word(whole))),
        )
        .when(listed != "", listed)
        .otherwise(F.lit("does not fit the columns"))
    )


def _reason_of(column: Column, found: Expression) -> Expression:
    kind, word = column.kind, _word(found)
    missing = F.lit(f"missing required {column.field}" if column.required else None)
    wrong = F.concat(
        F.lit(f"wrong type: {column.field} is "), F.lower(word), F.lit(f", not {kind}")
    )
    cast = F.try_variant_get(found, "$", spark_type(kind))
    if kind in ("timestamp", "date"):
        cast = F.try_variant_get(found, "$", "string").try_cast(spark_type(kind))
    return (
        F.when(_is_nothing(found), missing)
        .when(~_is_of(kind, word), wrong)
        .when(cast.isNull(), F.lit(f"out of range: {column.field} does not fit {kind}"))
    )


def _is_of(kind: str, word: Expression) -> Expression:
    if kind == "json":
        return F.lit(True)
    if kind == "boolean":
        return word == "BOOLEAN"
    if kind in ("int", "long"):
        return word == "BIGINT"
    if kind in ("string", "timestamp", "date"):
        return word == "STRING"
    return word.rlike(_NUMBERS)
