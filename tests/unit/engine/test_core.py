"""What the core gives servers and tools; the verbs over it are tried in the other files here."""

from __future__ import annotations

import pytest

from penstock.engine.atomic_batches import TopicAppend
from penstock.engine.batch import Batch, prepare
from penstock.engine.core import Outcome
from penstock.engine.engine import Log
from penstock.errors import InvalidArgument, PenstockError, TopicFull
from penstock.testing import MemoryFilesystem
from penstock.types import Appended
from tests.unit.engine.colds import COLD, filled


def batch_of(*records: object, key: str | None = None) -> Batch:
    return prepare(list(records), tag=None, node=None, key=key)


def test_a_checked_batch_is_answered_by_callback(memory_log: Log) -> None:
    core = memory_log.core
    memory_log.create("t")
    handle = core.catalogue.get("t")
    batch = batch_of(1, 2)
    answers: list[Appended | PenstockError] = []

    def resolved(outcome: Outcome) -> None:
        core.note_wait(outcome, 0.25)
        answers.append(core.answer(outcome, batch))

    core.submit_to(handle, batch, resolved)

    [answer] = answers
    assert isinstance(answer, Appended)
    assert (answer.first_seq, answer.last_seq, answer.throttle_wait_ms) == (1, 2, 250.0)
    assert (handle.name, handle.head, handle.epoch) == ("t", 2, answer.epoch)


def test_a_batch_that_cannot_be_taken_raises_at_once(memory_log: Log) -> None:
    memory_log.create("t", discard="reject", cap_records=1)
    memory_log.append("t", [1])
    core = memory_log.core

    with pytest.raises(TopicFull):
        core.submit_to(core.catalogue.get("t"), batch_of(2), lambda outcome: None)


def test_a_key_is_known_once_its_batch_is_in_the_topic(memory_log: Log) -> None:
    memory_log.append("t", [1], idempotency_key="k")
    core = memory_log.core
    handle = core.catalogue.get("t")

    assert core.has_key(handle, batch_of(1, key="k").key)
    assert not core.has_key(handle, batch_of(1, key="other").key)
    assert not core.has_key(handle, b"")


def test_a_batch_over_several_topics_names_one(memory_log: Log) -> None:
    memory_log.create("t")
    core = memory_log.core

    with pytest.raises(InvalidArgument):
        core.append_parts([])
    [answer] = core.append_parts([TopicAppend(core.catalogue.get("t"), batch_of(1))])

    assert answer.last_seq == 1


def test_the_payload_of_all_topics_is_counted(memory_log: Log) -> None:
    memory_log.append("a", [12345])
    memory_log.append("b", [1])
    memory_log.append_many([("a", [1]), ("b", [1])])  # its intents are the log's own

    assert memory_log.core.catalogue.payload_bytes() == sum(
        info.bytes for info in memory_log.topics()
    )
    assert memory_log.core.catalogue.names("b") == ["b"]


def test_a_log_tells_where_its_cold_tier_is(memory_log: Log) -> None:
    with filled(MemoryFilesystem()) as cold:
        assert cold.core.cold_location == COLD
    assert memory_log.core.cold_location == ""


def test_commits_may_be_told_to_wait_for_others(memory_log: Log) -> None:
    memory_log.core.widen_commits(5.0)
    memory_log.append("t", [1])
    memory_log.core.widen_commits(None)

    assert memory_log.append("t", [2]).last_seq == 2
