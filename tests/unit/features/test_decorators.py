"""Definitions as Python code, the way a user writes them."""

from __future__ import annotations

from typing import Any, Optional

import pytest

from penstock import features
from penstock.errors import InvalidArgument, InvalidDefinition
from penstock.features import col
from penstock.features.definition_nodes import EventTime


@features.event(
    topic="rides",
    time="at",
    lateness="5m",
    dedupe="id",
    dedupe_window="1m",
    dedupe_memory_max="64MiB",
    cold_after="30d",
)
class Ride:
    id: str
    rider: str
    fare: float
    seats: Optional[int]  # noqa: UP045 - older than the next one
    city: str | None
    cancelled: bool
    at: int
    extra: dict[str, Any]


@features.event
def PaidRide(r: Ride):  # type: ignore[no-untyped-def, valid-type]
    return r.filter(~col("cancelled")).with_columns(per_seat=col("fare") / col("seats"))


@features.table(key="rider", cold_after="1d")
def RiderFeatures(r: PaidRide):  # type: ignore[no-untyped-def, valid-type]
    return r.group_by("rider").agg(
        rides_1h=features.count(window="1h"),
        spend=features.sum("per_seat", window=features.tumbling("1d"), where=col("fare") > 5),
    )


@features.table
def Fleet(r: Ride):  # type: ignore[no-untyped-def, valid-type]
    return r.agg(rides=features.count())


def test_a_definition_has_what_its_tables_are_built_on() -> None:
    found = features.definition(RiderFeatures, Fleet)

    assert list(found.events) == ["Ride"]
    assert list(found.derived) == ["PaidRide"]
    assert list(found.tables) == ["RiderFeatures", "Fleet"]
    assert found == features.Definition.parse(features.document(Fleet, Ride, RiderFeatures))
    assert found.plan("RiderFeatures").output_schema == {
        "rider": "str",
        "rides_1h": "i64",
        "spend": "f64",
    }
    assert found.plan("Fleet").key == ()


def test_the_annotations_and_options_of_a_class_are_an_event() -> None:
    (node,) = features.document(Ride)["events"]

    assert node == {
        "name": "Ride",
        "topic": "rides",
        "fields": {
            "id": "str",
            "rider": "str",
            "fare": "f64",
            "seats": {"type": "i64", "optional": True},
            "city": {"type": "str", "optional": True},
            "cancelled": "bool",
            "at": "i64",
            "extra": "json",
        },
        "time": {"field": "at", "lateness": "5m"},
        "dedupe": {"field": "id", "window": "1m", "memory_max": "64MiB"},
        "cold_after": "30d",
    }


def test_events_may_be_declared_inside_of_a_function() -> None:
    @features.event(sync="per_event")
    class Inner:
        a: int

    @features.event(name="Renamed")
    def Derived(events: Inner):  # type: ignore[no-untyped-def, valid-type]
        return events.filter(col("a") > 1)

    @features.table(key=["a"], name="Named")
    def Counted(events: Derived):  # type: ignore[no-untyped-def, valid-type]
        return events.agg(n=features.count())

    found = features.definition(Counted)

    assert found.events["Inner"].sync == "per_event"
    assert found.tables["Named"].upstream == "Renamed"
    assert found.tables["Named"].key == ("a",)


def test_the_upstream_may_be_given_in_place_of_an_annotation() -> None:
    @features.event(upstream=Ride)
    def Derived(events: features.EventChain) -> features.EventChain:
        return events.drop("extra")

    @features.table(upstream=Derived)
    def Counted(events: features.EventChain) -> object:
        return events.group_by(bucket=col("at") / 1000).agg(n=features.count())

    assert features.definition(Counted).plan("Counted").key_types == ("i64",)


def test_fields_of_a_base_class_come_first() -> None:
    class Base:
        a: int

    @features.event
    class Child(Base):
        b: str

    assert list(features.document(Child)["events"][0]["fields"]) == ["a", "b"]


def test_two_events_of_one_name_are_refused() -> None:
    @features.event(name="Ride")
    class Other:
        a: int

    with pytest.raises(InvalidDefinition, match="declared twice"):
        features.definition(Ride, Other)


class Wrong:
    a: complex


class Empty:
    pass


def unannotated(r):  # type: ignore[no-untyped-def]
    return r


def unknown(r: NoSuchName):  # type: ignore[no-untyped-def, name-defined] # noqa: F821
    return r


def grouped_by_city(r: Ride):  # type: ignore[no-untyped-def, valid-type]
    return r.group_by("city").agg(n=features.count())


def not_aggregated(r: Ride):  # type: ignore[no-untyped-def, valid-type]
    return r


def nothing(r: Ride) -> None:  # type: ignore[valid-type]
    return None


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: features.event(Wrong), "field 'a': .*complex.* is no type of a field"),
        (lambda: features.event(Empty), "has no fields"),
        (lambda: features.event(5), "5 cannot be declared"),
        (lambda: features.event(unannotated), "one parameter, annotated with its event"),
        (lambda: features.event(unknown), "has an unknown name: name 'NoSuchName'"),
        (lambda: features.event(nothing), "returned None: expected a chain"),
        (lambda: features.event(topic="a")(not_aggregated), "options of the event"),
        (lambda: features.table(not_aggregated), r"expected group_by\(…\).agg"),
        (lambda: features.table(key="rider")(grouped_by_city), "say it once"),
        (lambda: features.table(upstream=Empty)(nothing), "expected a declared event"),
        (lambda: features.definition(Empty), "no declaration"),
        (lambda: features.definition(features.table(grouped_by_city)), None),
    ],
)
def test_what_cannot_be_declared_is_refused(call: Any, why: str | None) -> None:
    if why is None:
        assert call().tables
        return
    with pytest.raises(InvalidArgument, match=why):
        call()


def test_an_option_that_does_not_fit_is_named_with_its_path() -> None:
    with pytest.raises(InvalidDefinition, match=r"events\.Ride\.dedupe: 'window' is missing"):
        features.definition(
            features.event(dedupe="id", name="Ride")(
                type("X", (), {"__annotations__": {"id": str}})
            )
        )


def test_what_the_package_offers() -> None:
    assert set(features.__all__) <= set(dir(features))
    assert {"count", "geo_distance", "ema"} <= set(dir(features))
    assert features.ema("fare", half_life="1m").members["op"] == "ewma"
    with pytest.raises(AttributeError, match="no attribute or operator 'cuont'"):
        _ = features.cuont


def test_a_time_may_be_bounded_and_the_time_of_the_record_may_be_named() -> None:
    @features.event(time="at", ahead="5m")
    class Timed:
        at: int

    @features.event(time="$ts")
    class Untimed:
        at: int

    found = features.definition(Timed, Untimed).events

    assert found["Timed"].time == EventTime("at", ahead_ms=300_000)
    assert found["Untimed"].time is None


def test_a_gap_policy_may_be_declared() -> None:
    @features.event(on_gap="fail")
    class Strict:
        a: int

    @features.table(on_gap="rebuild")
    def Counted(events: Strict):  # type: ignore[no-untyped-def, valid-type]
        return events.agg(n=features.count())

    found = features.definition(Counted)

    assert found.events["Strict"].on_gap == "fail"
    assert found.tables["Counted"].on_gap == found.plan("Counted").on_gap == "rebuild"
