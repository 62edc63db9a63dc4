"""Refused frames that a slot keeps, and how many it may."""

from __future__ import annotations

import pytest

from penstock.sender.dead_letters import DeadLetters
from penstock.sender.error_policy import ErrorPolicy
from penstock.sender.slot import Rejection, Slot
from penstock.testing.fs import MemoryFilesystem

WHY = Rejection("write_error", 9, "full")


@pytest.fixture
def slot() -> Slot:
    return Slot.open(MemoryFilesystem(), "/spool/one")


def test_each_is_counted_once_and_over_a_restart(slot: Slot) -> None:
    letters = DeadLetters(slot, are_kept=True, bytes_max=1000)
    for fsn in (1, 2, 2):
        letters.keep(fsn, b"i" * 16, b"x" * 100, WHY, now_ms=7)

    again = DeadLetters(slot, are_kept=True, bytes_max=200)

    assert letters.count == again.count == 2
    assert letters.has_room()
    assert not again.has_room()


def test_there_is_room_until_the_bound_is_reached(slot: Slot) -> None:
    letters = DeadLetters(slot, are_kept=True, bytes_max=250)

    kept = []
    for fsn in range(3):
        letters.keep(fsn, b"i" * 16, b"x" * 100, WHY, now_ms=7)
        kept.append(letters.has_room())

    assert kept == [True, True, False]


def test_what_was_removed_makes_room(slot: Slot) -> None:
    letters = DeadLetters(slot, are_kept=True, bytes_max=200)
    for fsn in range(3):
        letters.keep(fsn, b"i" * 16, b"x" * 100, WHY, now_ms=7)
    assert not letters.has_room()

    for fsn in range(2):
        slot.remove_dead_letter(fsn, b"i" * 16)

    assert letters.has_room()
    assert letters.count == 1


def test_without_room_the_sender_halts_and_says_what_to_do(slot: Slot) -> None:
    letters = DeadLetters(slot, are_kept=True, bytes_max=100)

    assert letters.admit("too long") == (ErrorPolicy.DROP, "too long")
    letters.keep(1, b"i" * 16, b"x" * 100, WHY, now_ms=7)
    act, text = letters.admit("too long")

    assert act is ErrorPolicy.HALT
    assert text.startswith("too long; the dead letters of the slot have reached sf_max_total_bytes")
    assert "penstock spool redrive" in text


def test_a_frame_that_nobody_keeps_is_called_lost(slot: Slot) -> None:
    letters = DeadLetters(slot, are_kept=False, bytes_max=100)

    act, text = letters.admit("too long")

    assert (act, text[-4:]) == (ErrorPolicy.LOSE, "LOST")
