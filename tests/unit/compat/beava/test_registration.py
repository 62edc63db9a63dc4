"""A registration of beava as a definition of Penstock."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.compat.beava.registration import BadRegistration, definition_of

RIDE = {
    "kind": "event",
    "name": "Ride",
    "schema": {"fields": {"rider": "str", "fare": "f64"}, "optional_fields": ["fare"]},
    "dedupe_key": "id",
    "dedupe_window_ms": 60000,
    "cold_after_ms": 86400000,
}
PAID = {
    "kind": "derivation",
    "name": "Paid",
    "output_kind": "event",
    "upstreams": ["Ride"],
    "ops": [{"op": "filter", "expr": "(fare > 0)"}, {"op": "cast", "type_map": {"fare": "int"}}],
}
TABLE = {
    "kind": "derivation",
    "name": "RiderF",
    "output_kind": "table",
    "upstreams": ["Paid"],
    "ops": [
        {"op": "rename", "mapping": {"rider": "who"}},
        {
            "op": "group_by",
            "keys": ["who"],
            "agg": {
                "n": {"op": "count", "params": {"window": "1h", "where": "(fare > 5)"}},
                "all": {"op": "count", "params": {"window": "forever"}},
                "d": {"op": "geo_distance", "params": {"lat": "x", "lon_field": "y"}},
            },
        },
    ],
}


def test_nodes_become_events_derived_events_and_tables() -> None:
    assert definition_of([RIDE, PAID, TABLE]) == {
        "events": [
            {
                "name": "Ride",
                "topic": "Ride",
                "fields": {"rider": "str", "fare": {"type": "f64", "optional": True}},
                "dedupe": {"field": "id", "window": "60000ms"},
                "cold_after": "86400000ms",
            }
        ],
        "derived": [
            {
                "name": "Paid",
                "from": "Ride",
                "steps": [
                    {"op": "filter", "where": "(fare > 0)"},
                    {"op": "cast", "fields": {"fare": "i64"}},
                ],
            }
        ],
        "tables": [
            {
                "name": "RiderF",
                "from": "Paid",
                "steps": [{"op": "rename", "fields": {"rider": "who"}}],
                "key": ["who"],
                "features": {
                    "n": {"op": "count", "window": "1h", "where": "(fare > 5)"},
                    "all": {"op": "count"},
                    "d": {"op": "geo_distance", "lat_field": "x", "lon_field": "y"},
                },
            }
        ],
    }


@pytest.mark.parametrize(
    ("nodes", "code", "path"),
    [
        ({}, "invalid_registration", "<body>"),
        ([{**RIDE, "name": "1x"}], "invalid_registration", "nodes[0].name"),
        ([RIDE, RIDE], "invalid_registration", "nodes[1].name"),
        ([{**RIDE, "kind": "stream"}], "unsupported_node_kind", "nodes[0].Ride.kind"),
        ([TABLE], "invalid_registration", "nodes[0].upstreams[0]"),
        ([{**RIDE, "event_time_field": "at"}], "unknown_field_event_time_v0", None),
        ([RIDE, {**PAID, "ops": [{"op": "join"}]}], "feature_removed_no_joins_v0", None),
        ([RIDE, {**PAID, "ops": [{"op": "filter"}]}], "invalid_registration", "nodes[1].ops[0]"),
        ([RIDE, {**PAID, "output_kind": "table"}], "invalid_registration", "nodes[1].ops[1]"),
    ],
)
def test_a_node_of_another_form_is_refused_with_its_place(
    nodes: Any, code: str, path: str | None
) -> None:
    with pytest.raises(BadRegistration) as caught:
        definition_of(nodes)

    assert caught.value.code == code
    if path is not None:
        assert caught.value.path == path


def test_a_known_event_keeps_what_nodes_of_the_sdk_cannot_say() -> None:
    known = definition_of([RIDE])
    known["events"][0]["topic"] = "rides"
    plain = {"kind": "event", "name": "Ride", "schema": {"fields": {"rider": "str", "fare": "f64"}}}

    assert definition_of([plain], known) == known


def test_a_field_that_a_known_event_has_not_is_optional() -> None:
    more = {**RIDE, "schema": {"fields": {"rider": "str", "fare": "f64", "seats": "i64"}}}

    found = definition_of([more], definition_of([RIDE]))

    assert found["events"][0]["fields"]["seats"] == {"type": "i64", "optional": True}


@pytest.mark.parametrize(
    ("given", "feature"),
    [
        ({"op": "ema", "params": {"field": "fare"}}, {"op": "ewma", "field": "fare"}),
        (
            {"op": "z_score", "params": {"field": "fare", "baseline_window": "1h"}},
            {"op": "z_score", "field": "fare", "baseline_window": "1h"},
        ),
        (
            {"op": "z_score", "params": {"field": "fare", "window": "1h"}},
            {"op": "z_score", "field": "fare", "baseline_window": "1h"},
        ),
        (
            {"op": "z_score", "params": {"field": "fare", "baseline_window": "forever"}},
            {"op": "z_score", "field": "fare"},
        ),
    ],
)
def test_operators_and_parameters_have_our_names(
    given: dict[str, Any], feature: dict[str, Any]
) -> None:
    table = {**TABLE, "ops": [{"op": "group_by", "keys": ["rider"], "agg": {"f": given}}]}

    assert definition_of([RIDE, PAID, table])["tables"][0]["features"] == {"f": feature}
