"""Members of JSON objects, taken out strictly."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidArgument, InvalidDefinition
from penstock.features.json_members import at, duration_of, list_of, named, object_of, path_of


def test_what_is_wrong_inside_gets_a_path() -> None:
    with pytest.raises(InvalidDefinition, match=r"^a\.b: bad") as caught, at("a.b", "why"):
        raise InvalidArgument("bad")

    assert (caught.value.path, caught.value.reason) == ("a.b", "why")


def test_the_innermost_path_stays() -> None:
    with pytest.raises(InvalidDefinition) as caught, at("outer", "why"), at("inner", "x"):
        raise InvalidArgument("bad")

    assert caught.value.path == "inner"


def test_an_object_has_the_members_that_it_may_have() -> None:
    assert object_of({"a": 1}, "p", {"b"}, required=("a",)) == {"a": 1}
    assert object_of({"anything": 1}, "p", None)
    with pytest.raises(InvalidDefinition, match="p: unknown member 'c'"):
        object_of({"a": 1, "c": 2}, "p", {"b"}, required=("a",))
    with pytest.raises(InvalidDefinition, match="'a' is missing"):
        object_of({}, "p", {"b"}, required=("a",))
    with pytest.raises(InvalidDefinition, match="expected names as members, not 5"):
        object_of({5: 1}, "p", None)


def test_lists_names_and_durations() -> None:
    assert list_of([1], "p", 1) == [1]
    assert named("a", "p") == "a"
    assert duration_of("1s", "p") == 1000
    assert duration_of(None, "p") is None
    with pytest.raises(InvalidDefinition, match="expected an array"):
        list_of("ab", "p", 2)


def test_the_path_of_a_node_has_its_name_if_it_has_one() -> None:
    assert path_of("events", {"name": "A"}, 3) == "events.A"
    assert path_of("events", {"name": 5}, 3) == path_of("events", None, 3) == "events[3]"
    assert path_of("events", {"name": "x" * 1000}, 3) == "events[3]"
