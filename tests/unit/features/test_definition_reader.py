"""The JSON of definitions is read strictly: what is wrong is named with its path."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import InvalidDefinition
from penstock.features.definition_nodes import AHEAD_MS, EventTime
from penstock.features.definition_reader import read_nodes
from tests.unit.features.feature_kinds import DOCUMENT, KINDS, changed

TABLE = ("tables", 0)
DECADE_MS = 3650 * 86_400_000
RIDES = (*TABLE, "features", "rides_1h")


@pytest.mark.parametrize(
    ("path", "to", "place", "why"),
    [
        (("tabels",), [], "", "unknown member 'tabels'; did you mean 'tables'?"),
        (("events",), {}, "events", "expected an array, not {}"),
        (("events", 0), [], "events[0]", "expected an object, not []"),
        (("events", 0, "name"), None, "events[0]", "'name' is missing"),
        (("events", 0, "name"), "a b", "events.a b.name", "invalid name 'a b'"),
        (("events", 0, "fields"), None, "events.Ride", "'fields' is missing"),
        (("events", 0, "fields"), {}, "events.Ride.fields", "at least one field"),
        (("events", 0, "fields", "a-b"), "str", "events.Ride.fields", "invalid name 'a-b'"),
        (("events", 0, "fields", "fare"), "int", "events.Ride.fields.fare", "unknown type 'int'"),
        (("events", 0, "fields", "fare"), 5, "events.Ride.fields.fare", "unknown type 5"),
        (
            ("events", 0, "fields", "seats", "optional"),
            1,
            "events.Ride.fields.seats.optional",
            "true or",
        ),
        (
            ("events", 0, "fields", "seats", "nullable"),
            True,
            "events.Ride.fields.seats",
            "'nullable'",
        ),
        (("events", 0, "topic"), 5, "events.Ride.topic", "expected a name, not 5"),
        (("events", 0, "sync"), "always", "events.Ride.sync", "'periodic' or 'per_event'"),
        (("events", 0, "cold_after"), "1w", "events.Ride.cold_after", "invalid duration '1w'"),
        (("events", 0, "on_gap"), "ignore", "events.Ride.on_gap", "'accept', 'rebuild', 'fail'"),
        ((*TABLE, "on_gap"), [], "tables.RiderFeatures.on_gap", "invalid on_gap []"),
        (("events", 0, "time"), "at", "events.Ride.time", "expected an object"),
        (("events", 0, "time", "field"), None, "events.Ride.time", "'field' is missing"),
        (("events", 0, "time", "lateness"), "5", "events.Ride.time.lateness", "invalid duration"),
        (("events", 0, "time", "ahead"), "-1s", "events.Ride.time.ahead", "invalid duration"),
        (("events", 0, "time", "ahead"), True, "events.Ride.time.ahead", "invalid duration"),
        (
            ("events", 0, "dedupe", "memory_max"),
            "1KiB",
            "events.Ride.dedupe.memory_max",
            "expected 1MiB to",
        ),
        (("events", 0, "dedupe", "window"), None, "events.Ride.dedupe", "'window' is missing"),
        (("events", 0, "dedupe", "window"), "0s", "events.Ride.dedupe.window", "invalid window"),
        (("derived", 0, "from"), None, "derived.PaidRide", "'from' is missing"),
        (
            ("derived", 0, "steps", 0, "op"),
            "filer",
            "derived.PaidRide.steps[0].op",
            "mean 'filter'",
        ),
        (
            ("derived", 0, "steps", 0, "where"),
            "a b",
            "derived.PaidRide.steps[0].where",
            "an operator",
        ),
        (("derived", 0, "steps", 0, "where"), 5, "derived.PaidRide.steps[0].where", "is a text"),
        (
            ("derived", 0, "steps", 0, "expr"),
            "a",
            "derived.PaidRide.steps[0]",
            "unknown member 'expr'",
        ),
        (
            ("derived", 0, "steps", 1, "columns", "per_seat"),
            "(",
            "derived.PaidRide.steps[1].columns.per_seat",
            "ends",
        ),
        (
            ("derived", 0, "steps", 2, "fields", "rider"),
            "9",
            "derived.PaidRide.steps[2].fields.rider",
            "name",
        ),
        (
            ("derived", 0, "steps", 3, "fields", "fare"),
            "json",
            "derived.PaidRide.steps[3].fields.fare",
            "type",
        ),
        (
            ("derived", 0, "steps", 4, "values", "seats"),
            [],
            "derived.PaidRide.steps[4].values.seats",
            "invalid constant []",
        ),
        (
            ("derived", 0, "steps", 5, "fields"),
            "extra",
            "derived.PaidRide.steps[5].fields",
            "an array",
        ),
        (
            (*TABLE, "ky"),
            ["who"],
            "tables.RiderFeatures",
            "unknown member 'ky'; did you mean 'key'?",
        ),
        ((*TABLE, "key"), "who", "tables.RiderFeatures.key", "expected an array"),
        ((*TABLE, "key"), ["a"] * 17, "tables.RiderFeatures.key", "17 items: expected at most 16"),
        (
            (*TABLE, "features", "a b"),
            {"op": "count"},
            "tables.RiderFeatures.features",
            "name 'a b'",
        ),
        ((*RIDES, "op"), None, "tables.RiderFeatures.features.rides_1h", "'op' is missing"),
        ((*RIDES, "op"), "cuont", "tables.RiderFeatures.features.rides_1h.op", "mean 'count'"),
        ((*RIDES, "windw"), "1h", "tables.RiderFeatures.features.rides_1h", "mean 'window'"),
        ((*RIDES, "field"), "fare", "tables.RiderFeatures.features.rides_1h", "member 'field'"),
        ((*RIDES, "window"), "1w", "tables.RiderFeatures.features.rides_1h.window", '"30m"'),
        (
            (*RIDES, "where"),
            "fare >",
            "tables.RiderFeatures.features.rides_1h.where",
            "character 7",
        ),
        ((*TABLE, "features", "p90", "q"), 1.5, "tables.RiderFeatures.features.p90.q", "at most 1"),
        (
            (*TABLE, "features", "p90", "field"),
            5,
            "tables.RiderFeatures.features.p90.field",
            "name, not 5",
        ),
        ((*TABLE, "name"), "Ride", "tables.Ride", "the name 'Ride' is declared twice"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(
    path: tuple[str | int, ...], to: Any, place: str, why: str
) -> None:
    document = changed(DOCUMENT, *path, to=to)

    with pytest.raises(InvalidDefinition) as caught:
        read_nodes(document, KINDS)

    assert caught.value.path == place
    assert why in caught.value.why
    assert caught.value.reason
    assert str(caught.value).startswith(place)


@pytest.mark.parametrize(
    "document", [None, [], "x", 5, {5: []}, {"events": [{"name": "x" * 10**6}]}]
)
def test_any_document_is_read_or_refused(document: object) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        read_nodes(document, KINDS)

    assert len(str(caught.value)) < 500


def test_values_of_any_depth_and_size_are_refused_anywhere() -> None:
    deep: Any = []
    for _ in range(2000):
        deep = [deep]

    for path in (
        ("events",),
        ("events", 0, "name"),
        ("events", 0, "fields", "fare"),
        ("events", 0, "time", "lateness"),
        ("derived", 0, "steps", 0, "op"),
        ("derived", 0, "steps", 4, "values", "seats"),
        (*TABLE, "key", 0),
        (*RIDES, "op"),
        (*RIDES, "window"),
        (*RIDES, "where"),
        (*TABLE, "features", "p90", "q"),
    ):
        for value in (deep, {"a": deep}, 10**5000, float("nan"), b"x"):
            document = changed(DOCUMENT, *path, to=0)  # deepcopy would recurse
            place: Any = document
            for member in path[:-1]:
                place = place[member]
            place[path[-1]] = value
            with pytest.raises(InvalidDefinition) as caught:
                read_nodes(document, KINDS)

            assert len(str(caught.value)) < 600


def test_a_number_of_things_is_bounded() -> None:
    fields = {f"f{n}": "str" for n in range(1025)}
    with pytest.raises(InvalidDefinition, match="1025 members: expected at most 1024"):
        read_nodes({"events": [{"name": "A", "fields": fields}]}, KINDS)
    with pytest.raises(InvalidDefinition, match="at most 256"):
        read_nodes(changed(DOCUMENT, "derived", 0, "steps", to=[{}] * 257), KINDS)


def test_lateness_may_be_nothing() -> None:
    for none in ("0ms", "0s", 0):
        nodes = read_nodes(changed(DOCUMENT, "events", 0, "time", "lateness", to=none), KINDS)

        time = nodes.events["Ride"].time
        assert time is not None
        assert time.lateness_ms == 0


@pytest.mark.parametrize(
    ("ahead", "ahead_ms"),
    [(None, AHEAD_MS), ("0s", 0), (0, 0), ("90s", 90_000), ("3650d", DECADE_MS)],
)
def test_a_time_may_be_an_hour_ahead_unless_it_says_otherwise(ahead: Any, ahead_ms: int) -> None:
    given = {"field": "at"} | ({} if ahead is None else {"ahead": ahead})

    time = read_nodes(changed(DOCUMENT, "events", 0, "time", to=given), KINDS).events["Ride"].time

    assert time == EventTime("at", 0, ahead_ms)


def test_the_time_of_the_record_may_be_named() -> None:
    named = changed(DOCUMENT, "events", 0, "time", to={"field": "$ts"})

    assert read_nodes(named, KINDS) == read_nodes(
        changed(DOCUMENT, "events", 0, "time", to=None), KINDS
    )
    for member in ("lateness", "ahead"):
        timed = changed(named, "events", 0, "time", member, to="5m")
        with pytest.raises(InvalidDefinition, match=r"never late and never ahead") as refused:
            read_nodes(timed, KINDS)
        assert refused.value.path == f"events.Ride.time.{member}"
