"""The words of an expression."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidArgument
from penstock.features.expression_lexer import EXPRESSION_CHARS_MAX, InvalidExpression, tokens


def values(text: str) -> list[object]:
    return [token.value for token in tokens(text)][:-1]


def test_a_text_is_divided_into_words() -> None:
    found = list(tokens(" a1>=-1.5\n"))

    assert [(one.kind, one.value, one.place) for one in found] == [
        ("name", "a1", 1),
        ("symbol", ">=", 3),
        ("symbol", "-", 5),
        ("number", 1.5, 6),
        ("end", "", 10),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("007", 7),
        ("1.5e3", 1500.0),
        ("1e3", 1000.0),
        ("1e-07", 1e-7),
        ("2E+2", 200.0),
        (".5", 0.5),
        ("9223372036854775808", 1 << 63),  # with a sign it is an i64
    ],
)
def test_numbers(text: str, value: float) -> None:
    (found,) = values(text)

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a'", "a"),
        ('"it\'s"', "it's"),
        (r"'it\'s \"so\"'", 'it\'s "so"'),
        (r'"\\ \/ \n\t\r\b\f"', "\\ / \n\t\r\b\f"),
        (r"'\x41\u00e9\U0001F600'", "Aé\U0001f600"),
        (r"'\ud83d\ude00'", "\U0001f600"),
        ("'é 日本\n'", "é 日本\n"),
        ("''", ""),
    ],
)
def test_texts_in_both_kinds_of_quotes(text: str, value: str) -> None:
    assert values(text) == [value]


@pytest.mark.parametrize(
    ("text", "why", "place"),
    [
        ("a = 1", "equality is written ==", 2),
        ("a & b", "write and", 2),
        ("~a", "write not", 0),
        ("a ? b", "unexpected '?'", 2),
        ("é", "unexpected 'é'", 0),
        ("1x", "in a number", 1),
        ("1.5.2", "in a number", 3),
        ("1.", "in a number", 1),
        ("1e400", "too large for an f64", 0),
        ("9223372036854775809", "too large for an i64", 0),
        ("1" * 5000, "too large for an i64", 0),
        ("a + 'b", "has no end", 4),
        (r"'b\'", "has no end", 0),
        ("'b\\", "unknown escape", 2),
        (r"'\q'", "unknown escape", 1),
        (r"'\x4'", "unknown escape", 1),
        (r"'\U00110000'", "unknown escape", 1),
        (r"'\ud800'", "surrogate", 0),
    ],
)
def test_what_is_no_word_is_refused_with_its_place(text: str, why: str, place: int) -> None:
    with pytest.raises(InvalidExpression, match=why) as caught:
        list(tokens(text))

    assert caught.value.place == place
    assert len(str(caught.value)) < 300


def test_the_length_of_an_expression_is_bounded() -> None:
    assert values("'" + "a" * (EXPRESSION_CHARS_MAX - 2) + "'")
    with pytest.raises(InvalidArgument, match="at most 65536"):
        values(" " * (EXPRESSION_CHARS_MAX + 1))
