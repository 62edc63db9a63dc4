"""Definitions: read, written, merged, and divided into parts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidArgument, InvalidDefinition
from penstock.features.definition import Definition
from tests.unit.features.feature_kinds import DOCUMENT, FLEET, KINDS, PAID, RIDE, TABLE, changed

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 1 << 70) | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
WORDS = st.sampled_from(
    [
        "Ride",
        "PaidRide",
        "Fleet",
        "fare",
        "rider",
        "who",
        "at",
        "1h",
        "count",
        "sum",
        "fare > 1",
        "i64",
    ]
)


def definition(document: dict[str, Any] = DOCUMENT, known: Definition | None = None) -> Definition:
    return Definition.parse(document, known=known, kinds=KINDS)


def test_a_definition_survives_its_json() -> None:
    first = definition()

    assert definition(first.to_json()) == first
    assert Definition.parse(first.canonical(), kinds=KINDS) == first
    assert Definition.parse(msgspec.json.encode(DOCUMENT).decode(), kinds=KINDS) == first


def test_the_canonical_form_does_not_depend_on_order_or_spelling() -> None:
    other = {
        "tables": [
            {**FLEET, "key": []},
            {**TABLE, "features": dict(reversed(TABLE["features"].items())), "cold_after": "720h"},
        ],
        "derived": [
            {
                **PAID,
                "steps": [{"where": "(((not cancelled)))", "op": "filter"}, *PAID["steps"][1:]],
            }
        ],
        "events": [{**RIDE, "fields": dict(reversed(RIDE["fields"].items()))}],
    }

    assert definition(other).canonical() == definition().canonical()
    assert definition(other).shape("RiderFeatures") == definition().shape("RiderFeatures")


def test_the_plan_of_a_table_has_all_it_is_built_on() -> None:
    plan = definition().plan("RiderFeatures")

    assert plan.event.topic == "rides"
    assert len(plan.chain.runs) == 7
    assert plan.key == ("who",)
    assert plan.key_types == ("str",)
    assert plan.cold_after_ms == 30 * 86_400_000
    assert plan.output_schema == {
        "who": "str",
        **{"rides": "i64", "rides_1h": "i64", "spend": "i64", "p90": "f64", "slow": "f64"},
    }
    spend = plan.features[2]
    assert (spend.name, spend.fields, spend.window.kind) == ("spend", ("fare",), "tumbling")
    assert spend.arguments.field_types == ("i64",)
    assert spend.arguments.window_ms == 86_400_000
    slow = plan.features[4]
    assert slow.arguments.parameters == {"half_life": 90_000}
    assert slow.arguments.window_ms is None
    assert slow.where is None
    assert plan.features[1].where is not None


def test_a_table_without_a_key_or_time_of_its_own_has_the_events_options() -> None:
    plan = definition().plan("Fleet")

    assert plan.key == ()
    assert plan.cold_after_ms == 90 * 86_400_000


def test_a_table_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(InvalidArgument, match="did you mean 'Fleet'"):
        definition().plan("Flet")


def test_a_definition_is_added_to_what_is_known() -> None:
    known = definition({"events": [RIDE], "derived": [PAID]})

    both = definition({"tables": [TABLE, FLEET]}, known)

    assert both == definition()
    assert definition({"tables": [FLEET]}, both) == both
    with pytest.raises(InvalidArgument, match="unknown event 'PaidRide'"):
        definition({"tables": [TABLE]})


def test_an_added_node_may_not_break_what_is_built_on_it() -> None:
    smaller = changed({"events": [RIDE]}, "events", 0, "fields", "cancelled", to=None)

    with pytest.raises(InvalidArgument, match=r"derived.PaidRide.steps\[0\]: unknown column"):
        definition(smaller, definition())


def test_the_checksum_of_a_table_changes_with_what_groups_its_events() -> None:
    base = definition().shape("RiderFeatures").base
    for path, to in (
        (("events", 0, "topic"), "other"),
        (("events", 0, "time", "lateness"), "6m"),
        (("events", 0, "time", "ahead"), "6m"),
        (("events", 0, "dedupe"), None),
        (("events", 0, "fields", "new"), "str"),
        (("derived", 0, "steps", 0, "where"), "cancelled"),
        (("tables", 0, "steps"), None),
        (("tables", 0, "key"), ["who", "cancelled"]),
        (("tables", 0, "cold_after"), "1d"),
    ):
        other = definition(changed(DOCUMENT, *path, to=to))  # type: ignore[misc]

        assert other.shape("RiderFeatures").base != base, path


def test_the_checksum_of_a_table_does_not_change_with_anything_else() -> None:
    shape = definition().shape("RiderFeatures")
    for path, to in (
        (("events", 0, "sync"), None),
        (("events", 0, "cold_after"), "1d"),
        (("events", 0, "fields", "new"), {"type": "str", "optional": True}),
        (("tables", 1, "features", "m"), {"op": "count", "window": "1h"}),
        (("events",), [RIDE, {"name": "Other", "fields": {"a": "str"}}]),
    ):
        other = definition(changed(DOCUMENT, *path, to=to))  # type: ignore[misc]

        assert other.shape("RiderFeatures") == shape, path


def test_the_checksum_of_a_feature_changes_with_its_values() -> None:
    shape = definition().shape("RiderFeatures")
    for name, member, to in (
        ("rides", "window", "1h"),
        ("rides_1h", "window", "2h"),
        ("rides_1h", "where", "fare > 6"),
        ("spend", "window", "1d"),
        ("spend", "field", "seats"),
        ("p90", "q", 0.5),
        ("slow", "half_life", "91s"),
        ("rides", "op", "geo_spread"),
    ):
        document = changed(DOCUMENT, "tables", 0, "features", name, member, to=to)
        if to == "geo_spread":
            document["tables"][0]["features"][name] |= {"lat_field": "fare", "lon_field": "fare"}
        other = definition(document).shape("RiderFeatures")

        assert other.base == shape.base
        assert {
            feature
            for feature in shape.features
            if other.features[feature] != shape.features[feature]
        } == {name}


def test_the_same_feature_in_other_words_has_the_same_checksum() -> None:
    shape = definition().shape("RiderFeatures")
    for name, member, to in (
        ("rides", "window", "forever"),
        ("rides_1h", "window", "60m"),
        ("rides_1h", "where", "((fare)>5)"),
        ("slow", "half_life", 90_000),
    ):
        document = changed(DOCUMENT, "tables", 0, "features", name, member, to=to)

        assert definition(document).shape("RiderFeatures") == shape


def test_a_part_has_some_features_and_what_they_need() -> None:
    whole = definition()

    part = whole.part("RiderFeatures", ["spend", "slow"])

    assert (set(part.events), set(part.derived), set(part.tables)) == (
        {"Ride"},
        {"PaidRide"},
        {"RiderFeatures"},
    )
    shape, full = part.shape("RiderFeatures"), whole.shape("RiderFeatures")
    assert shape.base == full.base
    assert shape.features == {name: full.features[name] for name in ("spend", "slow")}
    assert Definition.parse(part.canonical(), kinds=KINDS) == part


def test_an_empty_definition_has_nothing() -> None:
    assert definition({}) == Definition()
    assert Definition().canonical() == b'{"derived":[],"events":[],"tables":[]}'


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", "[" * 100_000, "nul"])
def test_what_is_no_json_is_refused(text: bytes | str) -> None:
    with pytest.raises(InvalidArgument, match="no JSON"):
        Definition.parse(text, kinds=KINDS)


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths of everything in a document."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(one for member, item in inner for one in places(item, (*path, member)))]


@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(st.sampled_from(places(DOCUMENT)[1:]), JSON | WORDS), min_size=10, max_size=20
    )
)
def test_a_document_with_anything_anywhere_is_read_or_refused(
    changes: list[tuple[tuple[str | int, ...], Any]],
) -> None:
    for path, to in changes:
        try:
            found = definition(changed(DOCUMENT, *path, to=to))
        except InvalidDefinition:
            continue
        assert Definition.parse(found.canonical(), kinds=KINDS) == found


def test_a_gap_policy_is_that_of_the_event_unless_the_table_has_its_own() -> None:
    strict = changed(DOCUMENT, "events", 0, "on_gap", to="fail")
    mixed = changed(strict, "tables", 1, "on_gap", to="accept")
    found = definition(mixed)

    assert definition().plan("Fleet").on_gap == "accept"
    assert found.plan("RiderFeatures").on_gap == "fail"
    assert found.plan("Fleet").on_gap == "accept"
    assert definition(found.to_json()) == found
    assert found.to_json()["tables"][1]["on_gap"] == "accept"
    assert "on_gap" not in found.to_json()["tables"][0]
