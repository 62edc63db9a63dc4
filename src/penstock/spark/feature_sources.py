"""Where the history of a feature table comes from: one source, or several that follow one another,
each with the records that the one before does not have yet."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from functools import reduce
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from penstock.directory import log_identity
from penstock.errors import InvalidArgument
from penstock.spark.options import read_options
from penstock.spark.server_location import location_of
from penstock.storage.fs import OsFilesystem

FeatureSource = DataFrame | Mapping[str, str] | str
"""A data directory or the URL of a server, options of `format("penstock")`, or a DataFrame with the
columns seq, ts and data, and perhaps epoch and topic: a bronze table, for instance."""

FeatureHistory = FeatureSource | list[FeatureSource] | tuple[FeatureSource, ...]
"""One source, or several: each begins where the one before ends, or before that."""


class LastRecord(NamedTuple):
    """The last record of a source."""

    epoch: int
    seq: int
    ts: int
    data: str | None


def records(
    spark: SparkSession, topic: str, history: FeatureHistory, upto_seq: int | None = None
) -> DataFrame:
    """The records of a topic in partitions that are ranges of seqs, each in order. Of several
    sources, each gives the records past the last one of those before it. InvalidArgument or
    GapFound: records between two of them are gone, or they are of different logs."""
    if not isinstance(history, (list, tuple)):
        return _records(spark, topic, history, upto_seq=upto_seq)
    if not history:
        raise InvalidArgument("the list of sources is empty")
    log_id_of(history)
    frames: list[DataFrame] = []
    last: LastRecord | None = None
    for number, source in enumerate(history, 1):
        if last is not None and upto_seq is not None and last.seq >= upto_seq:
            break
        head = _head(spark, topic, source, upto_seq)
        if last is not None:
            _check_same(spark, topic, source, last, number)
        if head is None or (last is not None and head.seq <= last.seq):
            continue
        frames.append(_following(spark, topic, source, last, head.seq, number))
        last = head
    if not frames:
        return _records(spark, topic, history[-1], upto_seq=upto_seq)
    return reduce(DataFrame.union, frames)


def log_id_of(history: FeatureHistory) -> str | None:
    """The id of the log whose data directory is in a history; None if there is none."""
    sources = history if isinstance(history, (list, tuple)) else [history]
    found: dict[str, str] = {}
    for source in sources:
        path = "" if isinstance(source, DataFrame) else source_options(source).get("path", "")
        layout = log_identity.read(OsFilesystem(), path) if path else None
        if layout is not None:
            found[layout.log_id.hex()] = path
    if len(found) > 1:
        raise InvalidArgument(f"{' and '.join(found.values())} are of different logs")
    return next(iter(found), None)


def source_options(source: Mapping[str, str] | str) -> Mapping[str, str]:
    """The options of a source that is given as one text."""
    if not isinstance(source, str):
        return source
    return {"url" if source.startswith(("http://", "https://")) else "path": source}


def record_columns(rows: DataFrame, topic: str) -> DataFrame:
    """The four columns of the records of a topic, with times in ms."""
    for name in ("seq", "ts", "data"):
        if name not in rows.columns:
            raise InvalidArgument(
                f"the records have no column {name}: there are {', '.join(rows.columns)}"
            )
    if "topic" in rows.columns:
        rows = rows.where(F.col("topic") == topic)
    is_ms = isinstance(rows.schema["ts"].dataType, LongType)
    return rows.select(
        (F.col("epoch") if "epoch" in rows.columns else F.lit(1)).cast("bigint").alias("epoch"),
        F.col("seq").cast("bigint").alias("seq"),
        F.col("ts") if is_ms else F.expr("unix_millis(ts)").alias("ts"),
        F.col("data").cast("string").alias("data"),
    )


def _records(
    spark: SparkSession,
    topic: str,
    source: FeatureSource,
    *,
    after: LastRecord | None = None,
    upto_seq: int | None = None,
) -> DataFrame:
    """The records of one source, those past a record or all."""
    if isinstance(source, DataFrame):
        rows = record_columns(source, topic)
        if after is not None:
            rows = rows.where(F.col("seq") > after.seq)
        if upto_seq is not None:
            rows = rows.where(F.col("seq") <= upto_seq)
        return rows.repartitionByRange("seq").sortWithinPartitions("seq")
    more: dict[str, Any] = {} if upto_seq is None else {"endingSeq": upto_seq}
    if after is not None:  # so the source reports what is missing behind it
        offset = {"epoch": after.epoch, "seq": after.seq}
        more["startingOffsets"] = json.dumps({topic: offset})
    found = spark.read.format("penstock").options(**_options(source, topic), **more).load()
    return record_columns(found, topic)


def _options(source: Mapping[str, str] | str, topic: str) -> dict[str, str]:
    return dict(source_options(source)) | {"topic": topic, "columns": "epoch,seq,ts,data"}


def _head(
    spark: SparkSession, topic: str, source: FeatureSource, upto_seq: int | None
) -> LastRecord | None:
    """The last record of a source; one of a log that is deleted or gone has no data. None: the
    source has no records."""
    if isinstance(source, DataFrame):
        rows = record_columns(source, topic)
        if upto_seq is not None:
            rows = rows.where(F.col("seq") <= upto_seq)
        seq = rows.agg(F.max("seq")).collect()[0][0]
        return None if seq is None else _record(spark, topic, source, seq)
    with contextlib.closing(location_of(read_options(_options(source, topic)))) as location:
        head = location.heads().get(topic)
    if head is None or not head.seq:
        return None
    seq = head.seq if upto_seq is None else min(head.seq, upto_seq)
    return _record(spark, topic, source, seq) or LastRecord(head.epoch, seq, 0, None)


def _record(spark: SparkSession, topic: str, source: FeatureSource, seq: int) -> LastRecord | None:
    """One record of a source, if the source has it."""
    if isinstance(source, DataFrame):
        rows = record_columns(source, topic)
    else:
        own = {"startingSeq": f"{seq}", "endingSeq": f"{seq}", "onGap": "ignore"}
        given = {
            name: value
            for name, value in _options(source, topic).items()
            if name.lower() not in {option.lower() for option in own}
        }
        rows = record_columns(spark.read.format("penstock").options(**given, **own).load(), topic)
    found = rows.where(F.col("seq") == seq).take(1)
    return LastRecord(*found[0]) if found else None


def _check_same(
    spark: SparkSession, topic: str, source: FeatureSource, last: LastRecord, number: int
) -> None:
    """InvalidArgument if a source has another record in the place of the last one before it."""
    same = _record(spark, topic, source, last.seq)
    if same is not None and last.data is not None and same != last:
        raise InvalidArgument(
            f"source {number} is of another log than those before it: record {last.seq} of topic "
            f"{topic!r} is not the same"
        )


def _following(
    spark: SparkSession,
    topic: str,
    source: FeatureSource,
    last: LastRecord | None,
    head_seq: int,
    number: int,
) -> DataFrame:
    """The records of a source past the last one before it, up to its head as of now."""
    if last is not None and isinstance(source, DataFrame):
        first = record_columns(source, topic).agg(F.min("seq")).collect()[0][0]
        if first > last.seq + 1:
            raise InvalidArgument(
                f"source {number} begins with record {first} of topic {topic!r}, and those before "
                f"it end with {last.seq}: the records in between are missing"
            )
    return _records(spark, topic, source, after=last, upto_seq=head_seq)
