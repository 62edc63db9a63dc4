"""The rows of labels are those of the history up to their places."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from penstock.features.definition import Definition
from penstock.features.table_part import TablePart
from penstock.spark import feature_labels
from penstock.spark.feature_columns import KEYED_ARROW, LABEL, SUMMARY
from penstock.spark.feature_job import FeatureJob, job_of
from penstock.spark.feature_labels import CARRIED, NOW, PLACE, FeatureClock, LabelledFold
from tests.support import feature_history, seeds
from tests.unit.spark.feature_stages import STEP_MS, bucket_of, columns, keyed, records, ts_of

COUNT = 200
DEFINITION = Definition.parse(feature_history.document(cold_after="10s"))
Label = tuple[str | None, int, int, int]  # user, band, place, now


def history() -> list[bytes]:
    return list(feature_history.events(Random(seeds.new_seed()), COUNT, keys=4))


def label_batch(labels: Sequence[Label]) -> Any:
    users, bands, places, nows = zip(*labels, strict=True)
    number = pa.array(range(len(labels)), pa.int64())
    return pa.RecordBatch.from_arrays(
        [
            pa.array(users, pa.string()),
            pa.array(bands, pa.int64()),
            pa.array(places, pa.int64()),
            pa.array(nows, pa.int64()),
            pa.StructArray.from_arrays([number], names=["number"]),
        ],
        names=["user", "band", PLACE, NOW, CARRIED],
    )


def labelled(
    job: FeatureJob, clock: FeatureClock, texts: list[bytes], labels: Sequence[Label], **more: Any
) -> list[dict[str, Any] | None]:
    """The row of each label, over two buckets and three partitions."""
    partitions = [[records(texts[i : i + 70], i + 1)] for i in range(0, len(texts), 70)]
    (of_labels,) = feature_labels.keyed_labels(job, [label_batch(labels)])
    schema = KEYED_ARROW.append(of_labels.schema.field(CARRIED))
    buckets: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for batch in [*keyed(job, 2, partitions, **more), of_labels]:
        for row in batch.to_pylist():
            if row["kind"] != SUMMARY:
                row["bucket"] = bucket_of(row["key"] or b"", 2)
            buckets[row["bucket"]].append(row)
    found: list[dict[str, Any] | None] = [{"no": "row"}] * len(labels)
    for rows in buckets.values():
        rows.sort(key=lambda row: (row["kind"], row["seq"]))
        table = pa.Table.from_pylist(rows, schema=schema)
        if any(row["kind"] == LABEL for row in rows):
            fold = LabelledFold(job, clock, table.to_batches(40))
            for numbers, values in fold.rows():
                carried = fold.carried.take(pa.array(numbers)).to_pylist()
                for one, value in zip(carried, values, strict=True):
                    assert found[one["number"]] == {"no": "row"}
                    found[one["number"]] = value
    return found


def random_labels(chance: Random, places: range, now_of: Any) -> list[Label]:
    chosen = [chance.choice(places) for _ in range(30)]
    return [
        (f"u{chance.randrange(5)}", chance.randrange(2), place, now_of(place)) for place in chosen
    ]


def expected(texts: list[bytes], seq: int, label: Label, now_ms: int) -> Any:
    """Folds the history again, up to a seq."""
    part = TablePart(DEFINITION.plan("T"))
    part.apply(columns(texts[:seq]))
    return part.row((label[0], label[1]), now_ms)


@pytest.mark.parametrize("later_ms", [-100_000, 0, 9_000])
def test_a_place_is_a_seq(later_ms: int) -> None:
    texts = history()
    job = job_of(DEFINITION, "T")
    end = feature_history.START_MS + later_ms
    labels = random_labels(Random(1), range(COUNT + 1), lambda seq: end + 100 * seq)

    found = labelled(job, "seq", texts, labels, ahead_of_ms=end)

    assert found == [expected(texts, one[2], one, one[3]) for one in labels]
    assert sum(row is not None for row in found) > 5


def test_a_place_is_a_time_of_the_log() -> None:
    texts = history()
    job = job_of(DEFINITION, "T")
    times = range(ts_of(0) - 200, ts_of(COUNT) + 200)
    labels = random_labels(Random(2), times, lambda ts: ts)

    found = labelled(job, "log", texts, labels, keeps_ahead=True)

    for row, label in zip(found, labels, strict=True):
        seq = min(max((label[2] - ts_of(0)) // STEP_MS, 0), COUNT)
        assert row == expected(texts, seq, label, label[2])


def test_a_place_is_a_time_of_the_events() -> None:
    texts = history()
    job = job_of(DEFINITION, "T")
    clock, reader = [], TablePart(DEFINITION.plan("T"))
    for number, text in enumerate(texts, 1):
        reader.apply(columns([text], number))
        clock.append(reader.largest_time or 0)
    labels = random_labels(Random(3), range(clock[0] - 500, clock[-1] + 500), lambda ts: ts)

    found = labelled(job, "event", texts, labels)

    for row, label in zip(found, labels, strict=True):
        seq = sum(time <= label[2] for time in clock)
        assert row == expected(texts, seq, label, label[2])


def test_a_label_without_a_key_has_no_row() -> None:
    texts = history()
    label: Label = (None, 1, COUNT, feature_history.START_MS)

    assert labelled(job_of(DEFINITION, "T"), "seq", texts, [label]) == [None]


def test_labels_without_any_events_have_no_rows() -> None:
    assert labelled(job_of(DEFINITION, "T"), "seq", [], [("a", 1, 5, 0)]) == [None]


def test_labels_keep_their_columns_and_get_the_features() -> None:
    texts = history()
    job = job_of(DEFINITION, "T", ["count", "last_n"])
    of_labels = next(
        iter(feature_labels.keyed_labels(job, [label_batch([("u1", 1, COUNT, ts_of(1))])]))
    )
    rows = [*keyed(job, 1, [[records(texts)]]), of_labels]
    fields = KEYED_ARROW.append(of_labels.schema.field(CARRIED))
    everything = [one | {"bucket": 0} for batch in rows for one in batch.to_pylist()]
    everything.sort(key=lambda row: (row["kind"], row["seq"]))
    fold = LabelledFold(job, "seq", pa.Table.from_pylist(everything, schema=fields).to_batches())

    (found,) = feature_labels.label_batches(fold, job, ["number", "count", "last_n"])

    assert found.schema.names == ["number", "count", "last_n"]
    (row,) = found.to_pylist()
    want = expected(texts, COUNT, ("u1", 1, 0, 0), ts_of(1))
    assert (row["number"], row["count"]) == (0, want["count"])
    assert isinstance(row["last_n"], str)
