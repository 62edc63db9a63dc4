"""A topic that is folded by keys in several parts has the rows of one part with all keys."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from penstock.codec.columns import Columns
from penstock.errors import InvalidArgument
from penstock.features.key_shuffle import (
    KeyedEventReader,
    LargestTimes,
    PartitionSummary,
    check_epoch,
)
from penstock.features.table_part import TablePart
from tests.support.seeds import new_seeds
from tests.unit.features.part_rig import batch, plan_of, random_events

KEYS = [(name, day) for name in ("a", "b", "é") for day in range(3)]
PARTITION = 50  # records


def summary(first: int, last: int, largest: int = 0, ahead: Any = (), epoch: int = 1) -> Any:
    return PartitionSummary(epoch, first, last, largest, {}, list(ahead))


@pytest.mark.parametrize("seed", new_seeds(3))
def test_parts_with_some_of_the_keys_have_the_rows_of_the_whole(seed: int) -> None:
    chance = random.Random(seed)
    events = random_events(chance, 200)
    for number in chance.sample(range(200), 8):
        events[number]["at"] *= 1_000_000  # too far ahead
    whole = TablePart(plan_of())
    whole.apply(batch(events))
    found: list[tuple[int, bytes, int]] = []  # seq, key, largest time of its partition
    summaries = []
    for start in range(0, len(events), PARTITION):
        reader = KeyedEventReader(plan_of())
        for at in range(start, start + PARTITION, 10):
            keyed = reader.read(batch(events[at : at + 10], at + 1), 1)
            texts, offsets = keyed.keys.tobytes(), keyed.key_offsets.tolist()
            for number, record in enumerate(keyed.records.tolist()):
                key = texts[offsets[number] : offsets[number + 1]]
                found.append((at + 1 + record, key, int(keyed.largest[number])))
        one = reader.summary()
        assert one is not None
        summaries.append(one)
    times = LargestTimes(reversed(summaries))

    parts = [TablePart(plan_of()) for _ in range(3)]
    for part, bucket in zip(parts, range(3), strict=True):
        mine = [one for one in found if sum(one[1]) % 3 == bucket]
        columns = batch([events[seq - 1] for seq, _, _ in mine])
        seqs = np.array([seq for seq, _, _ in mine], np.int64).tobytes()
        local = np.array([largest for _, _, largest in mine], np.int64).tobytes()
        given = Columns(columns.count, seqs, columns.tss, None, None, None, columns.data)
        part.apply(given, times.of(seqs, local), may_sweep=False)
        part.advance(times.largest)

    assert times.largest == whole.largest_time
    for now in (times.largest, times.largest + 90, times.largest + 3000):
        for key in KEYS:
            rows = [row for part in parts if (row := part.row(key, now)) is not None]
            assert rows == [row for row in [whole.row(key, now)] if row is not None]
    assert sum(one.counts["bad"] for one in summaries) == whole.counters["bad"] >= 8
    assert times.largest < 1_000_000


def test_the_time_of_the_log_is_that_of_the_events_when_these_are_ahead() -> None:
    times = LargestTimes([summary(1, 2, 50, [(10, 50)]), summary(3, 4, 90, [(30, 90)])], before=5)

    assert [times.at(ts) for ts in (9, 10, 29, 30, 60, 95)] == [9, 50, 50, 90, 90, 95]
    seqs = np.array([1, 3], np.int64).tobytes()
    local = np.array([20, 20], np.int64).tobytes()
    assert times.of(seqs, local).tolist() == [20, 50]


def test_a_record_that_is_read_twice_or_of_another_epoch_is_refused() -> None:
    reader = KeyedEventReader(plan_of())
    reader.read(batch(random_events(random.Random(1), 3), 5), 1)

    with pytest.raises(InvalidArgument, match="order of seq"):
        reader.read(batch(random_events(random.Random(1), 1), 7), 1)
    with pytest.raises(InvalidArgument, match="epochs 1 and 2"):
        reader.read(batch(random_events(random.Random(1), 1), 8), 2)
    with pytest.raises(InvalidArgument, match="two partitions"):
        LargestTimes([summary(1, 5), summary(5, 9)])
    with pytest.raises(InvalidArgument, match="epochs 1 and 2"):
        LargestTimes([summary(1, 5), summary(6, 9, epoch=2)])
    check_epoch(3, 3)


def test_a_partition_without_records_has_no_summary() -> None:
    assert KeyedEventReader(plan_of()).summary() is None
