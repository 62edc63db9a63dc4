"""Keys made from values."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.compat.qwp import keys
from penstock.compat.qwp.keys import Keys, MessageNumber, digest_of
from penstock.compat.qwp.resend_detection import Receipts

ROWS = [b"1", b"2"]
SAME = digest_of(b"me", "t", ROWS)


def nothing_held(key: bytes) -> bool:
    return False


def keys_of(receipts: Receipts) -> Keys:
    return Keys(receipts, receipts.open(lambda: 0, lambda: 0.0))


def test_everything_is_in_the_digest() -> None:
    made = {
        digest_of(owner, table, rows)
        for owner, table, rows in (
            (b"me", "t", ROWS),
            (b"you", "t", ROWS),
            (b"me", "u", ROWS),
            (b"me", "t", ROWS[::-1]),
            (b"me", "t", [b"12"]),
            (b"me", "t", [b"1"]),
            (b"", "t1", [b"2"]),
            (b"", "t", [b"12"]),
        )
    }

    assert len(made) == 8
    assert digest_of(b"me", "t", list(ROWS)) == SAME


def test_a_key_is_short_and_says_which_of_the_equal_ones_it_is() -> None:
    assert MessageNumber(SAME, 0).key != MessageNumber(SAME, 1).key
    assert len(MessageNumber(SAME, 1 << 60).key) <= limits.KEY_BYTES_MAX


def test_the_same_rows_again_on_one_connection_are_counted() -> None:
    """And on the next one the numbers are the same, as long as no OK was heard."""
    receipts = Receipts()
    first, second = keys_of(receipts), keys_of(receipts)

    assert [first.mark(SAME, nothing_held).number for _ in range(3)] == [0, 1, 2]
    assert [second.mark(SAME, nothing_held).number for _ in range(2)] == [0, 1]


def test_counting_goes_on_behind_what_was_heard() -> None:
    receipts = Receipts()
    told = receipts.open(lambda: 10, lambda: 0.0)
    first, second = Keys(receipts, told), keys_of(receipts)
    told.add([first.mark(SAME, nothing_held)], 10)

    assert [second.mark(SAME, nothing_held).number for _ in range(2)] == [1, 2]
    assert first.mark(SAME, nothing_held).number == 1


def test_what_the_topic_has_is_asked_for_by_its_key() -> None:
    held = {MessageNumber(SAME, number).key for number in range(4)}

    assert keys_of(Receipts()).mark(SAME, held.__contains__).number == 4


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_REMEMBERED_MAX", 2)
    made = keys_of(Receipts())
    for letter in (b"0", b"1", b"2"):
        made.mark(letter, nothing_held)

    assert made.mark(b"2", nothing_held).number == 1
    assert made.mark(b"0", nothing_held).number == 0
