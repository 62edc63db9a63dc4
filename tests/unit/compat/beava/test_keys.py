"""Keys of beava's clients as values of columns."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.compat.beava.keys import BadKey, key_of


@pytest.mark.parametrize(
    ("given", "types", "values"),
    [
        ("ana", ["str"], ["ana"]),
        ("a|b", ["str"], ["a|b"]),
        ("", ["str"], [""]),
        ("a|7|true", ["str", "i64", "bool"], ["a", 7, True]),
        (["a|b", 7], ["str", "i64"], ["a|b", 7]),
        ("-7", ["i64"], [-7]),
        (7, ["i64"], [7]),
        (False, ["bool"], [False]),
        ("false", ["bool"], [False]),
        ("", [], []),
        (None, [], []),
        ([], [], []),
    ],
)
def test_a_key_has_a_value_for_each_column(given: Any, types: list[str], values: list[Any]) -> None:
    assert key_of(given, [f"c{n}" for n, _ in enumerate(types)], types) == values


@pytest.mark.parametrize(
    ("given", "types", "complaint"),
    [
        ("a", ["str", "str"], "key has 1 values: expected 2"),
        ("a|b|c", ["str", "str"], "key has 3 values: expected 2"),
        ("a", [], "expected 0"),
        ("x", ["i64"], "key column 'c0' is 'x': expected i64"),
        (True, ["i64"], "expected i64"),
        (1.0, ["i64"], "expected i64"),
        ("9" * 19, ["i64"], "expected i64"),
        ("٣", ["i64"], "expected i64"),
        (7, ["str"], "expected str"),
        (None, ["str"], "expected str"),
        ("True", ["bool"], "expected bool"),
        ({"a": 1}, ["str"], "expected str"),
    ],
)
def test_another_key_is_refused(given: Any, types: list[str], complaint: str) -> None:
    with pytest.raises(BadKey, match=complaint):
        key_of(given, [f"c{n}" for n, _ in enumerate(types)], types)
