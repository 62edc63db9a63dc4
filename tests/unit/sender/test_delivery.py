"""What was sent, against what was answered, and a model that keeps a list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.errors import InvalidArgument
from penstock.sender.delivery import Delivery, Poison
from penstock.wire.sender_protocol import Reply, ReplyStatus

REFUSALS = [status for status in ReplyStatus if status not in (ReplyStatus.OK, ReplyStatus.DURABLE)]


class Connections(RuleBasedStateMachine):
    """The model has one word for each frame that was sent."""

    @initialize(first=st.integers(0, 1000), is_durable=st.booleans())
    def connect(self, first: int, is_durable: bool) -> None:
        self.first = first
        self.is_durable = is_durable
        self.delivery = Delivery(first, is_durable=is_durable)
        self.words: list[str] = []

    @rule(count=st.integers(1, 5))
    def send(self, count: int) -> None:
        self.delivery.record_sent(count)
        self.words += ["sent"] * count

    @rule(count=st.integers(0, 40))
    def take(self, count: int) -> None:
        self._answer(ReplyStatus.OK, count, "taken")

    @rule(count=st.integers(0, 40))
    def sync(self, count: int) -> None:
        if not self.is_durable:
            with pytest.raises(InvalidArgument):
                self.delivery.handle_reply(Reply(ReplyStatus.DURABLE, count))
            return
        self._answer(ReplyStatus.DURABLE, count, "synced")

    @rule(count=st.integers(0, 40), status=st.sampled_from(REFUSALS))
    def refuse(self, count: int, status: ReplyStatus) -> None:
        if count < len(self.words):
            reply = Reply(status, count, "no")
            assert self.delivery.handle_reply(reply) == self.first + count
        else:
            self._refused_answer(Reply(status, count))

    def _answer(self, status: ReplyStatus, count: int, word: str) -> None:
        reply = Reply(status, count)
        if count >= len(self.words):
            self._refused_answer(reply)
            return
        assert self.delivery.handle_reply(reply) is None
        for at in range(count + 1):
            if word == "taken" and self.words[at] == "sent":
                self.words[at] = "taken"
            elif word == "synced" and self.words[at] == "taken":
                self.words[at] = "synced"

    def _refused_answer(self, reply: Reply) -> None:
        with pytest.raises(InvalidArgument):
            self.delivery.handle_reply(reply)

    @invariant()
    def agree(self) -> None:
        done = "synced" if self.is_durable else "taken"
        count = self.words.count(done)
        assert self.words[:count] == [done] * count
        assert self.delivery.acked_fsn == self.first + count - 1
        assert self.delivery.next_fsn == self.first + len(self.words)
        assert self.delivery.waits_for_sync == (self.is_durable and "taken" in self.words)


TestConnections = Connections.TestCase


# Frames that end connections.


def test_enough_strikes_over_enough_time_are_enough() -> None:
    poison = Poison(most=3, window_s=5)

    assert not poison.record_failure(7, 0)
    assert not poison.record_failure(7, 1)
    assert not poison.record_failure(7, 4.9)
    assert poison.record_failure(7, 5)
    assert poison.failures == 4


def test_time_alone_is_not_enough() -> None:
    poison = Poison(most=3, window_s=5)

    assert not poison.record_failure(7, 0)
    assert not poison.record_failure(7, 100)
    assert poison.record_failure(7, 100)


def test_another_frame_begins_anew() -> None:
    poison = Poison(most=2, window_s=0)

    assert not poison.record_failure(7, 0)
    assert not poison.record_failure(8, 0)
    assert not poison.record_failure(7, 0)
    assert poison.record_failure(7, 0)


@given(st.integers(1, 10))
def test_without_a_window_the_count_decides(most: int) -> None:
    poison = Poison(most=most, window_s=0)

    assert [poison.record_failure(0, 0) for _ in range(most)] == [False] * (most - 1) + [True]
