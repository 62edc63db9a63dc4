"""The share of each category."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from penstock.features.event_column import ColumnType
from penstock.features.operators.catalogue import KINDS
from penstock.features.operators.category_mix import CategoryMix
from tests.support.operators import START, Event, check, events_of, fold_of, made, value_of

MIX = KINDS["event_type_mix"]


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def shares(texts: Sequence[str], counted: Sequence[str]) -> dict[str, float]:
    found = Counter(text for text in texts if text in set(counted))
    return {text: found[text] / len(texts) for text in sorted(found)}


def texts_of(events: Sequence[Event]) -> list[str]:
    return [text_of(event.value) for event in events if event.passes and event.value is not None]


@pytest.mark.parametrize("type_", ["str", "i64", "bool", "f64"])
def test_shares_are_of_all_events_that_have_a_value(type_: ColumnType) -> None:
    def expected(events: Sequence[Event], now_ms: int) -> dict[str, float]:
        texts = texts_of(events)
        return shares(texts, texts)

    check(MIX, (type_,), expected, is_in_order=False)


def test_new_categories_beyond_the_maximum_count_in_the_total_alone() -> None:
    def draw(random: Random) -> tuple[Any, ...]:
        return (f"c{random.randrange(12)}",)

    def expected(events: Sequence[Event], now_ms: int) -> dict[str, float]:
        texts = texts_of(events)
        return shares(texts, list(dict.fromkeys(texts))[:3])

    check(MIX, ("str",), expected, draw=draw, max_categories=3)


@pytest.mark.parametrize("type_", ["str", "bool"])
def test_so_do_categories_that_are_not_listed(type_: ColumnType) -> None:
    categories = ["a", "b", "true"]

    def expected(events: Sequence[Event], now_ms: int) -> dict[str, float]:
        return shares(texts_of(events), categories)

    check(MIX, (type_,), expected, categories=categories, max_categories=1)


def test_a_text_that_no_key_has_is_forgotten() -> None:
    operator = made(MIX, ("str",), rows=2)
    assert isinstance(operator, CategoryMix)
    fold = fold_of([0], events_of("a"), ("str",))

    for number in range(100):
        batch = fold_of([0, 1], events_of(f"left {number}", f"right {number}"), ("str",))
        operator.fold(batch)
        operator.clear(batch.rows)
    operator.fold(fold)

    assert operator.bytes < 2_000
    assert operator.value([0], START) == {"a": 1.0}


def test_a_text_that_was_refused_is_forgotten() -> None:
    operator = made(MIX, ("str",), rows=1, max_categories=1)
    first = operator.bytes

    for number in range(100):
        operator.fold(fold_of([0], events_of(f"text {number}"), ("str",)))

    assert operator.bytes - first < 2_000
    assert operator.value([0], START) == {"text 0": 0.01}


@pytest.mark.parametrize("texts", [None, ["a"], ["a", 1], ["a", "b", "c"]])
def test_other_texts_are_refused(texts: Any) -> None:
    operator = made(MIX, ("str",))
    fold = fold_of([0, 0], events_of("a", "b"), ("str",))
    operator.fold(fold)
    saved = {**operator.save(fold.rows[:1]), "texts": texts}

    with pytest.raises(ValueError, match="'texts'"):
        made(MIX, ("str",)).load(fold.rows[:1], saved)


def test_without_events_there_are_no_shares() -> None:
    assert value_of(MIX, ("str",), [], START) == {}
    assert made(MIX, ("str",)).value([], START) == {}


def test_0_and_minus_0_are_one_category_whatever_the_batches() -> None:
    events = events_of(-0.0, 0.0)
    together = made(MIX, ("f64",), rows=1)
    together.fold(fold_of([0, 0], events, ("f64",)))
    apart = made(MIX, ("f64",), rows=1)
    for event in events:
        apart.fold(fold_of([0], [event], ("f64",)))

    assert together.value([0], 0) == apart.value([0], 0) == {"0.0": 1.0}
