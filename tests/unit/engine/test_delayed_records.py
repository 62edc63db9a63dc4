"""Delayed records: stored at once, visible at their time, listed and cancelled until then."""

from __future__ import annotations

import os
from typing import Any

import pytest

from penstock import limits
from penstock.append_options import AppendOptions
from penstock.engine.core import Outcome
from penstock.engine.engine import Log
from penstock.errors import (
    AlreadyDelivered,
    Closed,
    DelayedNotFound,
    InvalidArgument,
    NotAQueue,
    Overloaded,
    PenstockError,
    TopicNotFound,
)
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.crash import VANISH
from penstock.testing.log import open_memory_log
from penstock.types import Appended, DelayedInfo, Record
from tests.unit.engine.support import everything


def pass_time(log: Log, clock: FakeClock, ms: int) -> None:
    clock.advance(ms)
    log.upkeep()


def test_the_answer_says_that_the_records_have_no_seqs_yet(
    memory_log: Log, penstock_clock: FakeClock
) -> None:
    memory_log.append("t", [1])

    answer = memory_log.append("t", [2, 3], delay_ms=1000)

    assert (answer.first_seq, answer.last_seq, answer.count) == (0, 0, 2)
    assert (answer.head_seq, answer.delayed_id, answer.topic) == (1, 1, "t")
    assert answer.epoch == memory_log.topic("t").epoch
    pass_time(memory_log, penstock_clock, 999)
    assert everything(memory_log) == [1]
    pass_time(memory_log, penstock_clock, 1)
    assert everything(memory_log) == [1, 2, 3]


def test_a_missing_topic_is_created_for_records_that_come_later(memory_log: Log) -> None:
    answer = memory_log.append("new", [1], delay_ms=5)

    assert (answer.created, answer.head_seq) == (True, 0)
    with pytest.raises(TopicNotFound):
        memory_log.append("none", [1], delay_ms=5, create=False)


def test_a_time_that_has_passed_is_now(memory_log: Log) -> None:
    assert memory_log.append("t", [1], deliver_at=5).first_seq == 1
    assert memory_log.append("t", [2], delay_ms=0).first_seq == 2


def test_a_record_keeps_all_that_it_has(memory_log: Log, penstock_clock: FakeClock) -> None:
    at_ms = penstock_clock.now_ms() + 50
    memory_log.append(
        "t",
        [Record({"a": 1}, tag="own", meta={"m": 1}), 2],
        tag="x",
        node="n",
        deliver_at=at_ms,
    )

    pass_time(memory_log, penstock_clock, 60)

    assert memory_log.read("t").records == [
        Record({"a": 1}, "own", "n", {"m": 1}, 1, at_ms + 10),
        Record(2, "x", "n", None, 2, at_ms + 10),
    ]


def test_what_is_delayed_is_listed(memory_log: Log, penstock_clock: FakeClock) -> None:
    now_ms = penstock_clock.now_ms()
    memory_log.append("t", [{"a": 1}, 2], delay_ms=500, tag="x")
    memory_log.append("u", [3], delay_ms=100)
    memory_log.append("t", [4], deliver_at=now_ms + 100)

    first, second = memory_log.delayed.batches("t")

    assert (first.id, first.topic, first.deliver_at) == (1, "t", now_ms + 500)
    assert first.records == [Record({"a": 1}, "x"), Record(2, "x")]
    assert (second.id, second.deliver_at, second.records) == (3, now_ms + 100, [Record(4)])
    assert memory_log.delayed.batches("t", after=1) == [second]
    assert memory_log.delayed.batches("t", limit=1) == [first]
    memory_log.create("v")
    assert memory_log.delayed.batches("v") == []


def test_what_is_delayed_is_listed_without_its_records(
    memory_log: Log, penstock_clock: FakeClock
) -> None:
    now_ms = penstock_clock.now_ms()
    for n in range(3):
        memory_log.append("t", [Record({"a": n}, meta=[1]), 2], delay_ms=500 - n)
        memory_log.append("u", [3], delay_ms=100)

    found = memory_log.delayed.infos("t")

    assert found == [
        DelayedInfo(1, "t", now_ms + 500, 2, 11),
        DelayedInfo(3, "t", now_ms + 499, 2, 11),
        DelayedInfo(5, "t", now_ms + 498, 2, 11),
    ]
    assert memory_log.delayed.infos("t", after=1, limit=1) == found[1:2]
    assert [(b.count, b.size) for b in memory_log.delayed.batches("t")] == [(2, 11)] * 3


