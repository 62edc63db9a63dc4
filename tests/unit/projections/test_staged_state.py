"""A state that was made elsewhere goes on from its offset, or is refused."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidArgument
from penstock.projections.staged_state import StagedState
from penstock.types import Offset
from tests.unit.projections.support import Adder, ListTail


def staged_at(tail: ListTail, seq: int, epoch: int = 1, bytes_max: int = 1 << 20) -> StagedState:
    return StagedState(Adder(), Offset(epoch, seq), tail, bytes_max)


def adder_of(staged: StagedState) -> Adder:
    assert isinstance(staged.projection, Adder)
    return staged.projection


def test_it_folds_what_came_after_it_and_then_what_comes() -> None:
    tail = ListTail(b"1", b"2", b"3")
    staged = staged_at(tail, 1)

    assert staged.catch_up() == 2
    assert (adder_of(staged).sum, staged.applied) == (5, Offset(1, 3))
    tail.add(b"10")
    assert staged.catch_up() == 1
    assert (adder_of(staged).sum, staged.applied) == (15, Offset(1, 4))
    assert staged.catch_up() == 0


def test_a_state_of_no_topic_of_another_epoch_or_newer_than_the_log_is_refused() -> None:
    tail = ListTail(b"1", b"2")

    with pytest.raises(InvalidArgument, match=r"newer than the log: .* up to seq 3, .* head is 2"):
        staged_at(tail, 3)
    with pytest.raises(InvalidArgument, match="epoch 2 of topic 't', and the topic has epoch 1"):
        staged_at(tail, 1, epoch=2)
    tail.is_there = False
    with pytest.raises(InvalidArgument, match="topic 't', which does not exist here"):
        staged_at(tail, 1)


def test_records_that_were_lost_behind_it_are_no_reason_to_go_on() -> None:
    tail = ListTail(b"1", b"2")
    tail.lose(2, "cap")
    tail.add(b"5")

    with pytest.raises(InvalidArgument, match=r"ends at seq 1, and the records 2 to 4|3 to 4"):
        staged_at(tail, 1).catch_up()
    assert staged_at(tail, 4).catch_up() == 1


def test_a_topic_that_is_created_again_meanwhile_is_found() -> None:
    tail = ListTail(b"1", b"2")
    staged = staged_at(tail, 1)

    tail.create_again(b"1", b"2", b"3")

    with pytest.raises(InvalidArgument, match="created again"):
        staged.catch_up()


def test_a_state_that_needs_too_much_memory_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"needs \d+ bytes of memory, and may have -1"):
        staged_at(ListTail(b"1"), 0, bytes_max=-1).catch_up()
