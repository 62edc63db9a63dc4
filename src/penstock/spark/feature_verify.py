"""Compares a feature table online with the same table computed by Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from penstock.errors import InvalidArgument
from penstock.feature_types import FeatureScan
from penstock.spark import feature_columns
from penstock.spark.feature_columns import json_text, spark_schema, types_of
from penstock.spark.feature_job import DefinitionLike, FeatureJob, KeyShuffle, job_of
from penstock.spark.feature_keys import missing_keys
from penstock.spark.feature_labels import LabelledFold
from penstock.spark.feature_sources import FeatureHistory, records
from penstock.spark.feature_tables import (
    buckets_of,
    keyed_events,
)
from penstock.spark.feature_training import shuffled

PAGE_ROWS: Final = 1000
EXAMPLES_MAX: Final = 3  # of each feature, and of keys
_ROW_FEATURE: Final = ""  # the name under which tasks report keys that Spark has no row of
_SEQ, _ONLINE, _COUNTS = "penstock_seq", "penstock_online", "penstock_counts"
_FOUND: Final = StructType(
    [
        StructField("feature", StringType()),
        StructField("compared", LongType()),
        StructField("different", LongType()),
        StructField("examples", StringType()),  # JSON
    ]
)


class OnlineFeatures(Protocol):
    """What is compared: the feature store of a log, or the features of a client."""

    def scan(
        self,
        table: str,
        after: int = 0,
        limit: int = 1000,
        *,
        features: Sequence[str] | None = None,
        now_ms: int | None = None,
    ) -> FeatureScan: ...


class FeatureExample(msgspec.Struct, frozen=True):
    """A value that differs."""

    key: list[Any]
    online: Any
    spark: Any


@dataclass(slots=True)
class FeatureDifference:
    """One feature: how many values were compared, how many differ, and the first of those."""

    feature: str
    compared: int = 0
    different: int = 0
    examples: list[FeatureExample] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FeatureComparison:
    """`first_seq` and `last_seq` are the places at which rows were read online.

    `missing_online` counts the keys that have a row on Spark and none online, `only_online` the
    keys that were read online and have no row on Spark; each has its first examples. If `is_whole`
    is false, the table has more than `keys_max` keys: the others were not compared, and
    `missing_online` is None.
    """

    table: str
    keys: int
    first_seq: int
    last_seq: int
    now_ms: int
    features: list[FeatureDifference]
    is_whole: bool
    missing_online: int | None
    missing_examples: list[list[Any]]
    only_online: int
    only_online_examples: list[list[Any]]

    @property
    def is_equal(self) -> bool:
        """True if no value that was compared differs, and no key is on one side alone."""
        is_one_sided = bool(self.missing_online or self.only_online)
        return not is_one_sided and not any(one.different for one in self.features)


def verify_features(
    spark: SparkSession,
    online: OnlineFeatures,
    definition: DefinitionLike,
    table: str,
    source: FeatureHistory,
    *,
    features: Collection[str] | None = None,
    keys_max: int = 100_000,
    now_ms: int | None = None,
    buckets: int = 0,
) -> FeatureComparison:
    """Read up to `keys_max` rows online, and compute each of them on Spark as of the seq and the
    time at which it was read. Values are equal if they are the same bits; NaN is null. If these
    are all rows, the keys are compared too: Spark tells which of them are missing online."""
    job = job_of(definition, table, features)
    if keys_max < 1:
        raise InvalidArgument(f"keys_max must be at least 1, not {keys_max}")
    pages = list(_pages(online, job, keys_max, now_ms))
    found = {name: FeatureDifference(name) for name in (*job.features, _ROW_FEATURE)}
    now_ms = pages[0].now_ms
    seqs = [place.applied.seq for page in pages for place in page.places if place.applied]
    for names in dict.fromkeys(tuple(place.features) for page in pages for place in page.places):
        part = job_of(definition, table, names)
        rows = _rows_of(pages, part)
        if not rows:
            continue
        labels = spark.createDataFrame(rows, _label_schema(part))
        for one in _compared(spark, part, source, labels, now_ms, buckets).collect():
            total = found[one.feature]
            total.compared += one.compared
            total.different += one.different
            examples = msgspec.json.decode(one.examples, type=list[FeatureExample])
            total.examples += examples[: EXAMPLES_MAX - len(total.examples)]
    only_online = found.pop(_ROW_FEATURE)
    is_whole = pages[-1].next_after is None
    first_seq, last_seq = min(seqs, default=0), max(seqs, default=0)
    missing: tuple[int | None, list[list[Any]]] = None, []
    if is_whole:
        missing = missing_keys(
            spark,
            job_of(definition, table, job.features[:1]),
            source,
            _keys_of(pages),
            lambda: _keys_of(_pages(online, job, None, now_ms)),
            first_seq=first_seq,
            last_seq=last_seq,
            now_ms=now_ms,
            buckets=buckets,
            examples_max=EXAMPLES_MAX,
        )
    return FeatureComparison(
        table,
        sum(len(page.rows) for page in pages),
        first_seq,
        last_seq,
        now_ms,
        list(found.values()),
        is_whole,
        *missing,
        only_online.different,
        [one.key for one in only_online.examples],
    )


def _keys_of(pages: Iterable[FeatureScan]) -> set[tuple[Any, ...]]:
    return {tuple(one.key) for page in pages for one in page.rows}


def _pages(
    online: OnlineFeatures, job: FeatureJob, keys_max: int | None, now_ms: int | None
) -> Iterator[FeatureScan]:
    """Pages of rows until there are `keys_max`, or to the end."""
    after: int | None = 0
    while after is not None and (keys_max is None or keys_max > 0):
        limit = PAGE_ROWS if keys_max is None else min(PAGE_ROWS, keys_max)
        page = online.scan(job.table, after, limit, features=list(job.features), now_ms=now_ms)
        now_ms = page.now_ms  # one time for all pages
        keys_max = None if keys_max is None else keys_max - len(page.rows)
        after = page.next_after
        yield page


def _label_schema(part: FeatureJob) -> StructType:
    key = spark_schema(part).fields[: len(part.plan.key)]
    own = {_SEQ: LongType(), _ONLINE: StringType(), _COUNTS: BooleanType()}
    return StructType([*key, *(StructField(name, kind) for name, kind in own.items())])


def _rows_of(pages: Iterable[FeatureScan], part: FeatureJob) -> list[tuple[Any, ...]]:
    """The rows of a part: key, seq, the values as JSON, and whether its key is to be counted. A row
    that is read from several parts has one key."""
    found = []
    for page in pages:
        places = {tuple(place.features): place.applied for place in page.places}
        applied = places.get(part.features)
        for one in page.rows if part.features in places else ():
            values = {name: one.row[name] for name in part.features if name in one.row}
            seq = 0 if applied is None else applied.seq
            is_first = tuple(page.places[0].features) == part.features
            found.append((*one.key, seq, json_text(values), is_first))
    return found


def _compared(
    spark: SparkSession,
    part: FeatureJob,
    source: FeatureHistory,
    labels: DataFrame,
    now_ms: int,
    buckets: int,
) -> DataFrame:
    """What each task found, feature by feature."""
    shuffle = KeyShuffle(buckets_of(spark, buckets), ahead_of_ms=now_ms)
    events = keyed_events(records(spark, part.plan.event.topic, source), part, shuffle)
    both = shuffled(part, events, labels, F.col(_SEQ), F.lit(now_ms), shuffle)
    return both.mapInArrow(partial(_differences, part), _FOUND)


def _differences(part: FeatureJob, batches: Iterable[Any]) -> Iterator[Any]:
    types = types_of(part)
    found = {name: FeatureDifference(name) for name in part.features}
    rowless = FeatureDifference(_ROW_FEATURE)
    fold = LabelledFold(part, "seq", batches)
    for numbers, rows in fold.rows():
        labels = fold.carried.take(pa.array(numbers)).to_pylist()
        for label, row in zip(labels, rows, strict=True):
            online = msgspec.json.decode(label[_ONLINE])
            key = [label[one] for one in part.plan.key]
            if row is None and label[_COUNTS]:
                _count(rowless, FeatureExample(key, online, None))
            for name, total in found.items():
                mine = feature_columns.plain(types[name], (row or {}).get(name))
                theirs = feature_columns.plain(types[name], online.get(name))
                total.compared += 1
                if json_text(mine) != json_text(theirs):
                    _count(total, FeatureExample(key, theirs, mine))
    yield pa.RecordBatch.from_pylist(
        [
            {
                "feature": one.feature,
                "compared": one.compared,
                "different": one.different,
                "examples": json_text(one.examples),
            }
            for one in (*found.values(), rowless)
        ],
        pa.schema(
            [
                ("feature", pa.string()),
                ("compared", pa.int64()),
                ("different", pa.int64()),
                ("examples", pa.string()),
            ]
        ),
    )


def _count(total: FeatureDifference, example: FeatureExample) -> None:
    total.different += 1
    if len(total.examples) < EXAMPLES_MAX:
        total.examples.append(example)
