"""What a topic remembers of senders."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.limits import PRODUCERS_MAX
from penstock.topics.idempotency import (
    PRODUCER_BYTES,
    PROOF_BYTES,
    RUN_BITS,
    Producers,
    key_of,
    name_of,
    split,
)

A, B = bytes(PRODUCER_BYTES), b"b" * PRODUCER_BYTES
PART, END = b"\0", b"\1"


@given(
    producer=st.binary(min_size=PRODUCER_BYTES, max_size=PRODUCER_BYTES),
    number=st.integers(0, (1 << 64) - 1),
    proof=st.just(b"") | st.binary(min_size=PROOF_BYTES, max_size=PROOF_BYTES),
)
def test_a_key_says_whose_and_which(producer: bytes, number: int, proof: bytes) -> None:
    key = key_of(producer, number, proof)

    assert split(key) == (producer, number, proof)
    assert name_of(key) == key_of(producer, number)


def test_the_key_of_a_caller_is_nobodys_number() -> None:
    assert split(b"order-17") is None
    assert name_of(b"order-17") == b"order-17"


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
        known.note(number.to_bytes(PRODUCER_BYTES, "big"), 1)
    known.note((0).to_bytes(PRODUCER_BYTES, "big"), 2)

    known.note(B, 1)

    assert known.has((0).to_bytes(PRODUCER_BYTES, "big"), 2)
    assert not known.has((1).to_bytes(PRODUCER_BYTES, "big"), 1)
    assert len(known.as_keys()) == PRODUCERS_MAX


def test_its_keys_are_all_there_is_to_it() -> None:
    known, again = Producers(), Producers()
    known.note(A, 7)
    known.note(B, 0, b"checksum" + END)

    for key in known.as_keys():
        again.note(*(split(key) or (b"", 0)))

    assert again.as_keys() == known.as_keys()
    assert bool(again)


def number(run: int, place: int) -> int:
    return (run << RUN_BITS) + place


def told(text: str, end: bytes = PART) -> bytes:
    return text.encode().ljust(8) + end


def test_the_same_run_again_is_known_whether_it_was_whole_or_not() -> None:
    """Live and under way: all that was taken is proved by the last of it."""
    run = [told("a"), told("ab"), told("abc", END)]
    for taken in range(1, 4):
        known = Producers()
        for place, proof in enumerate(run[:taken]):
            known.note(A, number(5, place), proof)

        found = [known.has(A, number(5, place), proof) for place, proof in enumerate(run)]

        assert found == [place < taken for place in range(3)]
        assert not known.has(A, number(6, 0), told("x", END)), "the next run is another one"


@pytest.mark.parametrize(
    "again",
    [
        pytest.param([(0, told("x", END))], id="shorter, and other rows"),
        pytest.param([(0, told("a")), (1, told("ab", END))], id="it ends before"),
        pytest.param([(2, told("abd", END))], id="other rows in the last batch"),
        pytest.param([(2, told("abc"))], id="it goes on"),
        pytest.param([(3, told("abcd", END))], id="behind its end"),
    ],
)
def test_a_run_that_comes_again_with_other_rows_is_refused(again: list[tuple[int, bytes]]) -> None:
    known = Producers()
    for place, proof in enumerate([told("a"), told("ab"), told("abc", END)]):
        known.note(A, number(5, place), proof)

    with pytest.raises(InvalidArgument, match="run 5 comes again"):
        _ = [known.has(A, number(5, place), proof) for place, proof in again]


def test_a_run_before_the_last_cannot_be_proved_and_is_refused() -> None:
    known = Producers()
    known.note(A, number(5, 0), told("a", END))

    with pytest.raises(InvalidArgument, match="run 4 comes again"):
        known.has(A, number(4, 0), told("a", END))


def test_who_gives_no_proof_is_known_by_the_number_alone() -> None:
    known = Producers()
    known.note(A, number(5, 0))

    assert known.has(A, number(4, 0))
    assert known.has(A, number(5, 0), told("a", END))
