from __future__ import annotations

import pytest

from penstock.errors import InvalidArgument
from penstock.lake.column_types import digits_of, kind_of, spark_type, widens


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("long", "long"),
        (" BigInt ", "long"),
        ("integer", "int"),
        ("bool", "boolean"),
        ("decimal( 10 , 2 )", "decimal(10,2)"),
        ("json", "json"),
    ],
)
def test_a_type_has_one_spelling(text: str, kind: str) -> None:
    assert kind_of(text) == kind


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("dubble", "did you mean double?"),
        ("???", "there are boolean, int"),
        ("decimal(39,2)", "at most 38 digits"),
        ("decimal(2,3)", "invalid type decimal(2,3)"),
    ],
)
def test_what_is_no_type_is_told_with_a_way_out(text: str, says: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        kind_of(text)

    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int", "int"),
        ("int", "long"),
        ("int", "double"),
        ("long", "double"),
        ("float", "double"),
        ("date", "timestamp"),
        ("decimal(10,2)", "decimal(12,2)"),
        ("decimal(10,2)", "decimal(12,4)"),
    ],
)
def test_a_type_widens(old: str, new: str) -> None:
    assert widens(old, new)
    assert old == new or not widens(new, old)


@pytest.mark.parametrize(
    ("old", "new"),
    [("long", "string"), ("string", "json"), ("decimal(10,2)", "decimal(10,4)"), ("float", "long")],
)
def test_everything_else_does_not_widen(old: str, new: str) -> None:
    assert not widens(old, new)


def test_a_decimal_knows_its_digits() -> None:
    assert digits_of("decimal(10,2)") == (10, 2)
    assert digits_of("double") is None
    assert [spark_type(kind) for kind in ("long", "json", "decimal(4,1)")] == [
        "bigint",
        "string",
        "decimal(4,1)",
    ]
