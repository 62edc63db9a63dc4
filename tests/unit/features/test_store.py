"""The feature store on a log in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.errors import (
    ForceRequired,
    InvalidArgument,
    ProjectionFailed,
    SchemaMismatch,
    TableNotFound,
)
from penstock.feature_types import FeatureError, FeatureRead
from penstock.features.store import FeatureStore
from penstock.projections.host import ProjectionHost
from penstock.testing.clock import FakeClock
from penstock.testing.fs import MemoryFilesystem

RIDE: dict[str, Any] = {"name": "Ride", "fields": {"rider": "str", "fare": "f64"}}
COUNT: dict[str, Any] = {"op": "count", "window": "1h"}
SUM: dict[str, Any] = {"op": "sum", "field": "fare"}


def definition(**features: Any) -> dict[str, Any]:
    table = {"name": "Riders", "from": "Ride", "key": ["rider"], "features": features}
    return {"events": [RIDE], "tables": [table]}


class Opened:
    """A log that can be closed and opened again."""

    def __init__(self) -> None:
        self.fs = MemoryFilesystem()
        self.clock = FakeClock()
        self.log: Log | None = None
        self.store = self.open()

    def open(self) -> FeatureStore:
        self.close()
        self.log = open_log("/data", fs=self.fs, clock=self.clock, background=False)
        self.store = self.log.core.features.store
        return self.store

    @property
    def projections(self) -> ProjectionHost:
        if self.log is None:
            raise AssertionError("the log is closed")
        host: ProjectionHost = self.log.projections
        return host

    def close(self) -> None:
        if self.log is not None:
            self.log.close()
            self.log = None


@pytest.fixture
def opened() -> Iterator[Opened]:
    here = Opened()
    yield here
    here.close()


def ride(rider: str, fare: float) -> dict[str, Any]:
    return {"rider": rider, "fare": fare}


def test_a_pushed_event_is_in_the_next_read(opened: Opened) -> None:
    store = opened.store
    store.register(definition(n=COUNT, spend=SUM))

    pushed = store.push("Ride", [ride("ana", 1.5), ride("bo", 2), ride("ana", 3)])

    assert (pushed.first_seq, pushed.last_seq, pushed.count) == (1, 3, 3)
    assert store.get("Riders", "ana") == {"n": 2, "spend": 4.5}
    assert store.get("Riders", "ana", ["spend"]) == {"spend": 4.5}
    assert store.get("Riders", "nobody") == {}


def test_a_batch_with_a_wrong_event_appends_nothing(opened: Opened) -> None:
    store = opened.store
    store.register(definition(n=COUNT))

    for wrong in ({"rider": "ana"}, {"rider": 1, "fare": 1}, {**ride("a", 1), "tip": 1}):
        with pytest.raises(SchemaMismatch, match=r"Ride"):
            store.push("Ride", [ride("ana", 1)] * 20 + [wrong])

    assert store.table("Riders").watermarks.committed == 0


def test_a_record_that_was_appended_to_the_topic_may_have_members_that_are_not_declared(
    opened: Opened,
) -> None:
    opened.store.register(definition(n=COUNT, spend=SUM))
    assert opened.log is not None
    odd = {**ride("ana", 2), "tip": 1, "rid": {"er": "bo"}}

    opened.log.append("Ride", [odd, ride("ana", 3)])

    assert opened.store.get("Riders", "ana") == {"n": 2, "spend": 5.0}
    with pytest.raises(SchemaMismatch, match="tip"):
        opened.store.push("Ride", odd)


def test_an_added_feature_is_built_from_history_and_the_others_stay(opened: Opened) -> None:
    store = opened.store
    store.register(definition(n=COUNT))
    store.push("Ride", [ride("ana", 1.5), ride("ana", 3)])

    registered = store.register(definition(n=COUNT, spend=SUM))

    assert (registered.version, registered.is_changed) == (2, True)
    assert [change["name"] for change in registered.changes] == ["Riders.spend"]
    assert store.get("Riders", "ana") == {"n": 2, "spend": 4.5}


def test_a_dry_run_shows_the_changes_and_makes_none(opened: Opened) -> None:
    store = opened.store

    registered = store.register(definition(n=COUNT), dry_run=True)

    assert registered.is_dry_run
    assert registered.changes
    assert store.version == 0
    with pytest.raises(TableNotFound):
        store.get("Riders", "ana")


def test_a_dry_run_shows_also_what_would_lose_state(opened: Opened) -> None:
    store = opened.store
    store.register(definition(n=COUNT))

    shown = store.register(definition(m=COUNT), dry_run=True)

    assert {change["name"]: change["cost"] for change in shown.changes} == {
        "Riders.m": "rebuilt",
        "Riders.n": "lost",
    }
    with pytest.raises(ForceRequired):
        store.register(definition(m=COUNT))


def test_a_definition_that_is_registered_again_changes_nothing(opened: Opened) -> None:
    opened.store.register(definition(n=COUNT))

    again = opened.store.register(definition(n=COUNT))

    assert (again.version, again.is_changed, again.changes) == (1, False, [])


def test_nodes_that_are_not_named_stay_unless_the_definition_is_whole(opened: Opened) -> None:
    store = opened.store
    store.register(definition(n=COUNT))

    store.register({"events": [{"name": "Other", "fields": {"x": "i64"}}]})
    assert set(store.definition.events) == {"Ride", "Other"}
    with pytest.raises(ForceRequired, match=r"Riders|Other"):
        store.register({"events": [RIDE]}, whole=True)

    store.register({"events": [RIDE]}, whole=True, force=True)
    assert not store.definition.tables


def test_a_changed_feature_is_rebuilt_and_its_old_part_goes(opened: Opened) -> None:
    store = opened.store
    store.register(definition(n=COUNT, spend=SUM))
    store.push("Ride", [ride("ana", 1.5), ride("ana", 30)])

    store.register(definition(n={**COUNT, "where": "(fare > 5)"}, spend=SUM), force=True)
    store.wait(5)

    assert store.get("Riders", "ana") == {"n": 1, "spend": 31.5}
    store.register(definition(n=COUNT), force=True, whole=True)
    store.wait(5)
    assert store.get("Riders", "ana") == {"n": 2}
    assert [part.features for part in store.table("Riders").parts] == [["n"]]


def test_state_survives_closing_and_a_kill_after_the_last_snapshot(opened: Opened) -> None:
    store = opened.store
    store.register(definition(n=COUNT, spend=SUM))
    store.push("Ride", [ride("ana", 1.5)])
    store.get("Riders", "ana")  # a log without threads folds when it is read
    store = opened.open()
    store.push("Ride", [ride("ana", 2)])
    opened.fs = opened.fs.kill()
    opened.log = None

    store = opened.open()

    assert store.get("Riders", "ana") == {"n": 2, "spend": 3.5}
    assert store.table("Riders").parts[0].snapshot is not None


def test_a_kill_between_a_registration_and_its_parts_is_repaired(opened: Opened) -> None:
    opened.store.register(definition(n=COUNT))
    opened.store.push("Ride", ride("ana", 1))
    killed = []
    create = ProjectionHost.create

    def dying(host: ProjectionHost, *args: Any, **named: Any) -> Any:
        killed.append(opened.fs.copy())
        return create(host, *args, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProjectionHost, "create", dying)
        opened.store.register(definition(n=COUNT, spend=SUM))
    opened.fs, opened.log = killed[0], None
    store = opened.open()

    assert store.version == 2
    assert store.get("Riders", "ana") == {"n": 1, "spend": 1.0}


def test_a_row_as_of_a_seq_or_a_time_shows_nothing_later(opened: Opened) -> None:
    store, clock = opened.store, opened.clock
    store.register(definition(n=COUNT, spend=SUM))
    store.push("Ride", [ride("ana", 1), ride("ana", 2)])
    then = clock.now_ms()
    clock.advance(7_200_000)
    store.push("Ride", ride("ana", 4))

    assert store.get("Riders", "ana", as_of_seq=1) == {"n": 1, "spend": 1.0}
    assert store.get("Riders", "ana", as_of_ts=then) == {"n": 2, "spend": 3.0}
    assert store.get("Riders", "ana") == {"n": 1, "spend": 7.0}
    with pytest.raises(InvalidArgument, match="both"):
        store.get("Riders", "ana", as_of_seq=1, as_of_ts=1)


def test_an_event_with_a_known_id_is_not_appended_again_also_after_a_restart(
    opened: Opened,
) -> None:
    event = {
        "name": "Pay",
        "fields": {"id": "str", "rider": "str"},
        "dedupe": {"field": "id", "window": "1h"},
    }
    table = {"name": "Pays", "from": "Pay", "key": ["rider"], "features": {"n": {"op": "count"}}}
    store = opened.store
    store.register({"events": [event], "tables": [table]})
    first = store.push("Pay", [{"id": "a", "rider": "x"}, {"id": "a", "rider": "x"}])
    store = opened.open()

    again = store.push("Pay", [{"id": "a", "rider": "x"}, {"id": "b", "rider": "x"}])
    only = store.push("Pay", {"id": "a", "rider": "x"})

    assert (first.count, first.deduped) == (1, 1)
    assert (again.count, again.deduped) == (1, 1)
    assert (only.count, only.deduped, only.first_seq) == (0, 1, first.first_seq)
    assert store.get("Pays", "x") == {"n": 2}


def test_a_batch_of_reads_has_an_error_in_the_place_of_a_wrong_one(opened: Opened) -> None:
    store = opened.store
    store.register(definition(n=COUNT))

    pushed, rows = store.push_and_get(
        "Ride",
        ride("ana", 1),
        [("Riders", "ana"), FeatureRead("Nowhere"), ("Riders", "ana", ["x"]), ("Riders", 7)],
    )

    assert pushed.count == 1
    assert rows[0] == {"n": 1}
    codes = [row.code for row in rows[1:] if isinstance(row, FeatureError)]
    assert codes == ["table_not_found", "invalid_request", "invalid_request"]


def test_an_event_with_sync_per_event_is_synced_when_it_is_acknowledged(opened: Opened) -> None:
    store = opened.store
    given = definition(n=COUNT)
    given["events"] = [{**RIDE, "sync": "per_event"}]
    store.register(given)

    store.push("Ride", ride("ana", 1))

    watermarks = store.table("Riders").watermarks
    assert watermarks.committed == watermarks.synced == watermarks.acked == 1


def test_a_push_may_ask_for_its_sync(opened: Opened) -> None:
    store = opened.store
    store.register(definition(n=COUNT))

    store.push("Ride", ride("ana", 1), sync="per_event")

    assert store.table("Riders").watermarks.synced == 1


@pytest.mark.parametrize(
    ("table", "key", "why"),
    [("Riders", None, "1 key column"), ("Riders", 7, "expected str"), ("Riders", ["a", "b"], "2")],
)
def test_a_key_that_does_not_fit_is_refused(opened: Opened, table: str, key: Any, why: str) -> None:
    opened.store.register(definition(n=COUNT))

    with pytest.raises(InvalidArgument, match=why):
        opened.store.get(table, key)


def test_a_watch_gives_the_row_and_then_each_change(opened: Opened) -> None:
    store = opened.store
    store.register(definition(n=COUNT))
    rows = store.watch("Riders", "ana", timeout_s=0.0)

    assert next(rows) == {}
    store.push("Ride", ride("ana", 1))
    assert next(rows) == {"n": 1}
    store.push("Ride", ride("bo", 1))
    assert list(rows) == []


def test_an_event_from_the_future_takes_nothing_from_other_keys(opened: Opened) -> None:
    store = opened.store
    event = {"name": "Ride", "fields": {"rider": "str", "fare": "f64", "at": "i64"}}
    event["time"] = {"field": "at", "lateness": "1h"}
    store.register({**definition(n=COUNT), "events": [event]})
    now_ms = opened.clock.now_ms()
    store.push("Ride", {**ride("ana", 1), "at": now_ms})
    future = msgspec.json.encode({**ride("bo", 1), "at": now_ms * 1000})

    with pytest.raises(SchemaMismatch, match=r"field 'at' .* at most 1h ahead") as refused:
        store.push("Ride", future)
    store._log.append("Ride", [future], is_synced=False)  # past the check

    assert (refused.value.event, refused.value.value) == ("Ride", now_ms * 1000)
    store.push("Ride", {**ride("ana", 1), "at": now_ms - 3_600_000 + 60_000})
    for _ in range(2):  # also after a restart
        assert store.get("Riders", "ana") == {"n": 2}
        assert store.get("Riders", "bo") == {}
        (part,) = store.table("Riders").parts
        assert (part.counters["bad"], part.counters["late"]) == (1, 0)
        store = opened.open()
    assert store.get("Riders", "ana", as_of_seq=3) == {"n": 2}


def keep_one(opened: Opened) -> None:
    """The topic has its newest record alone."""
    assert opened.log is not None
    opened.log.create("Ride", cap_records=1)


def lose_two(opened: Opened) -> None:
    """Two records go before the table has read them."""
    opened.store.push("Ride", [ride("bo", 1)])
    opened.store.push("Ride", [ride("bo", 1)])
    opened.store.push("Ride", [ride("ana", 1)])


@pytest.mark.parametrize("where", ["events", "tables"])
def test_a_table_does_about_a_loss_what_its_policy_says(opened: Opened, where: str) -> None:
    store, strict = opened.store, definition(n=COUNT)
    strict[where] = [{**strict[where][0], "on_gap": "fail"}]
    keep_one(opened)
    store.register(definition(n=COUNT))
    store.push("Ride", ride("ana", 1))
    assert store.get("Riders", "ana") == {"n": 1}

    changed = store.register(strict)

    assert [change["cost"] for change in changed.changes] == ["nothing"]
    assert store.table("Riders").on_gap == "fail"
    lose_two(opened)
    for _ in range(2):
        with pytest.raises(ProjectionFailed, match=r"records 2 to 3 were lost .* policy is fail"):
            store.get("Riders", "ana")
        assert store.table("Riders").state == "failed"
        store = opened.open()  # which is no way around it
    lenient = {"events": [RIDE], "tables": definition(n=COUNT)["tables"]}
    assert [change["cost"] for change in store.register(lenient).changes] == ["nothing"]
    assert store.get("Riders", "ana") == {"n": 2}
    (part,) = store.table("Riders").parts
    assert (part.counters["lost"], part.lost_seqs, part.rebuilds) == (2, 2, 0)
    assert store.table("Riders").on_gap == "accept"


def test_a_table_may_begin_again_after_a_loss(opened: Opened) -> None:
    store, strict = opened.store, definition(n=COUNT)
    keep_one(opened)
    store.register({**strict, "events": [{**RIDE, "on_gap": "rebuild"}]})
    store.push("Ride", ride("ana", 1))
    assert store.get("Riders", "ana") == {"n": 1}

    lose_two(opened)

    assert store.get("Riders", "ana") == {"n": 1}
    (part,) = store.table("Riders").parts
    assert (part.rebuilds, part.counters["lost"], part.lost_seqs) == (1, 3, 3)


def test_a_new_policy_that_was_not_told_to_a_part_is_when_the_log_is_opened(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, strict = opened.store, definition(n=COUNT)
    store.register(strict)
    monkeypatch.setattr(store, "_reconcile", lambda: None)
    store.register({**strict, "events": [{**RIDE, "on_gap": "fail"}]})

    opened.open()

    held = opened.projections.find("features", "Riders.1")
    assert held is not None
    assert held.definition.on_gap == held.runner.options.on_gap == "fail"
