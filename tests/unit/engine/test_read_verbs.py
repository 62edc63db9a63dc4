"""The read verbs over the forms of a page; a page of columns is compared with one of values."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.codec import columns as codec
from penstock.codec.columns import Columns, ColumnsPage, Text
from penstock.engine.engine import Log
from penstock.errors import InvalidArgument, TopicNotFound
from penstock.testing.log import open_memory_log
from penstock.types import Page, Record
from tests.unit.engine.support import sealed

EVERY = ("node", "tag", "meta", "data")


def texts(count: int, column: Text | None) -> list[Any]:
    if column is None:
        return [None] * count
    ends, text, bits = column
    at = struct.unpack(f"<{count + 1}I", ends)
    return [
        text[at[n] : at[n + 1]].decode() if bits[n >> 3] >> (n & 7) & 1 else None
        for n in range(count)
    ]


def records(found: Columns) -> list[Record]:
    count = found.count
    columns = [texts(count, one) for one in (found.data, found.tag, found.node, found.meta)]
    seqs = struct.unpack(f"<{count}Q", found.seqs)
    tss = struct.unpack(f"<{count}Q", found.tss)
    return [
        Record(json.loads(data), tag, node, None if meta is None else json.loads(meta), seq, ts)
        for data, tag, node, meta, seq, ts in zip(*columns, seqs, tss, strict=True)
    ]


def facts(page: Page | ColumnsPage) -> tuple[object, ...]:
    return page.gap, page.head_seq, page.earliest_seq, page.epoch


def all_records(log: Log, **options: Any) -> list[Record]:
    """Every record, from pages of columns; each page's gap is that of `read`."""
    found: list[Record] = []
    after = 0
    while True:
        page = log.read_columns("t", after, columns=EVERY, **options)
        assert facts(page) == facts(log.read("t", after, **options))
        found += records(page.columns)
        if page.caught_up:
            return found
        assert page.next_seq > after
        after = page.next_seq


def filled(log: Log) -> None:
    """A topic with records in two segments and in memory, deletes among them, and a gap."""
    log.create("t", cap_records=90)
    nodes = ["a", "b", None]
    for part in range(3):
        log.append(
            "t",
            [
                Record(
                    {"n": n},
                    tag=f"tag-{n % 4}" if n % 5 else None,
                    node=nodes[n % 3],
                    meta={"m": n} if n % 2 else None,
                )
                for n in range(part * 40, part * 40 + 40)
            ],
        )
        log.delete("t", seqs=[part * 40 + 35, part * 40 + 36])
        if part < 2:
            sealed(log)


@pytest.mark.parametrize("limit", [1, 7, 1000])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tag": "tag-1"},
        {"tag": "tag-*"},
        {"tag": "none"},
        {"node": "a"},
        {"node": ["a", "b"]},
        {"node": "b", "tag": "tag-2"},
    ],
    ids=str,
)
def test_columns_have_the_records_of_a_read(options: dict[str, Any], limit: int) -> None:
    with open_memory_log() as log:
        filled(log)
        page = log.read("t", 0, 1000, **options)
        first = log.read_columns("t", 0, limit, columns=EVERY, **options)

        assert all_records(log, limit=limit, **options) == page.records
        assert records(first.columns) == page.records[: first.columns.count]
        assert first.columns.count <= limit


@given(
    st.lists(
        st.tuples(st.sampled_from(["append", "seal", "delete"]), st.integers(1, 30)), max_size=12
    ),
    st.integers(1, 9),
)
def test_no_record_is_missed_or_repeated_at_a_seam(
    steps: list[tuple[str, int]], limit: int
) -> None:
    with open_memory_log() as log:
        log.create("t")
        for step, number in steps:
            if step == "append":
                log.append("t", [number], tag="x" if number % 2 else None)
            elif step == "seal":
                sealed(log)
            else:
                log.delete("t", seqs=[number])

        assert all_records(log, limit=limit) == log.read("t", 0, 1000).records
        odd = log.read("t", 0, 1000, tag="x").records
        assert all_records(log, limit=limit, tag="x") == odd


def test_a_page_of_columns_keeps_its_byte_budget(memory_log: Log) -> None:
    memory_log.append("t", ["x" * 100] * 10)

    page = memory_log.read_columns("t", max_bytes=250)

    assert 1 <= page.columns.count < 10


def test_columns_are_named_or_given_as_bits(memory_log: Log) -> None:
    memory_log.append("t", [1], tag="x", node="n")

    plain = memory_log.read_columns("t").columns
    named = memory_log.read_columns("t", columns=["tag", "node"]).columns
    bare = memory_log.read_columns("t", columns=0).columns

    assert (plain.data, plain.tag) == ((struct.pack("<2I", 0, 1), b"1", b"\1"), None)
    assert (texts(1, named.tag), texts(1, named.node), named.data) == (["x"], ["n"], None)
    assert named == memory_log.read_columns("t", columns=codec.TAG | codec.NODE).columns
    assert (bare.count, bare.data) == (1, None)


@pytest.mark.parametrize("columns", ["data", ["nothing"], -1, 16, None])
def test_a_column_that_does_not_exist_is_refused(memory_log: Log, columns: Any) -> None:
    memory_log.create("t")

    with pytest.raises(InvalidArgument, match="invalid columns"):
        memory_log.read_columns("t", columns=columns)


def test_a_recreated_topic_is_a_gap_of_columns_too(memory_log: Log) -> None:
    memory_log.append("t", [1, 2, 3])
    epoch = memory_log.read_columns("t").epoch
    memory_log.drop("t")
    memory_log.append("t", [1])

    page = memory_log.read_columns("t", 3, epoch=epoch)

    assert page.gap is not None
    assert page.gap.reason == "recreated"


def test_the_core_reads_columns_of_a_handle(memory_log: Log) -> None:
    memory_log.append("t", [1, 2])
    handle = memory_log.core.catalogue.get("t")

    page = memory_log.core.read_columns(handle, 1, None, ["data"], {})

    assert records(page.columns) == [Record(2, seq=2, ts=memory_log.read("t").records[1].ts)]


def test_a_missing_topic_has_no_columns(memory_log: Log) -> None:
    with pytest.raises(TopicNotFound):
        memory_log.read_columns("t")
