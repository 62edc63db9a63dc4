"""What a topic remembers of senders."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.limits import PRODUCERS_MAX
from penstock.topics.producers import Producers, key_of, split


@given(producer=st.binary(max_size=40), number=st.integers(0, (1 << 64) - 1))
def test_a_key_says_whose_and_which(producer: bytes, number: int) -> None:
    assert split(key_of(producer, number)) == (producer, number)


def test_the_key_of_a_caller_is_nobodys_number() -> None:
    assert split(b"order-17") is None


def test_a_number_stands_for_all_before_it() -> None:
    known = Producers()

    known.note(b"a", 5)
    known.note(b"a", 3)

    assert known.has(b"a", 5)
    assert known.has(b"a", 0)
    assert not known.has(b"a", 6)
    assert not known.has(b"b", 0)


def test_who_was_heard_of_longest_ago_is_forgotten_first() -> None:
    known = Producers()
    for number in range(PRODUCERS_MAX):
        known.note(number.to_bytes(4, "big"), 1)
    known.note((0).to_bytes(4, "big"), 2)

    known.note(b"new", 1)

    assert known.has((0).to_bytes(4, "big"), 2)
    assert not known.has((1).to_bytes(4, "big"), 1)
    assert len(known.as_keys()) == PRODUCERS_MAX


def test_its_keys_are_all_there_is_to_it() -> None:
    known, again = Producers(), Producers()
    known.note(b"a", 7)
    known.note(b"b", 0)

    for key in known.as_keys():
        again.note(*(split(key) or (b"", 0)))

    assert again.as_keys() == known.as_keys()
    assert bool(again)
