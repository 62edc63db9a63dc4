from __future__ import annotations

import pytest

from penstock.errors import InvalidArgument
from penstock.lake.evolution import COLUMNS_MAX, Column, Seen, declared, fields_of, grown

ID = Column("id", "int", "id", True)
TOTAL = Column("total", "long", "total")


def test_a_project_may_add_columns_and_widen_them() -> None:
    wide = Column("id", "long", "id", True)
    new = Column("name", "string", "name")

    assert declared("orders", [ID, TOTAL], [wide, TOTAL, new]) == [wide, TOTAL, new]


def test_a_column_that_the_project_no_longer_has_stays_and_is_not_required() -> None:
    assert declared("orders", [ID, TOTAL], [TOTAL]) == [Column("id", "int", "id"), TOTAL]


def test_a_column_that_has_widened_by_itself_stays_wide() -> None:
    wide = Column("total", "double", "total")

    assert declared("orders", [wide], [TOTAL]) == [wide]


def test_any_other_change_is_refused_with_its_key() -> None:
    with pytest.raises(InvalidArgument) as caught:
        declared("orders", [TOTAL], [Column("total", "string", "total")])

    assert "silver.orders.columns.total is long" in str(caught.value)
    assert "cannot become string" in str(caught.value)


def seen(
    fields: dict[str, str] | None = None,
    words: dict[str, set[str]] | None = None,
    ranges: dict[str, tuple[int, int]] | None = None,
) -> Seen:
    return Seen(fields or {}, words or {}, ranges or {})


@pytest.mark.parametrize(
    ("kind", "words", "ranges", "becomes"),
    [
        ("int", {"BIGINT"}, (0, 5), "int"),
        ("int", {"BIGINT"}, (0, 1 << 31), "long"),
        ("int", {"BIGINT"}, (-(1 << 31) - 1, 0), "long"),
        ("int", {"BIGINT", "DECIMAL(2,1)"}, (0, 5), "double"),
        ("long", {"DOUBLE"}, (0, 0), "double"),
        ("long", {"DECIMAL(19,0)", "STRING"}, (0, 0), "double"),
        ("long", {"STRING"}, (0, 0), "long"),
        ("decimal(4,1)", {"DECIMAL(5,2)"}, (0, 0), "decimal(5,2)"),
        ("decimal(37,1)", {"DECIMAL(4,4)"}, (0, 0), "decimal(37,1)"),
    ],
)
def test_numbers_widen_to_what_was_seen(
    kind: str, words: set[str], ranges: tuple[int, int], becomes: str
) -> None:
    column = Column("n", kind, "n")

    found = grown([column], seen(words={"n": words}, ranges={"n": ranges}))

    assert found == [Column("n", becomes, "n")]


def test_new_fields_become_columns_of_their_type() -> None:
    fields = {"a": "BIGINT", "b": "DECIMAL(3,1)", "c": "VOID", "d": "VARIANT", "e": "ARRAY<X>"}

    found = grown([], seen({**fields, "f": "BOOLEAN", "g": "STRING"}))

    assert {column.name: column.kind for column in found} == {
        "a": "long",
        "b": "double",
        "d": "json",
        "e": "json",
        "f": "boolean",
        "g": "string",
    }


def test_a_field_whose_name_is_taken_is_left_out() -> None:
    renamed = Column("placed", "timestamp", "when")

    found = grown([renamed], seen({"When": "STRING", "PLACED": "STRING", "ts": "BIGINT"}), ["ts"])

    assert found == [renamed]


def test_there_is_an_end_to_new_columns() -> None:
    fields = {f"f{number}": "BIGINT" for number in range(COLUMNS_MAX + 5)}

    assert len(grown([], seen(fields))) == COLUMNS_MAX


def test_the_fields_in_a_word_for_an_object() -> None:
    word = "OBJECT<`a, b`: BIGINT, c: DECIMAL(3,1), d: OBJECT<x: BIGINT, y: ARRAY<STRING>>>"

    assert fields_of(word) == {
        "a, b": "BIGINT",
        "c": "DECIMAL(3,1)",
        "d": "OBJECT<x: BIGINT, y: ARRAY<STRING>>",
    }
    assert fields_of("OBJECT<``: BIGINT, ````: STRING, `x``: y`: BOOLEAN>") == {
        "": "BIGINT",
        "`": "STRING",
        "x`: y": "BOOLEAN",
    }
    assert fields_of("VARIANT") == {}
    assert fields_of("OBJECT<>") == {}
