"""Every category under every policy."""

from __future__ import annotations

import itertools

import pytest

from penstock.sender.connect_string import parse
from penstock.sender.error_policy import Category, ErrorPolicy, act_for, category_of
from penstock.wire.sender_protocol import ReplyStatus

KEYS = {
    Category.SCHEMA_MISMATCH: "on_schema_error",
    Category.WRITE_ERROR: "on_write_error",
    Category.PARSE_ERROR: "on_parse_error",
    Category.INTERNAL_ERROR: "on_internal_error",
    Category.SECURITY_ERROR: "on_security_error",
}
DEFAULTS = {
    Category.SCHEMA_MISMATCH: ErrorPolicy.DROP,
    Category.WRITE_ERROR: ErrorPolicy.DROP,
    Category.PARSE_ERROR: ErrorPolicy.HALT,
    Category.INTERNAL_ERROR: ErrorPolicy.HALT,
    Category.SECURITY_ERROR: ErrorPolicy.HALT,
    Category.PROTOCOL_VIOLATION: ErrorPolicy.HALT,
    Category.SPOOL_DAMAGE: ErrorPolicy.LOSE,
}
WORDS = ("auto", "drop", "halt", "retry")


@pytest.mark.parametrize(
    ("category", "own", "all_"), list(itertools.product(KEYS, WORDS, WORDS)), ids=str
)
def test_the_narrower_key_wins(category: Category, own: str, all_: str) -> None:
    others = "".join(f"{key}=retry;" for other, key in KEYS.items() if other is not category)
    profile = parse(f"ws::addr=h;on_server_error={all_};{KEYS[category]}={own};{others}")

    wanted = next((word for word in (own, all_) if word != "auto"), DEFAULTS[category])
    assert act_for(profile, category) == wanted


@pytest.mark.parametrize("category", Category)
def test_what_is_done_when_nobody_says_anything(category: Category) -> None:
    assert act_for(parse("ws::addr=h;"), category) is DEFAULTS[category]


@pytest.mark.parametrize("word", WORDS)
def test_a_broken_protocol_leaves_no_choice(word: str) -> None:
    profile = parse(f"ws::addr=h;on_server_error={word};")

    assert act_for(profile, Category.PROTOCOL_VIOLATION) is ErrorPolicy.HALT


def test_a_status_has_a_category() -> None:
    assert {status: category_of(status) for status in ReplyStatus if status not in (0, 2)} == {
        3: Category.SCHEMA_MISMATCH,
        5: Category.PARSE_ERROR,
        6: Category.INTERNAL_ERROR,
        8: Category.SECURITY_ERROR,
        9: Category.WRITE_ERROR,
    }


@pytest.mark.parametrize("status", [1, 4, 7, 12, 255])
def test_a_status_that_nobody_knows_is_the_servers_fault(status: int) -> None:
    assert category_of(status) is Category.INTERNAL_ERROR
