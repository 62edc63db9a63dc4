"""A table's part, held against rows that are computed from all events."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.features import fold_kernel
from penstock.features.definition import Definition
from penstock.features.table_part import TablePart
from penstock.types import Gap
from tests.support.seeds import new_seeds
from tests.unit.features.part_rig import (
    ExpectedRows,
    batch,
    definition,
    divided,
    plan_of,
    random_events,
)

KEYS = [(name, day) for name in ("a", "b", "é") for day in range(3)]
SEEDS = new_seeds(3)


@pytest.fixture(params=["interpreted", "compiled"], autouse=True)
def each_form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_kernel, "chosen", fold_kernel.load(request.param == "interpreted"))


def rows_of(part: TablePart, now: int) -> list[dict[str, Any] | None]:
    return part.rows(KEYS, now)


def state_of(part: TablePart) -> list[bytes]:
    return [bytes(piece) for piece in part.snapshot()]


def restored(pieces: Sequence[bytes], **options: Any) -> TablePart:
    part = TablePart(plan_of(**options))
    part.restore([memoryview(piece) for piece in pieces])
    return part


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cold_after", [None, "400ms"])
def test_rows_are_those_of_all_events_however_they_are_divided(
    seed: int, cold_after: str | None
) -> None:
    chance = random.Random(seed)
    whole = TablePart(plan_of(cold_after=cold_after))
    single = TablePart(plan_of(cold_after=cold_after))
    expected = ExpectedRows(None if cold_after is None else 400)
    for _ in range(4):
        events = random_events(chance, 60)
        for event in events:
            event["at"] += max(0, expected.largest)
        whole.apply(batch(events))
        for one in divided(chance, events, chance.choice([1, 3, 20])):
            single.apply(one)
        expected.add(events)

        for later in (0, 1, 90, 350, 3000):
            now = expected.largest + later
            wanted = [expected.row(key, now) for key in KEYS]
            assert rows_of(whole, now) == wanted
            assert rows_of(single, now) == wanted
    assert whole.counters == single.counters == expected.counts


def test_the_state_does_not_depend_on_the_batches() -> None:
    chance = random.Random(SEEDS[0])
    events = random_events(chance, 300)
    whole, divided_part = TablePart(plan_of()), TablePart(plan_of())
    whole.apply(batch(events))
    for one in divided(chance, events, 7):
        divided_part.apply(one)

    assert state_of(whole) == state_of(divided_part)


@pytest.mark.parametrize("cold_after", [None, "400ms"])
def test_a_snapshot_shows_the_state_as_of_its_call(cold_after: str | None) -> None:
    chance = random.Random(SEEDS[1])
    part = TablePart(plan_of(cold_after=cold_after))
    later = random_events(chance, 400)
    part.apply(batch(later[:200]))
    now = part.largest_time
    assert now is not None
    before = rows_of(part, now)
    counters = part.counters

    snapshot = part.snapshot()
    pieces = [next(snapshot)]
    for one in divided(chance, later[200:], 9):
        part.apply(one)
        if chance.random() < 0.2:
            pieces += [piece for piece in [next(snapshot, None)] if piece is not None]
    pieces += snapshot

    copy = restored(pieces, cold_after=cold_after)
    assert rows_of(copy, now) == before
    assert copy.counters == counters
    copy.apply(batch(later[200:]))
    end = part.largest_time
    assert end is not None
    assert rows_of(copy, end) == rows_of(part, end)
    assert copy.counters == part.counters


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restored_part_has_the_same_state(seed: int) -> None:
    chance = random.Random(seed)
    part = TablePart(plan_of(cold_after="700ms"))
    for one in divided(chance, random_events(chance, 300), 30):
        part.apply(one)

    copy = restored(state_of(part), cold_after="700ms")

    assert state_of(copy) == state_of(part)
    more = random_events(chance, 100)
    for event in more:
        event["at"] += part.largest_time or 0
    part.apply(batch(more))
    copy.apply(batch(more))
    assert rows_of(copy, part.largest_time or 0) == rows_of(part, part.largest_time or 0)


def test_an_abandoned_snapshot_costs_nothing() -> None:
    part = TablePart(plan_of())
    part.apply(batch(random_events(random.Random(1), 50)))
    snapshot = part.snapshot()
    next(snapshot)
    del snapshot

    part.apply(batch(random_events(random.Random(2), 50)))

    assert part._running_snapshot() is None


def test_the_first_event_makes_the_row_even_if_it_meets_no_where() -> None:
    part = TablePart(plan_of())

    part.apply(batch([{"name": "a", "day": 1, "x": 1, "at": 1000}]))

    row = part.row(("a", 1), 1000, ["some_all", "n_all"])
    assert row == {"some_all": 0, "n_all": 1}
    assert part.row(("a", 2), 1000) is None


def test_a_key_without_events_for_too_long_is_gone_and_begins_again() -> None:
    part = TablePart(plan_of(cold_after="100ms"))
    part.apply(batch([{"name": "a", "day": 1, "x": 1, "at": 1000}]))

    assert part.row(("a", 1), 1100) is not None
    assert part.row(("a", 1), 1101) is None
    part.apply(batch([{"name": "a", "day": 1, "x": 1, "at": 1101}]))
    assert part.row(("a", 1), 1101, ["n_all"]) == {"n_all": 1}


def test_keys_that_never_come_back_are_removed() -> None:
    part = TablePart(plan_of(cold_after="100ms"))
    part.apply(batch([{"name": "a", "day": n, "x": 1, "at": 1000} for n in range(40)]))
    part.apply(batch([{"name": "b", "day": 0, "x": 1, "at": 9000}]))

    assert part.keys == 1
    assert list(part.all_keys()) == [("b", 0)]


def test_a_table_without_a_key_has_one_row() -> None:
    part = TablePart(plan_of(key=()))
    assert part.row((), 1000) is None

    part.apply(batch([{"name": None, "day": n, "x": 1, "at": 1000} for n in range(5)]))

    assert part.row((), 1000, ["n_all", "n_tumbling"]) == {"n_all": 5, "n_tumbling": 5}


def test_lost_and_bad_records_are_counted() -> None:
    part = TablePart(plan_of())

    part.lose(Gap(1, 4, "ttl", 4, 5, 9))
    part.apply(batch([[], {"name": "a", "day": 1, "x": 1, "at": 2**60}], first_seq=5))

    assert part.counters["lost"] == 4
    assert part.counters["bad"] == 2
    first, second = part.bad_reasons
    assert first == "record 5: it is not a JSON object"
    assert second.startswith("record 6: field 'at' is 1152921504606846976, expected a time")


def test_no_value_is_infinite() -> None:
    document = definition()
    document["events"][0]["fields"]["x"] = "f64"
    document["tables"][0]["features"] = {"s": {"op": "sum", "field": "twice"}}
    part = TablePart(Definition.parse(document).plan("T"))

    part.apply(batch([{"name": "a", "day": 1, "x": 1e308, "at": 1}] * 3))

    assert part.row(("a", 1), 1) == {"s": None}


def test_a_damaged_snapshot_is_refused() -> None:
    part = TablePart(plan_of())
    part.apply(batch(random_events(random.Random(3), 50)))
    pieces = state_of(part)

    for damaged in (
        [],
        pieces[:1],
        pieces[1:],
        [*pieces, pieces[-1]],
        [pieces[0], pieces[1][:-64]],
    ):
        with pytest.raises((ValueError, KeyError, IndexError)):
            restored(damaged)


def test_another_definition_has_another_identity() -> None:
    assert TablePart(plan_of()).definition == TablePart(plan_of()).definition
    assert TablePart(plan_of()).definition != TablePart(plan_of(key=("day",))).definition
