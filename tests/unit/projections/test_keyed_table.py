"""Keyed tables as callers use them, over the embedded log."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock import Log
from penstock.errors import (
    InvalidArgument,
    NotReady,
    ProjectionFailed,
    TableExists,
    TableNotFound,
)
from penstock.projection_types import TableChange, TableRow
from penstock.testing.log import open_memory_log
from penstock.types import Gap, Offset, Record


@pytest.fixture
def log() -> Iterator[Log]:
    with open_memory_log() as opened:
        yield opened


@pytest.fixture
def threaded(tmp_path: Path) -> Iterator[Log]:
    with penstock.open(tmp_path) as opened:
        yield opened


def ids(rows: list[TableRow]) -> list[object]:
    return [row.key for row in rows]


def test_a_reader_sees_its_own_writes(threaded: Log) -> None:
    table = threaded.table("orders", key="id")

    for number in range(50):
        threaded.append("orders", [{"id": "a", "n": number}])
        row = table.get("a")
        assert row is not None
        assert row.value == {"id": "a", "n": number}


def test_a_table_of_a_topic_that_does_not_exist_is_empty_until_it_does(log: Log) -> None:
    table = log.table("t", key="id", topic="orders")
    assert (table.get("a"), table.count(), table.scan().rows) == (None, 0, [])
    assert (table.topic, table.key, table.scan().offset) == ("orders", "id", None)

    log.append("orders", [{"id": "a"}])

    assert table.count() == 1


def test_a_scan_gives_pages_in_the_order_of_the_keys(log: Log) -> None:
    table = log.table("t", key="id")
    log.append("t", [{"id": key} for key in ("b", 3, True, "a1", "a2")])

    first = table.scan(limit=2)
    second = table.scan(after=first.next_after, limit=2)
    third = table.scan(after=second.next_after, limit=2)

    assert [ids(page.rows) for page in (first, second, third)] == [[True, 3], ["a1", "a2"], ["b"]]
    assert (second.next_after, third.next_after) == ("a2", None)
    assert ids(table.scan("a").rows) == ["a1", "a2"]
    assert first.offset == Offset(log.topic("t").epoch, 5)


@pytest.mark.parametrize("limit", [0, -1, "x"])
def test_a_limit_must_be_a_number_above_zero(log: Log, limit: int) -> None:
    with pytest.raises(InvalidArgument, match="limit"):
        log.table("t", key="id").scan(limit=limit)


def test_values_come_as_they_were_written(log: Log) -> None:
    table = log.table("t", key="id")
    log.append("t", [b'{"id":1,"n":1e999,"m":%s}' % (b"9" * 30), {"id": 2, "x": [None, 1.5]}])

    rows = table.scan().rows

    assert rows[0].value["n"] == float("inf")
    assert rows[0].value["m"] == int("9" * 30)
    assert rows[1].value == {"id": 2, "x": [None, 1.5]}


def test_an_existing_table_keeps_its_topic_and_key(log: Log) -> None:
    log.table("t", key="id", on_gap="fail")

    again = log.table("t", key="id", bytes_max=5_000_000)

    assert (again.info().on_gap, again.info().bytes_max) == ("fail", 5_000_000)
    assert log.table("t").info() == again.info()
    with pytest.raises(TableExists, match="drop it first"):
        log.table("t", key="other")
    with pytest.raises(TableExists, match="drop it first"):
        log.table("t", key="id", topic="u")


@pytest.mark.parametrize(
    ("options", "names"),
    [({"on_gap": "skip"}, "on_gap"), ({"bytes_max": 0}, "bytes_max"), ({"key": ""}, "key")],
)
def test_wrong_options_are_named(log: Log, options: dict[str, object], names: str) -> None:
    with pytest.raises(InvalidArgument, match=names):
        log.table("t", **{"key": "id", **options})  # type: ignore[arg-type]

    assert log.tables() == []


def test_tables_are_listed_and_dropped(log: Log) -> None:
    for name in ("b", "a1", "a2"):
        log.table(name, key="id")

    assert [info.name for info in log.tables("a")] == ["a1", "a2"]
    table = log.table("a1")
    assert log.drop_table("a1")
    assert not log.drop_table("a1")
    assert [info.name for info in log.tables()] == ["a2", "b"]
    for use in (lambda: table.get("x"), lambda: table.info(), lambda: log.table("a1")):
        with pytest.raises(TableNotFound):
            use()


def test_the_state_is_there_after_a_restart(tmp_path: Path) -> None:
    with penstock.open(tmp_path) as log:
        table = log.table("t", key="id")
        log.append("t", [{"id": n} for n in range(100)])
        assert table.count() == 100

    with penstock.open(tmp_path) as log:
        table = log.table("t")
        log.append("t", [{"id": 100}])
        assert table.count() == 101
        assert table.info().status.counts.records == 1


def test_a_large_backlog_is_folded_in_the_background(threaded: Log) -> None:
    for _ in range(12):
        threaded.append("t", [{"id": n} for n in range(10_000)])
    table = threaded.table("t", key="id")

    while table.info().status.state != "ready":
        with contextlib.suppress(NotReady):
            assert table.count() == 10_000
        threading.Event().wait(0.01)

    assert table.count() == 10_000
    assert table.count(eventual=True) == 10_000


def test_a_dropped_topic_empties_the_table_and_a_new_one_fills_it(log: Log) -> None:
    table = log.table("t", key="id")
    log.append("t", [{"id": 1}, {"id": 2}])
    assert table.count() == 2
    log.drop("t")
    assert table.count() == 0

    log.append("t", [{"id": 3}])

    assert ids(table.scan().rows) == [3]


def test_a_table_that_is_too_large_says_so_and_may_be_given_more(log: Log) -> None:
    table = log.table("t", key="id", bytes_max=1000)
    log.append("t", [{"id": n} for n in range(100)])
    with pytest.raises(ProjectionFailed, match="bytes of memory, and may have 1000"):
        table.count()

    log.table("t", key="id", bytes_max=1_000_000)

    assert table.count() == 100
    table.rebuild()
    assert table.count() == 100


def changes(found: list[TableChange | Gap]) -> list[tuple[object, object, bool]]:
    assert all(isinstance(one, TableChange) for one in found)
    return [(one.key, one.value, one.is_deleted) for one in found if isinstance(one, TableChange)]


def test_a_watch_gives_what_was_and_what_comes(threaded: Log) -> None:
    table = threaded.table("t", key="id")
    threaded.append("t", [{"id": 1}, {}, {"id": 2}])
    page = table.scan()
    assert page.offset is not None
    threaded.append("t", [{"id": 3}, Record(data=None, tag="x")])

    watched = table.watch(page.offset)
    first = [next(watched), next(watched)]
    threaded.append("t", [Record(data={"id": 1}, meta={"deleted": True})])
    first.append(next(watched))

    assert changes(first) == [(3, {"id": 3}, False), ("x", None, True), (1, None, True)]
    last = first[-1]
    assert isinstance(last, TableChange)
    assert last.offset == Offset(page.offset.epoch, 6)
    assert list(table.watch(last.offset, timeout_s=0.01)) == []
    assert list(table.watch(timeout_s=0.01)) == []


def test_a_watch_ends_with_its_table_or_its_topic(threaded: Log) -> None:
    table = threaded.table("t", key="id")
    threaded.append("t", [{"id": 1}])
    start = Offset(threaded.topic("t").epoch, 0)
    dropped, gone = table.watch(start), table.watch(start)
    assert changes([next(dropped), next(gone)]) == [(1, {"id": 1}, False)] * 2

    threaded.drop("t")
    threaded.append("t", [{"id": 2}])

    assert list(dropped) == []
    with pytest.raises(InvalidArgument, match="scan again"):
        table.watch(start)
    more = table.watch(Offset(threaded.topic("t").epoch, 0))
    next(more)
    threaded.drop_table("t")
    threaded.append("t", [{"id": 2}])
    assert list(more) == []


def test_lost_records_are_a_part_of_a_watch(log: Log) -> None:
    table = log.table("t", key="id")
    log.create("t", cap_records=2)
    log.append("t", [{"id": n} for n in range(5)])

    found = list(table.watch(Offset(log.topic("t").epoch, 0), timeout_s=0))

    assert isinstance(found[0], Gap)
    assert (found[0].first, found[0].last) == (1, 3)
    assert changes(found[1:]) == [(3, {"id": 3}, False), (4, {"id": 4}, False)]
