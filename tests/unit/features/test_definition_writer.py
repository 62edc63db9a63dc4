"""Definitions as JSON: what has its default is left out."""

from __future__ import annotations

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
