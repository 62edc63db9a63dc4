"""Nodes of definitions: what is built on what."""

from __future__ import annotations

from penstock.features.definition_nodes import DefinitionNodes, DerivedEvent
from penstock.features.definition_reader import read_nodes
from tests.unit.features.feature_kinds import DOCUMENT, KINDS, RIDE


def test_the_way_from_an_event_to_what_is_derived_of_it() -> None:
    derived = {"A": DerivedEvent("A", "Ride"), "B": DerivedEvent("B", "A")}
    nodes = DefinitionNodes({}, derived, {})

    assert [one.name for one in nodes.upstreams("B")] == ["A", "B"]
    assert nodes.root("B") == nodes.root("Ride") == "Ride"


def test_a_cycle_ends() -> None:
    nodes = DefinitionNodes({}, {"A": DerivedEvent("A", "B"), "B": DerivedEvent("B", "A")}, {})

    assert nodes.root("A") in nodes.derived


def test_a_part_leaves_out_what_it_is_not_built_on() -> None:
    nodes = read_nodes(DOCUMENT, KINDS)

    part = nodes.part("Fleet", ["n"])

    assert (set(part.events), set(part.derived), set(part.tables)) == ({"Ride"}, set(), {"Fleet"})


def test_other_nodes_replace_those_of_the_same_name() -> None:
    nodes = read_nodes(DOCUMENT, KINDS)
    others = read_nodes({"events": [{**RIDE, "topic": "other"}]}, KINDS)

    found = nodes.with_nodes(others)

    assert found.events["Ride"].topic == "other"
    assert found.tables == nodes.tables


def test_the_schema_of_an_event_has_the_types_of_its_fields() -> None:
    assert read_nodes(DOCUMENT, KINDS).events["Ride"].schema["seats"] == "i64"
