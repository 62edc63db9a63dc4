"""What a registration changes, in the words of beava."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.compat.beava.registration import definition_of
from penstock.compat.beava.registration_diff import diff_of
from penstock.features import Definition, differences
from tests.support.beava import event, table

RIDE = event("Ride", rider="str", fare="f64")
TABLE = table("T", "Ride", ["rider"], n={"op": "count"}, m={"op": "sum", "field": "fare"})


def diff(*nodes: dict[str, Any]) -> dict[str, Any]:
    """Of a registration after RIDE and TABLE."""
    before = Definition.parse(definition_of([RIDE, TABLE]))
    after = Definition.parse(definition_of(list(nodes), before.to_json()), known=before)
    changes = [change.to_json() for change in differences(before, after)]
    return diff_of(changes, nodes)


@pytest.mark.parametrize(
    ("node", "additive"),
    [
        (
            event("Fare", fare="f64"),
            {"kind": "new_descriptor", "descriptor_kind": "event", "name": "Fare"},
        ),
        (
            table("U", "Ride", [], n={"op": "count"}),
            {"kind": "new_descriptor", "descriptor_kind": "derivation", "name": "U"},
        ),
        (
            event("Ride", rider="str", fare="f64", seats="i64"),
            {"kind": "new_field", "event": "Ride", "field": "seats", "type": "i64"},
        ),
        (
            table(
                "T",
                "Ride",
                ["rider"],
                n={"op": "count"},
                m={"op": "sum", "field": "fare"},
                z={"op": "mean", "field": "fare"},
            ),
            {"kind": "new_agg", "table": "T", "agg": "z", "source": "mean"},
        ),
        (
            table(
                "T",
                "Ride",
                ["rider"],
                n={"op": "count", "window": "1h"},
                m={"op": "sum", "field": "fare"},
            ),
            {"kind": "window_change", "agg": "T.n", "from": "", "to": "1h"},
        ),
        (
            table(
                "T",
                "Ride",
                ["rider"],
                n={"op": "count", "where": "(fare > 1)"},
                m={"op": "sum", "field": "fare"},
            ),
            {"kind": "change", "name": "T.n", "members": ["where"]},
        ),
    ],
)
def test_what_is_built_from_history_is_additive(
    node: dict[str, Any], additive: dict[str, Any]
) -> None:
    assert diff(node) == {"additive": [additive], "destructive": [], "already_present": []}


def test_what_is_removed_is_destructive() -> None:
    found = diff(table("T", "Ride", ["rider"], n={"op": "count"}))

    assert found["destructive"] == [{"kind": "agg_removal", "table": "T", "agg": "m"}]


def test_types_and_keys_that_change_are_named() -> None:
    changes = [
        {
            "change": "changed",
            "node": "event",
            "name": "Ride",
            "is_destructive": True,
            "members": {
                "fields": {
                    "from": {"fare": "f64", "tip": {"type": "f64", "optional": True}},
                    "to": {"fare": "str"},
                }
            },
        },
        {
            "change": "changed",
            "node": "table",
            "name": "T",
            "is_destructive": True,
            "members": {"key": {"from": ["rider"], "to": ["fare"]}},
        },
    ]

    found = diff_of(changes, [RIDE, TABLE])

    assert found["destructive"] == [
        {"kind": "type_change", "field": "Ride.fare", "from": "f64", "to": "str"},
        {"kind": "type_change", "field": "Ride.tip", "from": "f64", "to": "<absent>"},
        {"kind": "key_cols_change", "table": "T", "from": ["rider"], "to": ["fare"]},
    ]


def test_what_is_as_it_was_is_already_present() -> None:
    assert diff(TABLE, RIDE) == {
        "additive": [],
        "destructive": [],
        "already_present": ["Ride", "T"],
    }