def test_a_page_of_the_list_goes_on_where_the_one_before_it_ended_whatever_came_between(
    memory_log: Log, penstock_clock: FakeClock
) -> None:
    ids = [memory_log.append("t", [n], delay_ms=100 + n).delayed_id for n in range(6)]

    first = memory_log.delayed.infos("t", limit=3)
    pass_time(memory_log, penstock_clock, 104)
    late = memory_log.append("t", [9], delay_ms=100).delayed_id
    second = memory_log.delayed.infos("t", after=first[-1].id, limit=3)

    assert [one.id for one in first] == ids[:3]
    assert [one.id for one in second] == [ids[5], late]


def test_a_cancelled_batch_never_comes(memory_log: Log, penstock_clock: FakeClock) -> None:
    ids = [memory_log.append("t", [n], delay_ms=100).delayed_id for n in range(4)]
    memory_log.create("u")

    assert memory_log.delayed.cancel("u", ids) == 0
    assert memory_log.delayed.cancel("t", [ids[1], ids[3], ids[1], 99]) == 2
    assert memory_log.delayed.cancel("t", ids[1:2]) == 0
    pass_time(memory_log, penstock_clock, 200)

    assert everything(memory_log) == [0, 2]
    assert memory_log.delayed.cancel("t", ids) == 0


def test_a_cancel_of_one_says_why_it_cannot(memory_log: Log, penstock_clock: FakeClock) -> None:
    memory_log.create("t")
    with pytest.raises(DelayedNotFound):
        memory_log.delayed.cancel_one("t", 1)  # nothing was ever delayed
    ids = [memory_log.append("t", [n], delay_ms=100 + n).delayed_id for n in range(3)]
    of_another = memory_log.append("u", [1], delay_ms=500).delayed_id
    pass_time(memory_log, penstock_clock, 100)

    memory_log.delayed.cancel_one("t", ids[1])

    for gone in ids[:2]:  # delivered, cancelled
        with pytest.raises(AlreadyDelivered, match=f"the batch {gone} of topic 't'") as why:
            memory_log.delayed.cancel_one("t", gone)
        assert (why.value.topic, why.value.delayed_id) == ("t", gone)
    for unknown in (of_another, of_another + 1, 0, 1 << 40):
        with pytest.raises(DelayedNotFound, match=f"'t' .* with the id {unknown}$"):
            memory_log.delayed.cancel_one("t", unknown)
    with pytest.raises(InvalidArgument):
        memory_log.delayed.cancel_one("t", -1)
    with pytest.raises(TopicNotFound):
        memory_log.delayed.cancel_one("none", ids[2])
    assert [one.id for one in memory_log.delayed.infos("t")] == ids[2:]
    pass_time(memory_log, penstock_clock, 600)
    assert everything(memory_log) == [0, 2]


def test_a_batch_on_its_way_is_not_cancelled(memory_log: Log, penstock_clock: FakeClock) -> None:
    memory_log.create("t", cap_records=1, discard="reject")
    memory_log.append("t", [0])
    delayed_id = memory_log.append("t", [1], delay_ms=100).delayed_id
    pass_time(memory_log, penstock_clock, 100)  # it is leased, and there is no room for it

    with pytest.raises(AlreadyDelivered):
        memory_log.delayed.cancel_one("t", delayed_id)

    assert memory_log.delayed.infos("t") == []


def test_nothing_is_delayed_in_a_log_that_never_had_a_delay(memory_log: Log) -> None:
    memory_log.create("t")

    assert memory_log.delayed.batches("t") == []
    assert memory_log.delayed.cancel("t", [1]) == 0
    assert memory_log.topics() == [memory_log.topic("t")]


def test_a_repeated_append_adds_nothing(memory_log: Log, penstock_clock: FakeClock) -> None:
    first = memory_log.append("t", [1], delay_ms=100, idempotency_key="k")
    other = memory_log.append("u", [1], delay_ms=100, idempotency_key="k")
    again = memory_log.append("t", [1], delay_ms=100, idempotency_key="k")
    pass_time(memory_log, penstock_clock, 200)
    late = memory_log.append("t", [1], delay_ms=100, idempotency_key="k")
    pass_time(memory_log, penstock_clock, 200)

    assert (first.deduped, other.deduped, again.deduped, late.deduped) == (False, False, True, True)
    assert again.delayed_id == first.delayed_id
    assert (everything(memory_log), everything(memory_log, "u")) == ([1], [1])


