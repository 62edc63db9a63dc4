"""Features through both clients, against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest

import penstock
from penstock import features
from penstock.client.async_features import AsyncFeatures
from penstock.client.features import ClientFeatures
from penstock.errors import (
    ForceRequired,
    HistoryGone,
    InvalidArgument,
    InvalidDefinition,
    SchemaMismatch,
    TableNotFound,
)
from penstock.feature_types import FeatureError, FeatureRead
from tests.server.conftest import Start
from tests.support.serving import Server

COUNT = {"op": "count", "window": "1h"}
SUM = {"op": "sum", "field": "fare"}


@features.event(topic="rides", dedupe="id", dedupe_window="1h")
class Ride:
    id: int
    rider: str
    fare: float


@features.table(key="rider")
def Riders(rides: Ride) -> Any:
    return rides.agg(n=features.count(), spend=features.sum("fare"))


@features.table
def Fleet(rides: Ride) -> Any:
    return rides.agg(all_rides=features.count())


def ride(number: int, rider: str = "ana", fare: float = 1.5) -> dict[str, Any]:
    return {"id": number, "rider": rider, "fare": fare}


def url_of(server: Server) -> str:
    return f"http://127.0.0.1:{server.address[1]}"


class _Blocking:
    """The asyncio client's features, waited for; so that one test tries both clients."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self._client = self._runner.run(self._opened(url))
        self._features: AsyncFeatures = self._client.features
        self._watches: list[AsyncGenerator[dict[str, Any], None]] = []

    def __getattr__(self, verb: str) -> Any:
        return lambda *args, **named: self._runner.run(
            getattr(self._features, verb)(*args, **named)
        )

    def watch(self, *args: Any, **named: Any) -> Iterator[dict[str, Any]]:
        rows = self._features.watch(*args, **named)
        self._watches.append(rows)
        while True:
            try:
                yield self._runner.run(anext(rows))
            except StopAsyncIteration:
                return

    def close(self) -> None:
        for rows in self._watches:
            self._runner.run(rows.aclose())
        self._runner.run(self._client.close())
        self._runner.close()

    @staticmethod
    async def _opened(url: str) -> penstock.AsyncClient:
        return penstock.AsyncClient(url)


class _Threads:
    """The features of the other client."""

    def __init__(self, url: str) -> None:
        self._client = penstock.connect(url)
        self._features: ClientFeatures = self._client.features

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._features, verb)

    def close(self) -> None:
        self._client.close()


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for this file: its registry is the server's, so tests reset what they use."""
    server = Server(tmp_path_factory.mktemp("features")).start()
    yield server
    server.close()


@pytest.fixture(params=[_Threads, _Blocking], ids=["threads", "asyncio"])
def caller(request: pytest.FixtureRequest, held: Server) -> Iterator[Any]:
    one = request.param(url_of(held))
    one.register({}, whole=True, force=True)
    with penstock.connect(url_of(held)) as client:
        client.drop("rides")
    yield one
    one.close()


def test_what_is_registered_is_pushed_to_and_read(caller: Any) -> None:
    registered = caller.register(Riders, Fleet, wait_s=30)
    one = caller.push("Ride", ride(1))
    many = caller.push("Ride", [ride(2, "bo"), ride(1), ride(3)], sync="per_event")

    assert (registered.is_changed, registered.tables) == (
        True,
        {"Riders": "ready", "Fleet": "ready"},
    )
    assert (one.topic, one.count, one.first_seq) == ("rides", 1, 1)
    assert (many.count, many.deduped, many.last_seq) == (2, 1, 3)
    assert caller.get("Riders", "ana") == {"n": 2, "spend": 3.0}
    assert caller.get("Riders", ("bo",), ["spend"]) == {"spend": 1.5}
    assert caller.get("Riders", "nobody") == {}
    assert caller.get("Fleet") == {"all_rides": 3}
    assert caller.get("Riders", "ana", as_of_seq=1) == {"n": 1, "spend": 1.5}
    assert caller.get("Riders", "ana", as_of_ts=one.ts - 1) == {}


def test_a_row_whose_history_is_gone_is_refused_with_the_same_error(
    caller: Any, held: Server
) -> None:
    caller.register(Riders, wait_s=30)
    caller.push("Ride", [ride(number) for number in range(5)])
    with penstock.connect(url_of(held)) as client:
        client.delete("rides", before_seq=4)

    with pytest.raises(HistoryGone, match="records 1 to 3 of topic 'rides' are gone") as gone:
        caller.get("Riders", "ana", as_of_seq=4)
    assert (gone.value.topic, gone.value.earliest_seq) == ("rides", 4)
    with pytest.raises(InvalidArgument, match="as_of_seq 6: the newest record"):
        caller.get("Riders", "ana", as_of_seq=6)
    assert caller.get("Riders", "ana", as_of_seq=5) == {"n": 5, "spend": 7.5}


def test_a_dry_run_tells_the_changes_and_makes_none(caller: Any) -> None:
    wanted = caller.register(Riders, dry_run=True)
    version = caller.version()
    first = caller.register(Riders)
    again = caller.register(Riders)

    assert (wanted.is_dry_run, wanted.is_changed) == (True, False)
    assert [change["name"] for change in wanted.changes] == ["Ride", "Riders"]
    assert (first.version, again.version) == (version + 1, version + 1)
    assert (first.is_changed, again.is_changed) == (True, False)
    assert features.Definition.parse(caller.definition()).tables.keys() == {"Riders"}


