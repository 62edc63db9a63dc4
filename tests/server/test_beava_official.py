"""The official client of beava 0.0.6, unmodified, over HTTP and over TCP."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import beava as bv
import pytest

import penstock
from tests.support.beava import BeavaServer
from tests.support.beava_operators import AGES, OPERATORS, ROWS, Seen


@bv.event
class Ride:
    rider: str
    city: str
    fare: float
    seats: int
    cancelled: bool


@bv.event
def PaidRide(ride: Ride) -> Any:
    return ride.filter(~bv.col("cancelled")).with_columns(per_seat=bv.col("fare") / bv.col("seats"))


@bv.table(key="rider")
def RiderFeatures(paid: PaidRide) -> Any:
    return paid.group_by("rider").agg(
        rides=bv.count(window="1h"),
        spend=bv.sum("fare", window="1d"),
        best_seat=bv.max("per_seat"),
    )


@bv.table(key=["city", "seats"])
def CityFeatures(ride: Ride) -> Any:
    return ride.group_by("city", "seats").agg(rides=bv.count())


@bv.table(key="seats")
def SeatFeatures(ride: Ride) -> Any:
    return ride.group_by("seats").agg(rides=bv.count(), all_fares=bv.sum("fare"))


@bv.table
def Fleet(ride: Ride) -> Any:
    return ride.agg(all_rides=bv.count())


EVERYTHING = (Ride, PaidRide, RiderFeatures, CityFeatures, SeatFeatures, Fleet)


def ride(rider: str, fare: float, **other: Any) -> dict[str, Any]:
    return {
        "rider": rider,
        "city": "Oslo",
        "fare": fare,
        "seats": 2,
        "cancelled": False,
    } | other


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BeavaServer]:
    running = BeavaServer(tmp_path_factory.mktemp("beava")).start()
    yield running
    running.server.close()


@pytest.fixture(params=["http", "tcp"])
def app(server: BeavaServer, request: pytest.FixtureRequest) -> Iterator[bv.App]:
    with bv.App(server.url(request.param)) as client:
        client.reset()
        yield client


def test_rows_have_what_was_pushed_before(app: bv.App) -> None:
    registered = app.register(*EVERYTHING)
    acks = [app.push("Ride", ride("ana", fare)) for fare in (10.0, 30.0)]
    app.push("Ride", ride("ana", 99.0, cancelled=True))
    app.push("Ride", ride("bo", 7.5, city="Bergen", seats=1))

    assert registered["added"] == [one._name for one in EVERYTHING]
    assert [ack["ack_lsn"] for ack in acks] == [1, 2]
    assert app.get("RiderFeatures", "ana") == {"rides": 2, "spend": 40.0, "best_seat": 15.0}
    assert app.get("RiderFeatures", "ana", features=["rides"]) == {"rides": 2}
    assert app.get("RiderFeatures", "cleo") == {}
    assert app.get("Fleet") == {"all_rides": 4}
    assert app.batch_get(
        [
            ("RiderFeatures", "bo"),
            ("Fleet", ""),
            ("RiderFeatures", "ana", ["spend"]),
            ("Nowhere", "x"),
        ]
    ) == [
        {"rides": 1, "spend": 7.5, "best_seat": 7.5},
        {"all_rides": 4},
        {"spend": 40.0},
        {
            "error": {
                "code": "unknown_table",
                "message": "table 'Nowhere' is not a registered aggregation",
            }
        },
    ]


def test_keys_are_texts_arrays_and_typed_columns(app: bv.App) -> None:
    app.register(*EVERYTHING)
    app.push("Ride", ride("ana", 10.0, city="a|b"))
    app.push("Ride", ride("ana", 10.0))

    assert app.get("CityFeatures", "Oslo|2") == {"rides": 1}
    assert app.get("CityFeatures", ["a|b", 2]) == {"rides": 1}
    assert app.get("SeatFeatures", "2") == {"rides": 2, "all_fares": 20.0}
    assert app.batch_get([("SeatFeatures", 2), ("SeatFeatures", [2])])[0]["rides"] == 2


def test_a_registration_adds_to_the_one_before_and_is_built_from_history(app: bv.App) -> None:
    app.register(Ride, Fleet)
    app.push("Ride", ride("ana", 10.0))
    before = app.ping()["registry_version"]

    later = app.register(SeatFeatures)

    assert later["registry_version"] == before + 1
    assert app.get("Fleet") == {"all_rides": 1}
    assert app.get("SeatFeatures", "2") == {"rides": 1, "all_fares": 10.0}
    assert app.register(Ride, Fleet)["registry_version"] == before + 1


def test_what_loses_something_needs_force(app: bv.App) -> None:
    app.register(*EVERYTHING)
    app.push("Ride", ride("ana", 10.0))

    @bv.table(key="seats")
    def SeatFeatures(ride: Ride) -> Any:
        return ride.group_by("seats").agg(rides=bv.count())

    diff = app.register(SeatFeatures, dry_run=True)["diff"]
    with pytest.raises(bv.RegistrationError, match="force"):
        app.register(SeatFeatures)
    app.register(SeatFeatures, force=True)

    removal = {"kind": "agg_removal", "table": "SeatFeatures", "agg": "all_fares"}
    assert diff == {"additive": [], "destructive": [removal], "already_present": []}
    assert app.get("SeatFeatures", "2") == {"rides": 1}


@pytest.mark.parametrize(
    ("event", "change", "code"),
    [
        ("Nothing", {}, "event_not_found"),
        ("PaidRide", {}, "event_not_found"),
        ("Ride", {"fare": "much"}, "invalid_event"),
        ("Ride", {"seats": 1.5}, "invalid_event"),
        ("Ride", {"fare": None}, "invalid_event"),
        ("Ride", {"tip": 1}, "unknown_field_v0"),
        ("Ride", {"event_time": 1}, "unknown_field_event_time_v0"),
        ("Ride", {"city": "Os\tlo"}, "control_character_in_string"),
    ],
)
def test_a_wrong_event_is_refused_with_the_code_of_the_original(
    app: bv.App, event: str, change: dict[str, Any], code: str
) -> None:
    app.register(*EVERYTHING)

    with pytest.raises(bv.RegistrationError) as caught:
        app.push(event, ride("ana", 1.0) | change)

    assert caught.value.code == code
    assert app.get("Fleet") == {}


@pytest.mark.parametrize(
    ("table", "key", "features", "code"),
    [
        ("Nowhere", "ana", None, "unknown_table"),
        ("RiderFeatures", "ana", ["rods"], "feature_not_found"),
        ("CityFeatures", "Oslo", None, "key_parse_failure"),
        ("SeatFeatures", "two", None, "key_parse_failure"),
        ("Fleet", "ana", None, "key_parse_failure"),
    ],
)
def test_a_wrong_read_is_refused_with_the_code_of_the_original(
    app: bv.App, table: str, key: Any, features: list[str] | None, code: str
) -> None:
    app.register(*EVERYTHING)

    with pytest.raises(bv.RegistrationError) as caught:
        app.get(table, key, features=features)

    assert caught.value.code == code


def test_a_wrong_operator_is_refused_with_its_place(app: bv.App) -> None:
    @bv.table(key="rider")
    def Wrong(ride: Ride) -> Any:
        return ride.group_by("rider").agg(spend=bv.sum("fair", window="1h"))

    with pytest.raises(bv.RegistrationError) as caught:
        app.register(Ride, Wrong)

    assert caught.value.code == "aggregation_unknown_field"
    assert caught.value.path == "nodes[1].ops[0].agg.spend.params.field"


CITY, FARE, SEATS = bv.col("city"), bv.col("fare"), bv.col("seats")
EXPRESSIONS: dict[str, tuple[Any, bool]] = {
    "quotes": (CITY == 'L\'Escala "port"', True),
    "another_alphabet": (CITY == "Tromsø", False),
    "exponent": (FARE > 1e-07, True),
    "large": (FARE < 1e22, True),
    "negative": (FARE - 20 < -5, True),
    "arithmetic": ((FARE * 2 + 5) / 5 == SEATS + 3, True),
    "integers": (SEATS / 2 == 1, True),
    "reversed": (10 - SEATS > 2 * SEATS, True),
    "logic": (~((FARE > 50) | bv.col("cancelled")) & (SEATS != 3), True),
    "null": (~CITY.isnull(), True),
    "cast": (FARE.cast("int").cast("str") == "10", True),
    "literal": (bv.lit(True) & (bv.lit(None) == bv.lit(None)), True),
    "division_by_zero": (FARE / (SEATS - 2) > 0, False),
}


@bv.table(key="rider")
def Expressions(ride: Ride) -> Any:
    return ride.group_by("rider").agg(
        **{name: bv.has_seen(where=one) for name, (one, _) in EXPRESSIONS.items()}
    )


def test_expressions_mean_what_they_say_in_python(app: bv.App) -> None:
    app.register(Ride, Expressions)
    app.push("Ride", ride("ana", 10.0, city='L\'Escala "port"'))

    assert app.get("Expressions", "ana") == {
        name: expected for name, (_, expected) in EXPRESSIONS.items()
    }


@bv.event
class Sample:
    user: str
    number: float
    word: str
    flag: bool
    lat: float
    lon: float


@bv.table(key="user")
def AllOperators(sample: Sample) -> Any:
    return sample.group_by("user").agg(**{name: one for name, (one, _) in OPERATORS.items()})


def is_close(found: Any, value: Any) -> bool:
    """Sums of floats depend on the order of their terms."""
    is_number = isinstance(value, float) and isinstance(found, (int, float))
    return math.isclose(found, value, rel_tol=1e-6) if is_number else bool(found == value)


def test_all_54_operators_have_their_values(server: BeavaServer, app: bv.App) -> None:
    app.register(Sample, AllOperators)
    for values in ROWS:
        app.push("Sample", {"user": "ana", **dict(zip(Seen._fields[1:], values, strict=True))})
    before_ms = time.time_ns() // 1_000_000
    row = app.get("AllOperators", "ana")
    after_ms = time.time_ns() // 1_000_000

    host, port = server.server.connect_to
    with penstock.connect(f"http://{host}:{port}") as client:
        records = client.read("Sample", after=0).records
    events = [Seen(one.ts, *values) for one, values in zip(records, ROWS, strict=True)]
    assert len(OPERATORS) == 54
    assert row.keys() == OPERATORS.keys()
    wrong = {}
    for name, (_, expected) in OPERATORS.items():
        value = expected(events)
        if name in AGES:
            is_right = before_ms - value <= row[name] <= after_ms - value
        elif name == "reservoir_sample":
            is_right = sorted(row[name]) == sorted(value)
        else:
            is_right = is_close(row[name], value)
        if not is_right:
            wrong[name] = (row[name], value)
    assert not wrong


def test_a_restart_keeps_definition_rows_and_known_ids(tmp_path: Path) -> None:
    running = BeavaServer(tmp_path / "restarted").start()
    node = {
        "kind": "event",
        "name": "Order",
        "schema": {"fields": {"id": "str", "user": "str", "total": "f64"}, "optional_fields": []},
        "dedupe_key": "id",
        "dedupe_window_ms": 3_600_000,
    }

    @bv.event
    class Order:
        id: str
        user: str
        total: float

    @bv.table(key="user")
    def OrderFeatures(order: Order) -> Any:
        return order.group_by("user").agg(orders=bv.count(), total=bv.sum("total"))

    order = {"id": "o1", "user": "ana", "total": 5.0}
    try:
        with bv.App(running.url("tcp")) as app:
            app.register(node, OrderFeatures)
            assert app.register(Order, OrderFeatures)["added"] == []  # which cannot say dedupe
            first = app.push("Order", order)
            version = app.ping()["registry_version"]
        running.server.kill()
        running.start()
        with bv.App(running.url("http")) as app:
            assert app.ping() == {"pong": True, "registry_version": version}
            assert app.push("Order", order)["ack_lsn"] == first["ack_lsn"]
            assert app.get("OrderFeatures", "ana") == {"orders": 1, "total": 5.0}
    finally:
        running.server.close()
