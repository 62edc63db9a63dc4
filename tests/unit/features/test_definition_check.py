"""Names and types of a definition fit together, or the place that does not is named."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import InvalidDefinition
from penstock.features.definition import Definition
from tests.unit.features.feature_kinds import DOCUMENT, KINDS, RIDE, changed

TABLE = ("tables", 0)
FEATURES = (*TABLE, "features")
PATH = "tables.RiderFeatures"


@pytest.mark.parametrize(
    ("path", "to", "place", "why"),
    [
        (("events", 0, "topic"), "_rides", "events.Ride.topic", "invalid topic name '_rides'"),
        (("events",), [RIDE, {**RIDE, "name": "B"}], "events.B.topic", "has the events 'Ride'"),
        (("events", 0, "time", "field"), "att", "events.Ride.time.field", "did you mean 'at'?"),
        (
            ("events", 0, "time", "field"),
            "fare",
            "events.Ride.time.field",
            "of type f64: expected i64",
        ),
        (
            ("events", 0, "dedupe", "field"),
            "fare",
            "events.Ride.dedupe.field",
            "i64 or str or bool",
        ),
        (("derived", 0, "from"), "Rides", "derived.PaidRide.from", "did you mean 'Ride'?"),
        (("derived", 0, "from"), "Fleet", "derived.PaidRide.from", "'Fleet' is a table"),
        (("derived", 0, "from"), "PaidRide", "derived.PaidRide", "built on itself"),
        (("tables", 0, "from"), "PadRide", f"{PATH}.from", "did you mean 'PaidRide'?"),
        (
            ("derived", 0, "steps", 0, "where"),
            "fare",
            "derived.PaidRide.steps[0]",
            "expected a bool",
        ),
        (
            ("derived", 0, "steps", 0, "where"),
            "a",
            "derived.PaidRide.steps[0]",
            "unknown column 'a'",
        ),
        (
            ("derived", 0, "steps", 2, "fields"),
            {"rider": "fare"},
            "derived.PaidRide.steps[2]",
            "two",
        ),
        (
            ("derived", 0, "steps", 4, "values"),
            {"seats": "x"},
            "derived.PaidRide.steps[4]",
            "type i64",
        ),
        ((*TABLE, "key"), ["rider"], f"{PATH}.key", "unknown column 'rider'"),
        ((*TABLE, "key"), ["per_seat"], f"{PATH}.key", "of type f64: a key is of i64, str or bool"),
        ((*TABLE, "key"), ["who", "who"], f"{PATH}.key", "twice"),
        (FEATURES, {}, f"{PATH}.features", "at least one feature"),
        ((*FEATURES, "who"), {"op": "count"}, f"{PATH}.features.who", "column of the key"),
        ((*FEATURES, "spend", "field"), "far", f"{PATH}.features.spend.field", "mean 'fare'"),
        (
            (*FEATURES, "spend", "field"),
            "who",
            f"{PATH}.features.spend.field",
            "of type str: expected a number",
        ),
        ((*FEATURES, "spend", "field"), None, f"{PATH}.features.spend", "sum needs 'field'"),
        ((*FEATURES, "slow", "half_life"), None, f"{PATH}.features.slow", "ewma needs 'half_life'"),
        ((*FEATURES, "slow", "window"), "1h", f"{PATH}.features.slow.window", "takes no window"),
        (
            (*FEATURES, "x"),
            {"op": "twa", "field": "fare"},
            f"{PATH}.features.x.window",
            "needs a window",
        ),
        ((*FEATURES, "rides", "where"), "fare", f"{PATH}.features.rides.where", "expected a bool"),
        ((*FEATURES, "rides", "where"), "fair > 1", f"{PATH}.features.rides.where", "mean 'fare'"),
        (
            (*FEATURES, "h"),
            {"op": "histogram", "field": "fare", "buckets": [2, 1]},
            f"{PATH}.features.h",
            "buckets must rise",
        ),
    ],
)
def test_what_does_not_fit_is_named_with_its_path(
    path: tuple[str | int, ...], to: Any, place: str, why: str
) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        Definition.parse(changed(DOCUMENT, *path, to=to), kinds=KINDS)

    assert caught.value.path == place
    assert why in caught.value.why


def test_derived_events_may_stand_in_any_order() -> None:
    chain = [{"name": f"D{n}", "from": f"D{n + 1}"} for n in range(50)]

    found = Definition.parse(
        {
            "events": [RIDE],
            "derived": [*chain, {"name": "D50", "from": "Ride"}],
            "tables": [{"name": "T", "from": "D0", "features": {"n": {"op": "count"}}}],
        },
        kinds=KINDS,
    )

    assert found.plan("T").event.name == "Ride"


def test_derived_events_cannot_be_built_on_each_other() -> None:
    derived = [{"name": "A", "from": "B"}, {"name": "B", "from": "A"}]

    with pytest.raises(InvalidDefinition, match="built on itself"):
        Definition.parse({"derived": derived}, kinds=KINDS)


def test_steps_in_a_row_are_bounded_over_all_derived_events() -> None:
    steps = [{"op": "filter", "where": "a > 1"}] * 200
    document = {
        "events": [{"name": "A", "fields": {"a": "i64"}}],
        "derived": [
            {"name": "B", "from": "A", "steps": steps},
            {"name": "C", "from": "B", "steps": steps},
        ],
    }

    with pytest.raises(InvalidDefinition, match="400 steps in a row: expected at most 256"):
        Definition.parse(document, kinds=KINDS)


def test_a_table_may_be_grouped_by_computed_and_replaced_columns() -> None:
    document = {
        "events": [{"name": "A", "fields": {"a": "i64", "b": "str"}}],
        "tables": [
            {
                "name": "T",
                "from": "A",
                "steps": [
                    {"op": "with_columns", "columns": {"bucket": "a / 10", "a": "cast(a, str)"}},
                    {"op": "map", "columns": {"is_b": "b == 'b'"}},
                ],
                "key": ["bucket", "a", "is_b"],
                "features": {"n": {"op": "n_unique", "field": "a"}},
            }
        ],
    }

    plan = Definition.parse(document, kinds=KINDS).plan("T")

    assert plan.key_types == ("i64", "str", "bool")
    assert plan.features[0].arguments.field_types == ("str",)


def test_names_are_unique_also_together_with_what_is_known() -> None:
    known = Definition.parse({"events": [RIDE]}, kinds=KINDS)

    with pytest.raises(InvalidDefinition, match="also one of events"):
        Definition.parse({"derived": [{"name": "Ride", "from": "Ride"}]}, known=known, kinds=KINDS)
