"""Definitions as JSON: what has its default is left out."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.features.definition_reader import read_nodes
from penstock.features.definition_writer import to_json
from tests.unit.features.feature_kinds import DOCUMENT, FLEET, KINDS, RIDE


def test_nodes_survive_being_written() -> None:
    nodes = read_nodes(DOCUMENT, KINDS)

    assert read_nodes(to_json(nodes), KINDS) == nodes


def test_an_event_is_written_as_it_was_declared() -> None:
    assert to_json(read_nodes(DOCUMENT, KINDS))["events"] == [RIDE]


def test_what_has_its_default_is_left_out() -> None:
    event = {"name": "A", "topic": "A", "fields": {"a": "str"}, "sync": "periodic", "time": None}
    found = to_json(read_nodes({"events": [event], "tables": [{**FLEET, "from": "A"}]}, KINDS))

    assert found == {
        "events": [{"name": "A", "topic": "A", "fields": {"a": "str"}}],
        "derived": [],
        "tables": [{"name": "Fleet", "from": "A", "key": [], "features": {"n": {"op": "count"}}}],
    }


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ({"field": "at", "ahead": "60m"}, {"field": "at"}),
        ({"field": "at", "ahead": 0}, {"field": "at", "ahead": "0ms"}),
        (
            {"field": "at", "lateness": "5m", "ahead": "10m"},
            {"field": "at", "lateness": "5m", "ahead": "10m"},
        ),
        ({"field": "$ts"}, None),
    ],
)
def test_the_time_of_events_is_written_without_its_defaults(given: Any, written: Any) -> None:
    event = {"name": "A", "fields": {"at": "i64"}, "time": given}
    nodes = read_nodes({"events": [event]}, KINDS)

    assert to_json(nodes)["events"][0].get("time") == written
    assert read_nodes(to_json(nodes), KINDS) == nodes


@pytest.mark.parametrize(("memory_max", "written"), [("1024MiB", None), (1 << 20, "1MiB")])
def test_the_memory_of_ids_is_written_unless_it_is_the_default(
    memory_max: Any, written: Any
) -> None:
    dedupe = {"field": "id", "window": "1m", "memory_max": memory_max}
    nodes = read_nodes(
        {"events": [{"name": "A", "fields": {"id": "str"}, "dedupe": dedupe}]}, KINDS
    )

    assert to_json(nodes)["events"][0]["dedupe"].get("memory_max") == written
    assert read_nodes(to_json(nodes), KINDS) == nodes
