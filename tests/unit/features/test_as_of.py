"""Rows as of an earlier place: those of a fold of all keys up to there, or an error."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from penstock.codec.columns import Columns, ColumnsPage
from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.errors import HistoryGone, InvalidArgument
from penstock.features import as_of
from penstock.features.definition import Definition
from penstock.features.feature_view import FeatureView
from penstock.features.store import FeatureStore
from penstock.features.table_part import TablePart
from penstock.testing.clock import FakeClock
from penstock.testing.fs import MemoryFilesystem
from penstock.types import Gap
from tests.support import feature_history
from tests.support.seeds import IS_FULL, new_seed
from tests.unit.features.bounded_rig import KEYS, batch, plan_of, texts_of

COUNT: dict[str, Any] = {
    "events": [{"name": "E", "fields": {"k": "str"}}],
    "tables": [{"name": "T", "from": "E", "key": ["k"], "features": {"n": {"op": "count"}}}],
}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def log(clock: FakeClock) -> Iterator[Log]:
    with open_log("/data", fs=MemoryFilesystem(), clock=clock, background=False) as opened:
        yield opened


def store_of(log: Log) -> FeatureStore:
    store: FeatureStore = log.features
    return store


def counting(log: Log, events: int, **config: Any) -> FeatureStore:
    """A table that counted these events, one a record."""
    log.create("E", **config)
    store = store_of(log)
    store.register(COUNT)
    for _ in range(events):
        push(store)
    return store


def push(store: FeatureStore) -> None:
    """Push an event, and fold it while it is there."""
    store.push("E", {"k": "a"})
    store.get("T", "a")


@pytest.mark.parametrize("cold_after", [None, "6s"])
def test_one_key_alone_has_the_row_that_it_has_among_all(cold_after: str | None) -> None:
    """Bit by bit, with every operator, late events and cold keys."""
    chance = Random(new_seed())
    plan = plan_of(cold_after)
    texts = texts_of(chance, 500)
    sizes = chance.choices([1, 7, 40], k=500)
    whole = TablePart(plan)
    alone = {key: TablePart(plan) for key in (KEYS if IS_FULL else chance.sample(KEYS, 12))}
    shown = 0
    while texts:
        size = sizes.pop()
        page, texts = batch(texts[:size]), texts[size:]
        whole.apply(page)
        for key, part in alone.items():
            part.apply_key(page, key)
        if not sizes[0] % 7 or not texts:
            now_ms = (whole.largest_time or 0) + chance.choice([0, 0, 2_000])
            rows = {key: part.row(key, now_ms) for key, part in alone.items()}
            assert rows == {key: whole.row(key, now_ms) for key in alone}
            shown += sum(row is not None for row in rows.values())
    assert shown
    assert all(part.keys <= 1 for part in alone.values())
    assert {part.largest_time for part in alone.values()} <= {whole.largest_time, None}


def test_a_table_without_a_key_has_all_events() -> None:
    texts = texts_of(Random(new_seed()), 100)
    plan = Definition.parse(feature_history.document()).plan("All")
    whole, alone = TablePart(plan), TablePart(plan)

    whole.apply(batch(texts))
    alone.apply_key(batch(texts), ())

    assert alone.row((), 0) == whole.row((), 0)


def test_a_row_as_of_any_seq_is_that_of_a_fold_of_all_keys_in_the_memory_of_one(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Random(new_seed())
    store = store_of(log)
    store.register(feature_history.document())
    texts = texts_of(chance, 200)
    for at in range(0, 200, 20):
        store._log.append("events", texts[at : at + 20], is_synced=False)
    made: list[TablePart] = []

    class Kept(TablePart):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(as_of, "TablePart", Kept)
    now_ms = feature_history.START_MS + 20_000
    for seq in (0, 1, 20, 57, 199):
        whole = TablePart(plan_of("60s"))
        whole.apply(batch(texts[:seq]))
        for key in chance.sample(KEYS, 8):
            found = as_of.row(store.view("T"), key, None, seq, now_ms)
            assert found == (whole.row(key, now_ms) or {})
    assert all(part.keys <= 1 for part in made)
    assert len(made) == 40


def test_a_row_whose_history_is_gone_is_refused_and_not_made_of_the_rest(log: Log) -> None:
    store = counting(log, 50, cap_records=10)

    for seq in (1, 5, 40, 41, 49):
        with pytest.raises(HistoryGone, match=rf"records 1 to 40 of topic 'E' .* seq {seq} ") as it:
            store.get("T", "a", as_of_seq=seq)
        assert (it.value.topic, it.value.earliest_seq) == ("E", 41)
    assert store.get("T", "a", as_of_seq=0) == {}


def test_a_row_as_of_a_time_is_refused_too(log: Log, clock: FakeClock) -> None:
    store = counting(log, 0, cap_records=10)
    began = clock.now_ms()
    for _ in range(50):
        clock.advance(1000)
        push(store)

    for ts in (began + 1_000, began + 20_000, began + 45_000):
        with pytest.raises(HistoryGone):
            store.get("T", "a", as_of_ts=ts)
    assert store.get("T", "a", as_of_ts=began + 50_000) == {"n": 50}


def test_a_row_as_of_the_newest_record_needs_no_history(log: Log, clock: FakeClock) -> None:
    store = counting(log, 50, cap_records=10)

    assert store.get("T", "a", as_of_seq=50) == {"n": 50}
    log.delete("E", before_seq=46)
    assert store.get("T", "a", as_of_seq=50) == {"n": 50}
    assert store.get("T", "a", as_of_ts=clock.now_ms()) == {"n": 50}
    assert store.get("T", "nobody", as_of_seq=50) == {}
    log.delete("E", before_seq=51)
    assert store.get("T", "a", as_of_ts=clock.now_ms()) == {"n": 50}
    with pytest.raises(HistoryGone):  # its own time is gone too
        store.get("T", "a", as_of_seq=50)


def test_the_newest_row_of_a_table_that_missed_records_is_refused(log: Log) -> None:
    log.create("E", cap_records=10)
    log.append("E", [{"k": "a"}] * 50)
    store = store_of(log)
    store.register(COUNT)

    assert store.get("T", "a") == {"n": 10}
    with pytest.raises(HistoryGone):
        store.get("T", "a", as_of_seq=50)


def test_an_event_that_comes_meanwhile_is_not_in_the_row(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = counting(log, 3)
    refresh = FeatureView.refresh

    def late(view: FeatureView, *args: Any, **named: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(FeatureView, "refresh", refresh)
            push(store)
        refresh(view, *args, **named)

    monkeypatch.setattr(FeatureView, "refresh", late)

    assert store.get("T", "a", as_of_seq=3) == {"n": 3}
    assert store.get("T", "a") == {"n": 5}


def test_the_newest_row_shows_the_time_of_its_record(log: Log, clock: FakeClock) -> None:
    windowed = {**COUNT["tables"][0], "features": {"n": {"op": "count", "window": "1h"}}}
    store = store_of(log)
    store.register({**COUNT, "tables": [windowed]})
    store.push("E", {"k": "a"})
    clock.advance(7_200_000)

    assert store.get("T", "a") == {"n": 0}
    assert store.get("T", "a", as_of_seq=1) == {"n": 1}
    assert store.get("T", "a", as_of_ts=clock.now_ms()) == {"n": 0}


def test_a_delete_from_the_start_is_noticed_and_one_in_the_middle_is_not(log: Log) -> None:
    store = counting(log, 20)

    log.delete("E", seqs=[5, 6])
    assert store.get("T", "a", as_of_seq=10) == {"n": 8}
    log.delete("E", before_seq=4)
    with pytest.raises(HistoryGone, match="records 1 to 3 "):
        store.get("T", "a", as_of_seq=10)


def test_a_seq_beyond_the_newest_record_is_refused(log: Log) -> None:
    store = counting(log, 3)

    for seq in (4, 9999):
        with pytest.raises(InvalidArgument, match=rf"as_of_seq {seq}: the newest .* 'E' is 3"):
            store.get("T", "a", as_of_seq=seq)
    assert store.get("T", "a", as_of_seq=3) == {"n": 3}


class Trimmed:
    """A topic that loses records 3 and 4 while they are read."""

    topic = "E"

    def __init__(self, gap: Gap | None, earliest_seq: int) -> None:
        self._lost = gap, earliest_seq

    def read_columns(self, after: int, limit: int, bits: int) -> ColumnsPage:
        if after:
            gap, earliest = self._lost
            return ColumnsPage(some(5, 9), gap, 9, 9, earliest, True, 1)
        return ColumnsPage(some(1, 2), None, 2, 9, 1, False, 1)


def some(first: int, last: int) -> Columns:
    return batch([b'{"k":"a"}'] * (last - first + 1), first)


@pytest.mark.parametrize(
    ("gap", "earliest_seq"), [(Gap(3, 4, "corrupt", 2, 1, 9), 1), (None, 5)], ids=["gap", "trim"]
)
def test_records_that_are_lost_while_they_are_read_are_noticed(
    gap: Gap | None, earliest_seq: int
) -> None:
    part = TablePart(Definition.parse(COUNT).plan("T"))
    tail: Any = Trimmed(gap, earliest_seq)

    with pytest.raises(HistoryGone, match="records 3 to 4 "):
        as_of.folded(part, tail, 9, ("a",))
    assert as_of.folded(part, tail, 2, ("a",)) == feature_history.START_MS
