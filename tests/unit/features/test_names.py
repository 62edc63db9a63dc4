"""Names of events, tables, columns and features."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidArgument
from penstock.features.names import is_name, name_of, nearest, shown


@pytest.mark.parametrize("name", ["a", "_", "A9_b", "x" * 128])
def test_a_good_name_is_itself(name: str) -> None:
    assert name_of(name) == name
    assert is_name(name)


@pytest.mark.parametrize("name", ["", "9a", "a-b", "a b", "é", "a\n", "x" * 129, None, 7, b"a"])
def test_a_bad_name_is_refused_and_says_of_what(name: object) -> None:
    assert not is_name(name)
    with pytest.raises(InvalidArgument, match="invalid table name"):
        name_of(name, "table name")


def test_a_long_name_is_not_repeated_whole() -> None:
    with pytest.raises(InvalidArgument) as caught:
        name_of("-" * 10_000)

    assert len(str(caught.value)) < 300


def test_any_value_can_be_shown() -> None:
    deep: object = 1
    for _ in range(5000):
        deep = [deep]

    assert shown("ab") == "'ab'"
    assert shown({"a": [1]}) == "{'a': [1]}"
    assert len(shown("x" * 10**6)) <= 80
    assert len(shown(deep)) < 100
    assert shown(10**5000) == "of type int"
    assert nearest(deep, ["a"]) == "there is 'a'"


def test_the_nearest_name_is_offered_or_else_what_there_is() -> None:
    assert nearest("fair", ["fare", "rider"]) == "did you mean 'fare'?"
    assert nearest("zzz", ["fare", "rider"]) == "there is 'fare', 'rider'"
    assert nearest("zzz", []) == "there is none"
    assert nearest("zzz", [f"a{i}" for i in range(20)]).endswith("and 8 more")
