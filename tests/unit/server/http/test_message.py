"""What a request's query says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.server.http.message import Request, form_decoded


def asked(query: str) -> Request:
    exchange: Any = None
    return Request("GET", "/", query, {}, exchange, 0.0)


def test_the_first_value_wins_and_is_form_decoded() -> None:
    request = asked("a=1&b=x+y%21&a=2&c&%64=3")

    assert request.query("a") == "1"
    assert request.query("b") == "x y!"
    assert request.query("c") == ""
    assert request.query("d") == "3"
    assert request.query("e") is None
    assert asked("").query("a") is None


@pytest.mark.parametrize(
    ("query", "default", "expected"),
    [
        ("f=true", False, True),
        ("f=1", False, True),
        ("f=false", True, False),
        ("f=0", True, False),
        ("f=yes", True, True),
        ("f=yes", False, False),
        ("", True, True),
        ("", False, False),
    ],
)
def test_a_flag_is_one_of_four_words_or_its_default(
    query: str, default: bool, expected: bool
) -> None:
    assert asked(query).flag("f", default) is expected


@pytest.mark.parametrize(
    ("text", "expected"), [("12", 12), ("", 5), ("x", 5), ("-1", 5), ("1.5", 5), ("9" * 30, 5)]
)
def test_a_number_that_cannot_be_read_is_its_default(text: str, expected: int) -> None:
    assert asked(f"n={text}").number("n", 5) == expected


@given(st.text())
def test_decoding_never_fails(text: str) -> None:
    assert isinstance(form_decoded(text.encode("utf-8", "replace").decode("latin-1")), str)
