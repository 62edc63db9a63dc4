"""Registrations, pushes, reads and failures that meet in the feature store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import Log, Settings, limits
from penstock.errors import InvalidArgument, LogFailed, NotReady, TableNotFound
from penstock.features.event_push import EventPush
from penstock.features.store import FeatureStore
from penstock.projections.host import ProjectionHost
from tests.unit.features.test_store import COUNT, RIDE, SUM, Opened, definition, ride

PAY: dict[str, Any] = {
    "name": "Pay",
    "fields": {"id": "str"},
    "dedupe": {"field": "id", "window": "1h"},
}
PUSHES = 8


@pytest.fixture
def opened() -> Iterator[Opened]:
    here = Opened()
    yield here
    here.close()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with penstock.open(tmp_path / "log", settings=Settings(wal_shards=1)) as log:
        yield log


def table(name: str, **features: Any) -> dict[str, Any]:
    return {"name": name, "from": "Ride", "key": ["rider"], "features": features}


# Registrations.


def test_a_table_that_is_rebuilt_keeps_its_old_part_while_another_one_gets_ready(
    opened: Opened,
) -> None:
    store = opened.store
    one, other = table("One", n=COUNT), table("Other", n=COUNT)
    store.register({"events": [RIDE], "tables": [one, other]})
    store.push("Ride", [ride("ana", 1), ride("ana", 9)])
    store.wait(5)
    changed = {**COUNT, "where": "(fare > 5)"}
    store.register({"tables": [table("One", n=changed), table("Other", n=changed)]}, force=True)

    assert store.get("One", "ana") == {"n": 2}  # read from its old part
    for held in opened.projections.all("features"):
        if held.definition.name.startswith("One."):
            held.runner.catch_up()
    assert store.get("One", "ana") == {"n": 1}

    assert len(store.table("Other").parts) == 2
    assert store.view("Other").parts[0][0].runner.is_ready
    assert store.get("Other", "ana") == {"n": 2}
    store.wait(5)
    assert store.get("Other", "ana") == {"n": 1}


def test_a_part_that_has_failed_goes_when_its_features_are_changed_again(opened: Opened) -> None:
    store = opened.store
    store.register(definition(n=COUNT))
    store.push("Ride", ride("ana", 1))
    store.wait(5)
    store.register(definition(n={**COUNT, "window": "2h"}), force=True)
    failing = opened.projections.find("features", "Riders.2")
    assert failing is not None
    with failing.runner.lock:
        failing.runner.fail("for the test")
    assert not store.wait(5)
    assert store.table("Riders").state == "failed"

    store.register(definition(n={**COUNT, "window": "3h"}), force=True)

    assert store.wait(5)
    assert store.table("Riders").state == "ready"
    assert [part.id for part in store.table("Riders").parts] == ["Riders.3"]


def test_more_parts_than_a_log_can_have_are_refused_before_anything_is_recorded(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened.store
    store.register(definition(n=COUNT))
    monkeypatch.setattr(limits, "PROJECTIONS_MAX", 2)

    with pytest.raises(InvalidArgument, match="at most 2"):
        store.register({"tables": [table("A", n=COUNT), table("B", n=COUNT)]})

    assert store.version == 1
    store = opened.open()
    store.register({"tables": [table("A", n=COUNT)]})
    store.push("Ride", ride("ana", 1))
    assert store.get("A", "ana") == store.get("Riders", "ana") == {"n": 1}


def test_a_part_that_could_not_be_made_is_no_missing_feature(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened.store
    store.register(definition(n=COUNT))
    store.push("Ride", ride("ana", 2))

    def full(host: ProjectionHost, *args: Any, **named: Any) -> Any:
        raise LogFailed("/data", reason="the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(ProjectionHost, "create", full)
        with pytest.raises(LogFailed):
            store.register(definition(n=COUNT, spend=SUM))

    assert store.get("Riders", "ana", ["n"]) == {"n": 1}
    with pytest.raises(NotReady, match="spend"):
        store.get("Riders", "ana")
    assert opened.open().get("Riders", "ana") == {"n": 1, "spend": 2.0}


def test_a_failed_log_still_answers_reads_when_a_new_part_gets_ready(opened: Opened) -> None:
    store = opened.store
    store.register(definition(n=COUNT))
    store.push("Ride", ride("ana", 2))
    store.wait(5)
    store.register(definition(n={**COUNT, "window": "2h"}), force=True)
    opened.fs.fail("sync", persistent=True)
    with pytest.raises(LogFailed):
        store.push("Ride", ride("ana", 2), sync="per_event")

    for held in opened.projections.all("features"):
        held.runner.catch_up()

    assert store.get("Riders", "ana")["n"] >= 1
    opened.fs.heal()


def test_looking_at_all_tables_while_one_of_them_is_removed_is_no_error(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened.store
    store.register({"events": [RIDE], "tables": [table("A", n=COUNT), table("B", n=COUNT)]})
    view, removing = FeatureStore._view, threading.Event()

    def removed(self: FeatureStore, name: str) -> Any:
        if name == "A" and not removing.is_set():
            removing.set()
            thread = threading.Thread(
                target=store.register,
                args=({"events": [RIDE], "tables": [table("A", n=COUNT)]},),
                kwargs={"whole": True, "force": True},
            )
            thread.start()
            thread.join(0.2)  # it waits for our lock, or is done
            removers.append(thread)
        return view(self, name)

    removers: list[threading.Thread] = []
    monkeypatch.setattr(FeatureStore, "_view", removed)

    store.wait(5)
    tables = store.tables()

    for thread in removers:
        thread.join()
    assert {one.name for one in tables} <= {"A", "B"}
    with pytest.raises(TableNotFound):
        store.get("B", "ana")


def test_an_event_that_moves_to_another_topic_takes_its_ids_from_there(opened: Opened) -> None:
    store = opened.store
    store.register({"events": [PAY]})
    store.push("Pay", {"id": "a"})
    store.register({"events": [{**PAY, "topic": "pays"}]}, force=True)

    first = store.push("Pay", {"id": "a"})
    again = store.push("Pay", {"id": "a"})

    assert (first.count, first.topic) == (1, "pays")
    assert (again.count, again.deduped) == (0, 1)


# Pushes.


def test_pushes_of_an_id_at_the_same_time_append_it_once(log: Log) -> None:
    store = log.features
    store.register({"events": [PAY]})
    ready = threading.Barrier(PUSHES)
    counts: list[int] = []

    def push() -> None:
        ready.wait()
        counts.append(store.push("Pay", {"id": "a"}).count)

    threads = [threading.Thread(target=push) for _ in range(PUSHES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(counts) == [0] * (PUSHES - 1) + [1]


def test_one_push_of_ids_runs_at_a_time_also_across_a_registration(opened: Opened) -> None:
    store = opened.store
    store.register({"events": [PAY]})
    before = store.pusher("Pay")
    store.register({"events": [PAY, RIDE]})
    after = store.pusher("Pay")

    assert before is not after
    with before._under_way.turn:
        assert not after._under_way.turn.acquire(blocking=False)


def test_a_push_that_began_before_a_registration_does_not_hide_the_new_event_type(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened.store
    store.register(definition(n=COUNT))
    make = EventPush.__init__
    registering: list[threading.Thread] = []

    def slow(self: EventPush, *args: Any) -> None:
        make(self, *args)
        if not registering:
            fields = {**RIDE["fields"], "tip": {"type": "f64", "optional": True}}
            thread = threading.Thread(
                target=store.register, args=({"events": [{**RIDE, "fields": fields}]},)
            )
            registering.append(thread)
            thread.start()
            thread.join(0.2)  # it waits for our lock, or is done

    monkeypatch.setattr(EventPush, "__init__", slow)
    store.push("Ride", ride("ana", 1))
    registering[0].join()

    assert store.push("Ride", {**ride("ana", 1), "tip": 2.0}).count == 1


def test_what_an_event_type_promises_counts_in_a_topic_of_a_weaker_class_too(
    opened: Opened,
) -> None:
    store = opened.store
    given = definition(n=COUNT)
    given["events"] = [{**RIDE, "sync": "per_event"}]
    store.register(given)
    assert opened.log is not None
    opened.log.create("Ride", durability="disk")

    before = opened.fs.counts["sync"]

    store.push("Ride", ride("ana", 1))

    assert opened.fs.counts["sync"] > before
    watermarks = store.table("Riders").watermarks
    assert watermarks.synced == watermarks.acked == 1


# Closing.


def test_a_log_may_be_closed_while_a_table_is_being_built(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with penstock.open(path, wal_shards=1) as log:
        log.features.register(definition(n=COUNT))
        for _ in range(3):
            log.features.push("Ride", [ride(f"r{n % 9}", n) for n in range(9_000)])
        log.features.register(definition(n=COUNT, spend=SUM))
    with penstock.open(path, wal_shards=1) as log:
        assert log.features.wait(60)
        assert log.features.get("Riders", "r0") == {
            "n": 3_000,
            "spend": 3.0 * sum(range(0, 9_000, 9)),
        }