@pytest.mark.parametrize(
    "wrong",
    [
        {"delay_ms": 5, "expected_seq": 0},
        {"delay_ms": 5, "deliver_at": 5},
        {"delay_ms": limits.DELAY_MS_MAX + 1},
        {"delay_ms": -1},
    ],
    ids=str,
)
def test_what_has_no_meaning_is_refused(memory_log: Log, wrong: dict[str, Any]) -> None:
    memory_log.create("t")

    with pytest.raises(InvalidArgument):
        memory_log.append("t", [1], **wrong)
    with pytest.raises(NotAQueue):
        memory_log.append("t", [1], cron="* * * * *")
    assert memory_log.delayed.batches("t") == []


def test_a_log_holds_so_many_delayed_batches(
    memory_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_log.append("t", [1], delay_ms=5)
    store = memory_log.core.parts.handles["_delayed"]
    full = store.topic.config.__class__(type="queue", cap_records=1, discard="reject")
    monkeypatch.setattr(store.topic, "config", full)

    with pytest.raises(Overloaded, match="too many delayed records"):
        memory_log.append("t", [2], delay_ms=5)
    answers: list[Outcome] = []
    with pytest.raises(Overloaded):
        memory_log.submit("t", [2], answers.append, delay_ms=5)
    assert answers == []


def test_the_answer_may_come_by_callback(memory_log: Log, penstock_clock: FakeClock) -> None:
    memory_log.create("t")
    answers: list[Appended | PenstockError] = []

    memory_log.submit("t", [1], answers.append, delay_ms=5, idempotency_key="k")
    memory_log.submit("t", [1], answers.append, delay_ms=5, idempotency_key="k")
    memory_log.submit("t", [2], answers.append, delay_ms=5)

    assert [
        (one.first_seq, one.delayed_id, one.deduped) for one in answers if isinstance(one, Appended)
    ] == [(0, 1, False), (0, 1, True), (0, 2, False)]
    pass_time(memory_log, penstock_clock, 5)
    assert everything(memory_log) == [1, 2]


def test_an_answer_by_callback_may_be_the_error(
    memory_log: Log, penstock_fs: MemoryFilesystem
) -> None:
    memory_log.create("t")
    answers: list[Outcome] = []
    batch = memory_log.core.batch_of([1], None, None, AppendOptions(delay_ms=5))
    penstock_fs.fail("sync", path="/wal/", persistent=True)

    memory_log.core.submit_to(memory_log.core.catalogue.get("t"), batch, answers.append)

    assert [isinstance(one, PenstockError) for one in answers] == [True]


@pytest.mark.parametrize("durability", ["ephemeral", "memory", "disk", "fsync"])
def test_what_is_delayed_survives_a_power_cut_in_every_class(durability: str) -> None:
    fs, clock = MemoryFilesystem(), FakeClock()
    log = open_memory_log(fs, clock)
    log.create("t", durability=durability)
    log.append("t", [1], delay_ms=1000)

    after = open_memory_log(fs.power_cut(lambda _: VANISH), clock)

    assert [one.id for one in after.delayed.batches("t")] == [1]
    pass_time(after, clock, 1000)
    assert [one for one in everything(after) if not isinstance(one, tuple)] == [1]


def test_what_is_delayed_for_a_dropped_topic_goes_with_it(
    memory_log: Log, penstock_clock: FakeClock
) -> None:
    memory_log.append("t", [1], delay_ms=100)
    memory_log.drop("t")
    memory_log.create("t")

    assert memory_log.delayed.batches("t") == []
    pass_time(memory_log, penstock_clock, 200)

    assert everything(memory_log) == []
    assert memory_log.core.parts.handles["_delayed"].topic.live == 0


def test_a_child_process_leaves_what_is_delayed_to_its_parent(tmp_path: Any) -> None:
    import penstock
    from tests.support.child import in_child

    with penstock.open(tmp_path / "log") as log:
        log.append("t", [1], delay_ms=60_000)
        owner = os.getpid()

        def use() -> None:
            for call in (lambda: log.delayed.batches("t"), lambda: log.delayed.cancel("t", [1])):
                with pytest.raises(Closed, match=f"belongs to process {owner}"):
                    call()

        assert in_child(use) == ""
        assert len(log.delayed.batches("t")) == 1