def test_several_rows_are_read_at_once(caller: Any) -> None:
    caller.register(Riders, Fleet)
    caller.push("Ride", ride(1))

    rows = caller.batch_get([("Riders", "ana"), ("Fleet",), ("Nowhere",), ("Riders", 7)])
    pushed, read = caller.push_and_get("Ride", ride(2), [FeatureRead("Riders", "ana", ["n"])])

    assert rows[:2] == [{"n": 1, "spend": 1.5}, {"all_rides": 1}]
    assert [type(row) for row in rows[2:]] == [FeatureError, FeatureError]
    assert [row.code for row in rows[2:]] == ["table_not_found", "invalid_request"]
    assert rows[3].detail == {"table": "Riders", "field": "rider", "value": 7}
    assert (pushed.last_seq, read) == (2, [{"n": 2}])


def test_tables_show_parts_and_watermarks(caller: Any) -> None:
    caller.register(Riders, Fleet)
    caller.push("Ride", [ride(number) for number in range(10)], sync="per_event")
    caller.get("Riders", "ana")

    tables = caller.tables()
    riders = caller.table("Riders")

    assert [table.name for table in tables] == ["Fleet", "Riders"]
    assert (riders.state, riders.key, riders.features) == ("ready", ["rider"], ["n", "spend"])
    assert riders.watermarks.committed == riders.watermarks.applied == 10
    assert (riders.parts[0].keys, riders.parts[0].counters["events"]) == (1, 10)


def test_errors_have_the_types_of_the_embedded_store(caller: Any) -> None:
    caller.register(Riders)
    table = {"name": "Riders", "from": "Ride", "key": ["rider"]}

    with pytest.raises(InvalidDefinition) as wrong:
        caller.register({"tables": [{**table, "features": {"n": {"op": "cuont"}}}]})
    with pytest.raises(ForceRequired) as forced:
        caller.register({"tables": [{**table, "features": {"n": {"op": "count"}}}]})
    with pytest.raises(TableNotFound) as missing:
        caller.table("Riderz")
    with pytest.raises(InvalidArgument, match="no event"):
        caller.push("Ride", [])

    assert wrong.value.path == "tables.Riders.features.n.op"
    assert [change["name"] for change in forced.value.changes] == ["Riders.spend"]
    assert missing.value.table == "Riderz"
    assert str(missing.value) == "table 'Riderz' does not exist; did you mean 'Riders'?"


@pytest.mark.parametrize(
    ("verb", "arguments", "detail", "message"),
    [
        (
            "push",
            ("Ride", [ride(1), {**ride(2), "fare": "two"}]),
            {"event": "Ride", "field": "fare", "value": "two", "index": 1},
            "invalid event 'Ride' (number 2 of the push): field 'fare' is \"two\", expected a "
            "finite number (f64)",
        ),
        (
            "push",
            ("Ride", {"id": 1, "rider": "ana"}),
            {"event": "Ride", "field": "fare"},
            "invalid event 'Ride': field 'fare' is missing",
        ),
        ("push", ("Rides", ride(1)), {"event": "Rides"}, "did you mean 'Ride'?"),
        ("get", ("Riders", 7), {"table": "Riders", "field": "rider", "value": 7}, "expected str"),
        ("get", ("Riders",), {"table": "Riders"}, "1 key columns (rider)"),
        (
            "get",
            ("Riders", "ana", ["spent"]),
            {"table": "Riders", "feature": "spent"},
            "table 'Riders' has no feature 'spent'; did you mean 'spend'?",
        ),
        (
            "push_and_get",
            ("Ride", [ride(1), []], [("Riders", "ana")]),
            {"event": "Ride", "value": "[]", "index": 1},
            "expected a JSON object",
        ),
    ],
)
def test_what_does_not_fit_is_told_with_its_place_and_nothing_is_applied(
    caller: Any, verb: str, arguments: Any, detail: Any, message: str
) -> None:
    caller.register(Riders)

    with pytest.raises(SchemaMismatch) as refused:
        getattr(caller, verb)(*arguments)

    assert refused.value.detail == detail
    assert message in str(refused.value)
    assert caller.table("Riders").watermarks.committed == 0


def test_a_watch_gives_the_row_and_each_change(caller: Any) -> None:
    caller.register(Riders, Fleet)
    rows = caller.watch("Riders", "ana", ["n"])
    seen = [next(rows)]
    for number in range(3):
        caller.push("Ride", [ride(10 + number), ride(20 + number, "bo")])
        seen.append(next(rows))

    assert seen == [{}, {"n": 1}, {"n": 2}, {"n": 3}]
    assert list(caller.watch("Fleet", timeout_s=0.2)) == [{"all_rides": 6}]


def test_a_watch_ends_with_the_reason_when_its_table_is_removed(caller: Any) -> None:
    caller.register(Riders, Fleet)
    rows = caller.watch("Riders", "ana")
    next(rows)

    caller.register(Fleet, whole=True, force=True)
    caller.push("Ride", ride(1))

    with pytest.raises(TableNotFound):
        next(rows)


@pytest.mark.parametrize("kind", [_Threads, _Blocking], ids=["threads", "asyncio"])
def test_a_watch_goes_on_after_a_lost_connection(start: Start, kind: Any) -> None:
    server = start()
    port = str(server.address[1])
    caller = kind(url_of(server))
    caller.register(Riders)
    rows = caller.watch("Riders", "ana", ["n"])
    first = next(rows)
    caller.push("Ride", ride(1))
    second = next(rows)

    server.kill()
    server.env["PENSTOCK_PORT"] = port
    server.start()
    caller.push("Ride", ride(2))
    third = next(rows)

    caller.close()
    assert [first, second, third] == [{}, {"n": 1}, {"n": 2}]
