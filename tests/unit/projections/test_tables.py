"""The state of a table, without a log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.projections import table_keys
from penstock.projections.table_keys import KeySource
from penstock.projections.tables import TableState
from penstock.types import Gap
from tests.unit.projections.support import ListTail


def folded(tail: ListTail, key: str = "id", page: int = 1000) -> TableState:
    state, after = TableState(KeySource(key)), 0
    while after < len(tail.records):
        found = tail.read_columns(after, page, state.wanted)
        assert found is not None
        state.apply(found.columns)
        after = found.next_seq
    return state


def rows(state: TableState, prefix: bytes = b"") -> list[tuple[Any, Any]]:
    found, is_more = state.scan(prefix, None, 10**6, 1 << 40)
    assert not is_more
    return [(table_keys.unpacked(row.key), json.loads(row.value)) for row in found]


def put(tail: ListTail, *values: Any) -> None:
    tail.add(*(json.dumps(value).encode() for value in values))


def test_the_newest_record_of_each_key_is_its_row() -> None:
    tail = ListTail()
    put(tail, {"id": "b", "n": 1}, {"id": "a"}, {"id": "b", "n": 2})
    state = folded(tail)

    assert rows(state) == [("a", {"id": "a"}), ("b", {"id": "b", "n": 2})]
    found = state.get(table_keys.checked("b"))
    assert found is not None
    assert (found.seq, found.ts) == (3, 1003)


def test_keys_of_all_types_have_one_order() -> None:
    tail = ListTail()
    put(tail, *({"id": key} for key in ("b", 2, True, "", -1, False, "a", 10)))

    assert [key for key, _ in rows(folded(tail))] == [False, True, -1, 2, 10, "", "a", "b"]


def test_meta_deletes_a_row_where_the_key_is_as_always() -> None:
    tail = ListTail()
    put(tail, {"id": 1}, {"id": 2})
    tail.add(b'{"id":1}', meta=b'{"deleted":true}')
    tail.add(b'{"id":2}', meta=b'{"deleted":false,"x":1}')
    tail.add(b'{"id":3}', meta=b'{"deleted":"yes"}')

    assert [key for key, _ in rows(folded(tail))] == [2, 3]


@pytest.mark.parametrize("null", [b"null", None])
def test_null_deletes_the_row_that_the_tag_names(null: bytes | None) -> None:
    tail = ListTail()
    put(tail, {"id": "a"}, {"id": "b"})
    tail.add(null, tag=b"a")

    state = folded(tail)

    assert [key for key, _ in rows(state)] == ["b"]
    assert state.skipped == 0


def test_tables_by_tag_and_by_node() -> None:
    tail = ListTail()
    tail.add(b"1", tag=b"a", node=b"x")
    tail.add(b"[2]", tag=b"b", node=b"x")
    tail.add(b"3", node=b"y")
    tail.add(b"null", tag=b"a")

    by_tag, by_node = folded(tail, "tag"), folded(tail, "node")

    assert (rows(by_tag), by_tag.skipped) == ([("b", [2])], 1)
    assert (rows(by_node), by_node.skipped) == ([("x", [2]), ("y", 3)], 1)


def test_a_record_without_a_usable_key_is_counted() -> None:
    tail = ListTail()
    put(tail, {"x": 1}, {"id": None}, 5, {"id": [1]}, {"id": "a"})
    tail.add(b"null")

    state = folded(tail)

    assert (state.count, state.skipped) == (1, 5)


def test_a_scan_goes_page_by_page() -> None:
    tail = ListTail()
    put(tail, *({"id": f"k{n:03}"} for n in range(25)), {"id": 7})
    state = folded(tail)

    seen, after = [], None
    while True:
        found, is_more = state.scan(b"", after, 10, 1 << 40)
        seen += [table_keys.unpacked(row.key) for row in found]
        after = found[-1].key
        if not is_more:
            break

    assert seen == [7, *(f"k{n:03}" for n in range(25))]
    prefix = table_keys.checked("k01")
    assert len(rows(state, prefix)) == 10
    assert [row.key[1:] for row in state.scan(prefix, None, 10, 1)[0]] == [b"k010"]


def test_keys_that_come_and_go_between_scans_are_seen_once() -> None:
    tail = ListTail()
    put(tail, {"id": "a"}, {"id": "b"})
    state = folded(tail)
    rows(state)
    more = ListTail()
    more.add(b"null", tag=b"a")
    put(more, {"id": "a", "n": 2}, {"id": "c"})
    page = more.read_columns(0, 99, state.wanted)
    assert page is not None
    state.apply(page.columns)

    assert [key for key, _ in rows(state)] == ["a", "b", "c"]


def test_keys_that_come_and_go_do_not_pile_up() -> None:
    state = TableState(KeySource("id"))
    for number in range(5):
        tail = ListTail()
        for key in range(6000):
            tail.add(b'{"id":"%d-%d"}' % (number, key))
            tail.add(b"null", tag=b"%d-%d" % (number, key))
        page = tail.read_columns(0, 99_999, state.wanted)
        assert page is not None
        state.apply(page.columns)

    assert (state.count, state.bytes) == (0, state.bytes)
    assert state.bytes < 8 * 20_000


def test_a_snapshot_is_of_its_moment_and_comes_back() -> None:
    tail = ListTail()
    put(tail, *({"id": n, "v": "x" * (n % 7)} for n in range(9000)), {})
    state = folded(tail)
    state.lose(Gap(1, 3, "lost", 3, 4, 9))
    before = rows(state)

    parts = state.snapshot()
    copied = [next(parts)]
    put(tail, {"id": 3, "v": "new"}, {"id": -1})
    page = tail.read_columns(9001, 99, state.wanted)
    assert page is not None
    state.apply(page.columns)
    copied += parts

    again = TableState(KeySource("id"))
    again.restore(memoryview(part) for part in copied)
    assert rows(again) == before
    assert (again.skipped, again.lost, len(copied)) == (1, 3, 3)
    again.apply(page.columns)
    assert (rows(again), again.bytes) == (rows(state), again.bytes)


def test_the_memory_that_it_says_follows_what_it_holds() -> None:
    tail = ListTail()
    put(tail, *({"id": n} for n in range(100)))
    state = folded(tail)
    full = state.bytes
    for n in range(100):
        tail.add(b'{"id":%d}' % n, meta=b'{"deleted":true}')
    page = tail.read_columns(100, 999, state.wanted)
    assert page is not None
    state.apply(page.columns)

    assert full > 100 * 190
    assert (state.count, state.bytes) == (0, 800)


@pytest.mark.parametrize("parts", [[], [b"short"], [bytes(24), b"\1\0\0\0" + bytes(9)]])
def test_parts_that_are_no_snapshot_are_refused(parts: list[bytes]) -> None:
    with pytest.raises(ValueError, match=r"missing|add up|instead"):
        TableState(KeySource("id")).restore(memoryview(part) for part in parts)
