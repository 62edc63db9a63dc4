"""Complaints about definitions, in the words of beava."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.compat.beava.registration import definition_of
from penstock.compat.beava.registration_places import placed
from penstock.errors import InvalidDefinition
from penstock.features import Definition
from tests.support.beava import event, table

RIDE = event("Ride", rider="str", fare="f64")
STEPS = {
    "kind": "derivation",
    "name": "Paid",
    "output_kind": "event",
    "upstreams": ["Ride"],
    "ops": [{"op": "drop", "fields": ["rider"]}, {"op": "filter", "expr": "(fare >"}],
}


def of_feature(**given: Any) -> list[dict[str, Any]]:
    return [RIDE, table("T", "Ride", ["rider"], f=given)]


@pytest.mark.parametrize(
    ("nodes", "code", "path"),
    [
        (of_feature(op="summ"), "aggregation_unknown_op", "nodes[1].ops[0].agg.f.op"),
        (
            of_feature(op="sum", field="fair"),
            "aggregation_unknown_field",
            "nodes[1].ops[0].agg.f.params.field",
        ),
        (
            of_feature(op="sum", field="rider"),
            "aggregation_unknown_field",
            "nodes[1].ops[0].agg.f.params.field",
        ),
        (
            of_feature(op="count", where="(fare >"),
            "aggregation_invalid_where",
            "nodes[1].ops[0].agg.f.params.where",
        ),
        (
            of_feature(op="count", window="1y"),
            "aggregation_invalid_window",
            "nodes[1].ops[0].agg.f.params.window",
        ),
        (
            of_feature(op="streak", window="1h"),
            "window_not_supported",
            "nodes[1].ops[0].agg.f.params.window",
        ),
        (
            of_feature(op="quantile", field="fare", q=7),
            "invalid_percentile_q",
            "nodes[1].ops[0].agg.f.params.q",
        ),
        (
            of_feature(op="top_k", field="rider", k=0),
            "invalid_top_k_k",
            "nodes[1].ops[0].agg.f.params.k",
        ),
        (
            of_feature(op="bloom_member", field="rider", fpr=7),
            "invalid_bloom_fpr",
            "nodes[1].ops[0].agg.f.params.target_fpr",
        ),
        (
            of_feature(op="ewma", field="fare", half_life="long"),
            "invalid_registration",
            "nodes[1].ops[0].agg.f.params.half_life",
        ),
        (
            of_feature(op="sum"),
            "invalid_registration",
            "nodes[1].ops[0].agg.f",
        ),
        (
            [RIDE, table("T", "Ride", ["rider"], rider={"op": "count"})],
            "aggregation_group_key_collides_with_feature",
            "nodes[1].ops[0].agg.rider",
        ),
        (
            [RIDE, table("T", "Ride", ["fare"], f={"op": "count"})],
            "aggregation_unknown_field",
            "nodes[1].ops[0].keys",
        ),
        ([RIDE, STEPS], "invalid_expression", "nodes[1].ops[1].where"),
        (
            [{**RIDE, "dedupe_key": "id", "dedupe_window_ms": 5}],
            "invalid_registration",
            "nodes[0].dedupe.field",
        ),
    ],
)
def test_a_complaint_has_the_code_and_the_place_of_the_original(
    nodes: list[dict[str, Any]], code: str, path: str
) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        Definition.parse(definition_of(nodes))

    found = placed(caught.value, nodes)

    assert (found.code, found.path) == (code, path)
    assert found.reason == caught.value.why


def test_a_node_that_was_not_sent_keeps_its_place_in_the_definition() -> None:
    error = InvalidDefinition("gone", path="tables.Other.key", reason="unknown_column")

    assert placed(error, [RIDE]).path == "tables.Other.key"
