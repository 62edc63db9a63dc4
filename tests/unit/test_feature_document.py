"""What a caller gives to `register`, as one document."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import features
from penstock.errors import InvalidArgument
from penstock.feature_document import document_of


@features.event
class Ride:
    rider: str
    fare: float


@features.event
def PaidRide(rides: Ride) -> features.EventChain:  # type: ignore[no-untyped-def,unused-ignore]
    return rides.filter(features.col("fare") > 0)  # type: ignore[attr-defined,no-any-return,unused-ignore]


@features.table(key="rider", upstream=PaidRide)
def Riders(rides: features.EventChain) -> features.AggregatedChain:
    return rides.agg(n=features.count())


@features.table(upstream=Ride)
def Fleet(rides: features.EventChain) -> features.AggregatedChain:
    return rides.agg(n=features.count())


def names(document: dict[str, list[Any]]) -> list[list[str]]:
    return [[node["name"] for node in nodes] for nodes in document.values()]


def test_declared_nodes_bring_what_they_are_built_on_once() -> None:
    assert names(document_of([Riders, Fleet])) == [["Ride"], ["PaidRide"], ["Riders", "Fleet"]]


def test_all_forms_of_a_definition_are_one_document() -> None:
    definition = features.definition(Riders)
    document = definition.to_json()

    for form in (definition, document, json.dumps(document), json.dumps(document).encode()):
        assert document_of([form]) == document
        assert document_of([form, document]) == document


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "nothing to register"),
        ([7], "int"),
        (["{"], "JSON"),
        ([{"table": []}], "'table'"),
        ([{"tables": {}}], "array"),
        ([type("Ride", (), {})], "type"),
    ],
)
def test_what_is_no_definition_is_refused(given: list[Any], why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        document_of(given)
