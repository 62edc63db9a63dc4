"""What changes between two definitions, what it costs, and what needs force."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ForceRequired
from penstock.features.definition import Definition
from penstock.features.definition_diff import DefinitionChange, check_changes, differences
from tests.unit.features.feature_kinds import DOCUMENT, KINDS, RIDE, changed

OLD = Definition.parse(DOCUMENT, kinds=KINDS)
FEATURES = ("tables", 0, "features")


def after(*path: str | int, to: Any, short: tuple[str, ...] = ()) -> list[DefinitionChange]:
    new = Definition.parse(changed(DOCUMENT, *path, to=to), kinds=KINDS)
    return list(differences(OLD, new, short_topics=short))


def summary(changes: list[DefinitionChange]) -> list[tuple[str, str, str, str, bool]]:
    return [(one.kind, one.node, one.name, one.cost, one.is_destructive) for one in changes]


def test_equal_definitions_do_not_differ() -> None:
    assert differences(OLD, Definition.parse(OLD.canonical(), kinds=KINDS)) == ()
    check_changes(())


@pytest.mark.parametrize(
    ("path", "to", "wanted"),
    [
        (
            ("events",),
            [RIDE, {"name": "B", "fields": {"b": "str"}}],
            [("added", "event", "B", "nothing", False)],
        ),
        (
            (*FEATURES, "new"),
            {"op": "count"},
            [("added", "feature", "RiderFeatures.new", "rebuilt", False)],
        ),
        (
            (*FEATURES, "rides_1h", "window"),
            "2h",
            [("changed", "feature", "RiderFeatures.rides_1h", "rebuilt", False)],
        ),
        (
            (*FEATURES, "rides"),
            None,
            [("removed", "feature", "RiderFeatures.rides", "lost", True)],
        ),
        (("tables", 1), None, [("removed", "table", "Fleet", "lost", True)]),
        (
            (*FEATURES, "p90", "q"),
            0.5,
            [("changed", "feature", "RiderFeatures.p90", "rebuilt", False)],
        ),
        (
            ("tables", 0, "steps"),
            None,
            [("changed", "table", "RiderFeatures", "rebuilt", False)],
        ),
        (
            ("tables", 0, "key"),
            ["who", "at"],
            [("changed", "table", "RiderFeatures", "rebuilt", True)],
        ),
        (("events", 0, "sync"), None, [("changed", "event", "Ride", "nothing", False)]),
        (("events", 0, "time", "ahead"), "1h", []),
        (("events", 0, "dedupe", "memory_max"), "1GiB", []),
        (
            ("events", 0, "dedupe", "memory_max"),
            "2GiB",
            [("changed", "event", "Ride", "nothing", False)],
        ),
        (("events", 0, "on_gap"), "fail", [("changed", "event", "Ride", "nothing", False)]),
        (("tables", 1, "on_gap"), "rebuild", [("changed", "table", "Fleet", "nothing", False)]),
        (
            ("events", 0, "time", "ahead"),
            "5m",
            [
                ("changed", "event", "Ride", "nothing", False),
                ("changed", "table", "Fleet", "rebuilt", False),
                ("changed", "table", "RiderFeatures", "rebuilt", False),
            ],
        ),
        (
            ("events", 0, "fields", "new"),
            {"type": "str", "optional": True},
            [("changed", "event", "Ride", "nothing", False)],
        ),
        (
            ("events", 0, "fields", "seats", "type"),
            "f64",
            [
                ("changed", "event", "Ride", "nothing", True),
                ("changed", "table", "RiderFeatures", "rebuilt", False),
            ],
        ),
        (
            ("events", 0, "topic"),
            "other",
            [
                ("changed", "event", "Ride", "nothing", True),
                ("changed", "table", "Fleet", "rebuilt", False),
                ("changed", "table", "RiderFeatures", "rebuilt", False),
            ],
        ),
        (
            ("derived", 0, "steps", 0, "where"),
            "cancelled",
            [
                ("changed", "derived", "PaidRide", "nothing", False),
                ("changed", "table", "RiderFeatures", "rebuilt", False),
            ],
        ),
    ],
)
def test_each_change_has_its_cost(path: tuple[str | int, ...], to: Any, wanted: list[Any]) -> None:
    assert summary(after(*path, to=to)) == wanted


def test_a_new_table_is_one_change() -> None:
    empty = Definition()

    assert summary(list(differences(empty, OLD))) == [
        ("added", "event", "Ride", "nothing", False),
        ("added", "derived", "PaidRide", "nothing", False),
        ("added", "table", "Fleet", "rebuilt", False),
        ("added", "table", "RiderFeatures", "rebuilt", False),
    ]
    removed = differences(OLD, empty)
    assert all(change.is_destructive for change in removed)


def test_what_is_rebuilt_from_a_topic_without_all_its_records_may_be_lost() -> None:
    (window,) = after(*FEATURES, "rides", "window", to="1h", short=("rides",))
    (added,) = after(*FEATURES, "new", to={"op": "count"}, short=("rides",))
    (other,) = after(*FEATURES, "rides", "window", to="1h", short=("others",))

    assert (window.cost, window.is_destructive) == ("lost", True)
    assert (added.cost, added.is_destructive) == ("rebuilt", False)
    assert "still has" in added.why
    assert other.cost == "rebuilt"


def test_a_required_field_needs_force_since_events_without_it_were_valid() -> None:
    for to in ("str", None):
        field = "new" if to else "extra"
        path = ("events", 0, "fields", field)
        document = changed(DOCUMENT, *path, to=to)
        if to is None:
            document = changed(document, "derived", 0, "steps", 5, to=None)
        changes = differences(OLD, Definition.parse(document, kinds=KINDS))

        assert changes[0].is_destructive
        assert field in changes[0].why


def test_a_change_says_what_was_and_what_is() -> None:
    (change,) = after(*FEATURES, "rides_1h", "window", to={"tumbling": "1h"})

    assert change.members == {"window": ("1h", {"tumbling": "1h"})}
    assert change.to_json() == {
        "change": "changed",
        "node": "feature",
        "name": "RiderFeatures.rides_1h",
        "cost": "rebuilt",
        "is_destructive": False,
        "why": "it is computed in another way",
        "members": {"window": {"from": "1h", "to": {"tumbling": "1h"}}},
    }


def test_destructive_changes_need_force() -> None:
    check_changes(after(*FEATURES, "new", to={"op": "count"}))
    with pytest.raises(ForceRequired, match=r"'RiderFeatures.rides' would be removed") as caught:
        check_changes(after(*FEATURES, "rides", to=None))

    assert caught.value.changes[0]["cost"] == "lost"


def test_a_parameter_that_is_spelled_out_costs_nothing() -> None:
    plain = changed(DOCUMENT, *FEATURES, "p90", "q", to=None)
    spelled = changed(DOCUMENT, *FEATURES, "p90", "q", to=0.5)
    old, new = (Definition.parse(one, kinds=KINDS) for one in (plain, spelled))

    (change,) = differences(old, new)

    assert (change.cost, change.is_destructive, change.why) == ("nothing", False, "its values stay")
