from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.projections import table_keys
from penstock.projections.table_keys import KeySource

KEYS = st.one_of(
    st.booleans(), st.integers(-(1 << 63), (1 << 63) - 1), st.text(max_size=40).map(str)
)


def rank(key: Any) -> tuple[int, Any]:
    if isinstance(key, bool):
        return 0, key
    return (1, key) if isinstance(key, int) else (2, key.encode())


@settings(max_examples=20)
@given(st.lists(KEYS, max_size=8))
def test_the_bytes_of_keys_sort_as_the_keys_and_come_back(keys: list[Any]) -> None:
    packed = [table_keys.checked(key) for key in keys]

    back = [table_keys.unpacked(one) for one in sorted(packed)]

    assert [(type(key), key) for key in back] == [
        (type(key), key) for key in sorted(keys, key=rank)
    ]


def test_a_number_its_text_and_true_are_three_keys() -> None:
    assert len({table_keys.packed(key) for key in (1, "1", True)}) == 3


@pytest.mark.parametrize("key", [None, 1.0, [1], {}, 1 << 63, -(1 << 63) - 1, "x" * 257, "\ud800"])
def test_what_cannot_be_a_key_is_refused(key: object) -> None:
    assert table_keys.packed(key) is None
    with pytest.raises(InvalidArgument, match="invalid key"):
        table_keys.checked(key)


@pytest.mark.parametrize(
    ("spelled", "data", "key"),
    [
        ("id", {"id": "a", "x": [1, {"id": 2}]}, "a"),
        ("id", {"x": 1}, None),
        ("id", {"id": None}, None),
        ("id", {"id": 1.5}, None),
        ("id", [1], None),
        ("id", "a", None),
        ("data.tag", {"tag": True}, True),
        ("a.b", {"a.b": 3, "a": {"b": 4}}, 3),
        ("ä", {"ä": 3}, 3),
    ],
)
def test_a_field_of_the_data_is_the_key(spelled: str, data: object, key: object) -> None:
    found = KeySource(spelled).of_data(json.dumps(data).encode())

    assert (None if found is None else table_keys.unpacked(found)) == key


def test_other_fields_are_stepped_over_whatever_they_hold() -> None:
    key = KeySource("id")

    assert key.of_data(b'{"n":1e999,"id":7,"m":123456789012345678901234567890}') is not None
    assert key.of_data(b'{"id":123456789012345678901234567890}') is None


def test_tag_and_node_are_no_fields() -> None:
    tag, node = KeySource("tag"), KeySource("node")

    assert (tag.is_tag, tag.field, node.is_node, node.field) == (True, "", True, "")
    assert tag.of_data(b'{"tag":1}') is None


@pytest.mark.parametrize(
    "spelled", ["", "data.", None, 5, "x" * 300, 'a"b', "a\\b", "\n", "\ud800"]
)
def test_a_key_that_names_nothing_is_refused(spelled: object) -> None:
    with pytest.raises(InvalidArgument, match="of a table"):
        KeySource(spelled)
