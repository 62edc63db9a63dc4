"""Rows as they travel: what the sender takes the server takes, and the other way round."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock import limits
from penstock.engine import batch as engine_batch
from penstock.errors import InvalidArgument, PenstockError, RecordTooLarge
from penstock.sender import row_buffer
from penstock.sender.row_buffer import TopicRows
from penstock.wire import binary_batch as binary
from penstock.wire.sender_protocol import open_parcel
from tests.unit import nesting

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
ALMOST_JSON = st.text("[]{},:\"' \t\n\\01e.+-tfnrulase\ufeffä", max_size=12).map(str.encode)


def opened(*parts: bytes) -> tuple[str, Any]:
    """A payload as the server takes it apart: its topic and its columns."""
    payload = b"".join(parts)
    parcel = open_parcel(payload)
    columns = binary.split_records(payload, parcel.at, parcel.count)
    engine_batch.from_columns(*columns, are_valid=False)
    return parcel.topic, columns


def is_taken_by_server(row: bytes) -> bool:
    draft = TopicRows("t")
    draft.add(row, 1)
    try:
        opened(*draft.parts())
    except PenstockError:
        return False
    return True


# One row.


@given(ANY_JSON)
def test_a_value_travels_as_json(data: Any) -> None:
    text = row_buffer.text_of(data)

    assert json.loads(text) == data
    assert is_taken_by_server(row_buffer.row(text, None, None, None))


@given(ALMOST_JSON)
@example(b" 1 ")
@example(b'"\\ud800"')
@example(b'"\x00"')
@example(b"1e999")
@example(b"-0")
@example(b"")
@example(b'"\xff"')
@example(b"[" * 5000 + b"]" * 5000)
@example(b"NaN")
def test_a_text_is_taken_here_exactly_if_the_server_takes_it(text: bytes) -> None:
    """One bad row would cost all those that share its frame."""
    try:
        row_buffer.text_of(text)
        is_taken = True
    except InvalidArgument:
        is_taken = False

    laid = row_buffer.pack_record(len(text), 0, 0, 0) + text
    assert is_taken == is_taken_by_server(laid)


@pytest.mark.parametrize(
    "data", [object(), {1: object()}, {("a",): 1}, "\ud800", {"a": {1, object()}}]
)
def test_what_is_no_json_is_refused(data: Any) -> None:
    with pytest.raises(InvalidArgument, match="JSON"):
        row_buffer.text_of(data)


@pytest.mark.parametrize("depth", nesting.AROUND)
@pytest.mark.parametrize("shape", nesting.SHAPES)
def test_a_text_of_any_depth_is_taken_here_exactly_if_the_server_takes_it(
    shape: str, depth: int
) -> None:
    text = nesting.SHAPES[shape](depth)
    laid = row_buffer.pack_record(len(text), 0, 0, 0) + text
    labelled = row_buffer.pack_record(1, len(text), 0, 0) + text + b"1"

    assert is_taken_by_server(laid) == is_taken_by_server(labelled) == (depth <= nesting.MOST)
    if depth <= nesting.MOST:
        assert row_buffer.row(row_buffer.text_of(text), None, None, None) == laid
        assert row_buffer.row(b"1", None, None, text) == labelled
        assert row_buffer.rows([text, b"1"], None, None, 100_000)
        return
    for refused in (
        lambda: row_buffer.text_of(text),
        lambda: row_buffer.rows([1, text], None, None, 100_000),
        lambda: row_buffer.rows([b"1", text], None, None, 100_000),
        lambda: row_buffer.row(b"1", None, None, text),
    ):
        with pytest.raises(InvalidArgument, match="nests 129 levels deep, at most 128"):
            refused()


def test_a_value_of_any_depth_is_held_to_the_same_limit() -> None:
    text = row_buffer.text_of(nesting.value(nesting.MOST))

    assert is_taken_by_server(row_buffer.row(text, None, None, nesting.value(nesting.MOST)))
    for depth in (nesting.MOST + 1, 200_000):  # the latter is encoded by no interpreter
        with pytest.raises(InvalidArgument, match="at most 128"):
            row_buffer.text_of(nesting.value(depth))
        with pytest.raises(InvalidArgument, match=r"meta nests .* at most 128"):
            row_buffer.row(b"1", None, None, nesting.value(depth))


META = [None, {}, {"a": 1}, [1], 7, "text", {str(n): n for n in range(64)}]
BAD_META = [{str(n): n for n in range(65)}, "x" * limits.META_BYTES_MAX]


@pytest.mark.parametrize("meta", META, ids=lambda meta: str(meta)[:20])
def test_a_row_with_everything(meta: Any) -> None:
    draft = TopicRows("t")
    draft.add(row_buffer.row(b"7", "täg", "node", meta), 1)

    topic, (datas, metas, tags, nodes) = opened(*draft.parts())

    assert (topic, datas, tags, nodes) == ("t", [b"7"], ["täg".encode()], [b"node"])
    assert metas == (None if meta is None else [json.dumps(meta, separators=(",", ":")).encode()])


@pytest.mark.parametrize("meta", BAD_META, ids=lambda meta: str(meta)[:20])
def test_what_the_server_would_refuse_as_meta_is_refused_here(meta: Any) -> None:
    with pytest.raises(InvalidArgument, match="meta"):
        row_buffer.row(b"7", None, None, meta)


@pytest.mark.parametrize("what", ["tag", "node"])
@pytest.mark.parametrize("value", ["", 7, b"x", "x" * 257, "ä" * 129, "\ud800"])
def test_a_label_that_is_none_is_refused(what: str, value: Any) -> None:
    given_labels = {"tag": None, "node": None, what: value}
    with pytest.raises(InvalidArgument, match=what):
        row_buffer.row(b"7", given_labels["tag"], given_labels["node"], None)
    with pytest.raises(InvalidArgument, match=what):
        row_buffer.rows([1], given_labels["tag"], given_labels["node"], 1000)


def test_a_row_that_is_too_large_is_refused() -> None:
    text = b"0" * limits.RECORD_BYTES_MAX
    row_buffer.row(text, None, None, None)

    with pytest.raises(RecordTooLarge):
        row_buffer.row(text, None, None, 1)
    with pytest.raises(RecordTooLarge):
        row_buffer.rows([b"1", b'"' + text + b'"'], None, None, 1 << 20)


# Many rows.


@given(
    st.lists(ANY_JSON | ALMOST_JSON.filter(lambda text: _is_json(text)), max_size=20),
    st.sampled_from([None, "tag"]),
    st.integers(1, 200),
)
def test_many_rows_are_as_good_as_each_of_them(
    records: list[Any], tag: str | None, bytes_max: int
) -> None:
    pieces = row_buffer.rows(records, tag, None, bytes_max)

    laid = b"".join(piece for piece, _ in pieces)
    assert laid == b"".join(
        row_buffer.row(row_buffer.text_of(one), tag, None, None) for one in records
    )
    assert sum(count for _, count in pieces) == len(records)
    assert all(len(piece) <= bytes_max or count == 1 for piece, count in pieces)


def _is_json(text: bytes) -> bool:
    try:
        row_buffer.text_of(text)
    except InvalidArgument:
        return False
    return True


def test_no_piece_has_more_rows_than_a_frame_may() -> None:
    pieces = row_buffer.rows([b"1"] * (limits.BATCH_RECORDS_MAX * 2 + 1), None, None, 1 << 30)

    assert [count for _, count in pieces] == [10_000, 10_000, 1]


@pytest.mark.parametrize(
    "records", [[b"1", b"2,3"], [b"[1", b"2]"], [b"1", b""], [b'"\xff"', b"1"]]
)
def test_rows_that_are_json_only_together_are_refused(records: list[bytes]) -> None:
    with pytest.raises(InvalidArgument, match="JSON"):
        row_buffer.rows(records, None, None, 1000)


@pytest.mark.parametrize("records", ["text", b"bytes", {"a": 1}, 7, None, {1, 2}, iter([1])])
def test_records_are_a_list(records: Any) -> None:
    with pytest.raises(InvalidArgument, match="list"):
        row_buffer.rows(records, None, None, 1000)


def test_a_draft_begins_anew_after_a_flush() -> None:
    draft = TopicRows("t")
    draft.add(row_buffer.row(b"1", None, None, None), 1)

    parts = draft.parts()
    draft.clear()

    assert opened(*parts)[1][0] == [b"1"]
    assert (draft.count, draft.size, draft.texts) == (0, 0, [])


def test_texts_keep_their_place_and_labels_among_the_others() -> None:
    draft = TopicRows("t")
    draft.texts += [b"1", b"2"]
    draft.add(row_buffer.row(b"3", "tag", None, None), 1)
    draft.texts.append(b"4")
    draft.set_labels("täg", "node")
    draft.texts += [b"5", b"6"]
    draft.set_labels(None, "node")
    draft.texts.append(b"7")
    draft.count = 7

    _, (datas, _, tags, nodes) = opened(*draft.parts())

    label = "täg".encode()
    assert datas == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"]
    assert tags == [None, None, b"tag", None, label, label, None]
    assert nodes == [None, None, None, None, b"node", b"node", b"node"]
    assert draft.parts() == draft.parts()


def test_labels_that_are_none_change_nothing() -> None:
    draft = TopicRows("t")
    draft.set_labels("tag", None)
    draft.texts.append(b"1")
    draft.count = 1

    with pytest.raises(InvalidArgument, match="node"):
        draft.set_labels("other", "")
    draft.texts.append(b"2")
    draft.count = 2

    assert opened(*draft.parts())[1][2] == [b"tag", b"tag"]
