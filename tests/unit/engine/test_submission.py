"""Append without waiting: the caller's answer, and what is refused at once."""

from __future__ import annotations

import pytest

from penstock.engine.engine import Log
from penstock.errors import InvalidArgument, PenstockError, TopicNotFound
from penstock.types import Appended


def test_the_answer_comes_by_callback(memory_log: Log) -> None:
    memory_log.create("t")
    answers: list[Appended | PenstockError] = []

    memory_log.submit("t", [1, 2], answers.append, tag="x")

    [answer] = answers
    assert isinstance(answer, Appended)
    assert (answer.first_seq, answer.last_seq) == (1, 2)
    assert [record.tag for record in memory_log.read("t").records] == ["x", "x"]


def test_a_topic_must_exist(memory_log: Log) -> None:
    with pytest.raises(TopicNotFound):
        memory_log.submit("t", [1], lambda answer: None)
    with pytest.raises(InvalidArgument, match="submit creates no topic"):
        memory_log.submit("t", [1], lambda answer: None, create=True)
