"""What is registered, before and after a change."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.features.definition import Definition
from penstock.features.registry import EMPTY, changed, shapes_of, without_superseded


def definition(**features: Any) -> Definition:
    ride = {"name": "Ride", "fields": {"rider": "str", "fare": "f64"}}
    table = {"name": "Riders", "from": "Ride", "key": ["rider"], "features": features}
    return Definition.parse({"events": [ride], "tables": [table]})


COUNT = {"op": "count"}


def test_a_part_can_be_read_on_its_own() -> None:
    registry = changed(EMPTY, definition(n=COUNT, spend={"op": "sum", "field": "fare"}))

    (part,) = registry.parts
    alone = Definition.parse(bytes(part.definition))

    assert part.id == "Riders.1"
    assert {one.name: one.checksum for one in alone.plan("Riders").features} == part.features
    assert alone.shape("Riders").base == part.base


def test_each_change_counts_and_no_number_of_a_part_is_used_twice() -> None:
    first = changed(EMPTY, definition(n=COUNT))
    second = changed(first, definition(n={**COUNT, "window": "1h"}))
    shape = definition(n={**COUNT, "window": "1h"}).shape("Riders")
    third = without_superseded(second, "Riders", shape, [part.id for part in second.parts])
    fourth = changed(third, definition(n=COUNT))

    assert [one.version for one in (first, second, fourth)] == [1, 2, 3]
    assert [part.id for part in second.parts] == ["Riders.1", "Riders.2"]
    assert [part.id for part in third.parts] == ["Riders.2"]
    assert [part.id for part in fourth.parts] == ["Riders.2", "Riders.3"]


def test_nothing_is_superseded_before_the_new_part_is_ready() -> None:
    new = definition(n={**COUNT, "window": "1h"})
    registry = changed(changed(EMPTY, definition(n=COUNT)), new)

    assert without_superseded(registry, "Riders", new.shape("Riders"), ["Riders.1"]) is registry


def test_a_registry_is_the_same_after_it_was_recorded() -> None:
    registry = changed(EMPTY, definition(n=COUNT))

    text = msgspec.json.encode(registry)

    assert msgspec.json.encode(msgspec.json.decode(text, type=type(registry))) == text
    recorded = Definition.parse(bytes(registry.definition))
    assert shapes_of(recorded) == shapes_of(definition(n=COUNT))
