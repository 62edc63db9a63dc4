"""The path of a write, through the log: numbers, batches, keys, refusals."""

from __future__ import annotations

import threading

import pytest

from penstock import limits
from penstock.config import Settings
from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.errors import (
    BatchTooLarge,
    InvalidArgument,
    LogFailed,
    PenstockError,
    RecordTooLarge,
    TopicFull,
    TopicNotFound,
)
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.crash import VANISH
from penstock.testing.log import ROOT, open_memory_log
from penstock.types import Appended
from tests.unit.engine.support import everything, killed, restarted

CLASSES = ["ephemeral", "memory", "disk", "fsync"]


# Seqs.


@pytest.mark.parametrize("durability", CLASSES)
def test_seqs_begin_at_one_and_a_batch_has_consecutive_ones(durability: str) -> None:
    log = open_memory_log()
    log.create("t", durability=durability)

    answers = [log.append("t", [1]), log.append("t", [2, 3, 4]), log.append("t", [5])]

    assert [(a.first_seq, a.last_seq, a.count, a.head_seq) for a in answers] == [
        (1, 1, 1, 1),
        (2, 4, 3, 4),
        (5, 5, 1, 5),
    ]
    assert [record.seq for record in log.read("t").records] == [1, 2, 3, 4, 5]


def test_the_answer_tells_the_topic_its_epoch_and_the_time(
    memory_log: Log, penstock_clock: FakeClock
) -> None:
    answer = memory_log.append("t", [1])

    assert (answer.topic, answer.epoch) == ("t", memory_log.topic("t").epoch)
    assert answer.ts == memory_log.read("t").records[0].ts == penstock_clock.now_ms()
    assert (answer.created, memory_log.append("t", [2]).created) == (True, False)


def test_time_never_goes_back_within_a_topic(memory_log: Log, penstock_clock: FakeClock) -> None:
    first = memory_log.append("t", [1]).ts
    penstock_clock.jump(-5000)

    second = memory_log.append("t", [2]).ts
    penstock_clock.jump(6000)

    assert second == first
    assert memory_log.append("t", [3]).ts == first + 1000


def test_without_leave_to_create_a_missing_topic_stays_missing(memory_log: Log) -> None:
    with pytest.raises(TopicNotFound):
        memory_log.append("t", [1], create=False)

    assert memory_log.topics() == []


# All or nothing.


@pytest.mark.parametrize(
    ("records", "error"),
    [
        ([], InvalidArgument),
        ([1, object()], InvalidArgument),
        ([b"1", b"[2"], InvalidArgument),
        ([1, "x" * limits.RECORD_BYTES_MAX], RecordTooLarge),
        ([1] * (limits.BATCH_RECORDS_MAX + 1), BatchTooLarge),
    ],
)
def test_a_refused_batch_leaves_no_trace(
    penstock_fs: MemoryFilesystem, memory_log: Log, records: list[object], error: type[Exception]
) -> None:
    memory_log.append("t", [0])
    before = penstock_fs.fingerprint()

    with pytest.raises(error):
        memory_log.append("t", records)

    assert penstock_fs.fingerprint() == before
    assert memory_log.append("t", [1]).first_seq == 2


@pytest.mark.parametrize("durability", ["memory", "disk", "fsync"])
def test_a_batch_is_there_whole_or_not_at_all_after_any_power_cut(durability: str) -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.create("t", durability=durability)
    text = b'"' + b"x" * 500 + b'"'
    states: list[MemoryFilesystem] = []
    fs.on_operation = lambda *_: states.extend(fs.crash_states(20))

    log.append("t", [text] * 4)
    fs.on_operation = None
    states.extend(fs.crash_states(60))

    assert {open_memory_log(state).topic("t").count for state in states} <= {0, 4}


@pytest.mark.parametrize("durability", ["memory", "disk"])
def test_a_killed_process_loses_nothing_that_was_acknowledged(durability: str) -> None:
    log = open_memory_log()
    log.create("t", durability=durability)
    log.append("t", [1, 2])

    assert everything(killed(log)) == [1, 2]


def test_an_fsync_topic_loses_nothing_to_a_power_cut() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.create("t", durability="fsync")
    log.append("t", [1, 2])

    again = open_memory_log(fs.power_cut(lambda _: VANISH))

    assert everything(again) == [1, 2]
    assert again.append("t", [3]).first_seq == 3


@pytest.mark.parametrize("durability", ["memory", "disk"])
def test_what_a_power_cut_took_is_told_and_its_seqs_are_not_used_again(durability: str) -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.create("t", durability=durability)
    log.append("t", [1, 2])

    again = open_memory_log(fs.power_cut(lambda _: VANISH))
    seq = again.append("t", [3]).first_seq

    assert seq > 2
    assert everything(again) == [(1, seq - 1, "lost"), 3]


@pytest.mark.parametrize("kind", ["write", "sync"])
def test_a_failed_append_is_never_seen_and_closes_the_log_for_writing(kind: str) -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.create("t", durability="fsync")
    log.append("t", [1])
    fs.fail(kind)

    for _ in range(2):
        with pytest.raises(LogFailed):
            log.append("t", [2])

    assert everything(log) == [1]
    assert log.failed is not None
    assert fs.synced_after_failure == 0
    fs.heal()
    assert everything(open_memory_log(fs.kill())) == [1]


# Idempotency keys.


@pytest.mark.parametrize("durability", CLASSES)
def test_a_key_seen_before_answers_with_the_first_seqs(durability: str) -> None:
    log = open_memory_log()
    log.create("t", durability=durability)
    first = log.append("t", [1, 2], idempotency_key="k")
    log.append("t", [3])

    again = log.append("t", ["other", "records", "here"], idempotency_key="k")

    assert (first.deduped, again.deduped, again.created) == (False, True, False)
    assert (again.first_seq, again.last_seq, again.count, again.ts) == (1, 2, 2, first.ts)
    assert everything(log) == [1, 2, 3]


def test_a_key_belongs_to_its_topic(memory_log: Log) -> None:
    answers = [memory_log.append(name, [1], idempotency_key="k") for name in ("t", "u")]

    assert [answer.deduped for answer in answers] == [False, False]


@pytest.mark.parametrize("again", [restarted, killed])
@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_key_is_remembered_after_a_restart(again, checkpointed: bool) -> None:
    log = open_memory_log()
    log.append("t", [1], idempotency_key="k")
    if checkpointed:
        log.checkpoint()

    answer = again(log).append("t", [1], idempotency_key="k")

    assert (answer.deduped, answer.first_seq) == (True, 1)


def test_a_key_is_forgotten_when_its_window_is_over(
    memory_log: Log, penstock_clock: FakeClock
) -> None:
    memory_log.create("t", idempotency_window_ms=1000)
    memory_log.append("t", [1], idempotency_key="k")
    penstock_clock.advance(1000)
    inside = memory_log.append("t", [1], idempotency_key="k")
    penstock_clock.advance(1)

    outside = memory_log.append("t", [1], idempotency_key="k")

    assert (inside.deduped, outside.deduped, outside.first_seq) == (True, False, 2)


def test_a_key_whose_append_failed_is_free_after_reopening() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.create("t", durability="fsync")
    fs.fail("write")
    with pytest.raises(LogFailed):
        log.append("t", [1], idempotency_key="k")
    fs.heal()

    answer = open_memory_log(fs.kill()).append("t", [1], idempotency_key="k")

    assert (answer.deduped, answer.first_seq) == (False, 1)


class Held:
    """A log whose next sync waits until the test lets it go."""

    def __init__(self) -> None:
        self.fs = MemoryFilesystem()
        settings = Settings(wal_shards=1, wal_file_bytes=1 << 20)
        self.log = open_log(ROOT, settings=settings, fs=self.fs)
        self.log.create("t", durability="fsync")
        self.is_syncing = threading.Event()
        self._go = threading.Event()
        self._answers: list[object] = []
        self._threads: list[threading.Thread] = []
        self.fs.on_operation = self._hold

    def _hold(self, index: int, kind: str, path: str) -> None:
        if kind == "sync" and path.endswith(".log") and not self.is_syncing.is_set():
            self.is_syncing.set()
            assert self._go.wait(60.0)

    def append(self, data: object, key: str) -> None:
        def work() -> None:
            try:
                self._answers.append(self.log.append("t", [data], idempotency_key=key))
            except PenstockError as error:
                self._answers.append(error)

        thread = threading.Thread(target=work)
        self._threads.append(thread)
        thread.start()

    def let_go(self) -> list[object]:
        self._go.set()
        for thread in self._threads:
            thread.join(60.0)
        return self._answers


def test_two_writers_with_one_key_write_once_and_one_is_told_it_was_not_the_first() -> None:
    held = Held()
    with held.log as log:
        held.append("winner", "k")
        assert held.is_syncing.wait(60.0)
        held.append("loser", "k")

        answers = held.let_go()

        assert sorted((a.first_seq, a.last_seq, a.deduped) for a in answers) == [
            (1, 1, False),
            (1, 1, True),
        ]
        assert everything(log) == ["winner"]


def test_a_submission_that_meets_its_key_under_way_is_answered_too() -> None:
    held = Held()
    with held.log as log:
        held.append("winner", "k")
        assert held.is_syncing.wait(60.0)
        answers: list[object] = []
        answered = threading.Event()

        def done(answer: Appended | PenstockError) -> None:
            answers.append(answer)
            answered.set()

        log.submit("t", ["loser"], done, idempotency_key="k")
        held.let_go()

        assert answered.wait(60.0)
        assert [(a.first_seq, a.deduped) for a in answers] == [(1, True)]


def test_many_threads_with_one_key_write_once(penstock_log: Log) -> None:
    penstock_log.create("t")
    answers: list[Appended] = []
    together = threading.Barrier(6)

    def work() -> None:
        for number in range(20):
            together.wait(60.0)
            answers.append(penstock_log.append("t", [number], idempotency_key=str(number)))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)

    assert everything(penstock_log) == list(range(20))
    assert sum(not answer.deduped for answer in answers) == 20
    assert len(answers) == 120


# Topics that reject.


def test_a_full_topic_says_so_with_nothing_written_and_no_seq_used(
    penstock_fs: MemoryFilesystem, memory_log: Log
) -> None:
    memory_log.create("t", discard="reject", cap_records=3)
    memory_log.append("t", [1, 2])
    before = penstock_fs.fingerprint()

    with pytest.raises(TopicFull) as caught:
        memory_log.append("t", [3, 4])

    assert (caught.value.cap_records, caught.value.head_seq) == (3, 2)
    assert penstock_fs.fingerprint() == before
    assert memory_log.append("t", [3]).first_seq == 3
    memory_log.delete("t", before_seq=2)
    assert memory_log.append("t", [4]).first_seq == 4


def test_a_full_topic_counts_bytes_too(memory_log: Log) -> None:
    memory_log.create("t", discard="reject", cap_bytes=10)
    memory_log.append("t", [b"123456"])

    with pytest.raises(TopicFull):
        memory_log.append("t", [b"12345"])

    assert memory_log.append("t", [b"1234"]).first_seq == 2


@pytest.mark.parametrize("caps", [{"cap_records": 2}, {"cap_bytes": 2}])
def test_a_batch_that_could_never_fit_is_another_error(
    memory_log: Log, caps: dict[str, int]
) -> None:
    memory_log.create("t", discard="reject", **caps)

    with pytest.raises(RecordTooLarge, match="never fit"):
        memory_log.append("t", [1, 2, 3])


def test_racing_writers_never_overfill_a_topic(penstock_log: Log) -> None:
    penstock_log.create("t", discard="reject", cap_records=50)
    refused: list[TopicFull] = []

    def work() -> None:
        for number in range(20):
            try:
                penstock_log.append("t", [number])
            except TopicFull as error:
                refused.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)

    assert penstock_log.topic("t").count == 50
    assert len(refused) == 30


# Without waiting.


def test_a_submission_is_answered_through_its_callback(memory_log: Log) -> None:
    memory_log.create("t")
    answers: list[object] = []

    memory_log.submit("t", [1, 2], answers.append, idempotency_key="k")
    memory_log.submit("t", [9], answers.append, idempotency_key="k")

    assert [(a.first_seq, a.count, a.deduped) for a in answers] == [(1, 2, False), (1, 2, True)]


def test_a_submission_that_fails_is_answered_with_the_error() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.create("t", durability="fsync")
    fs.fail("sync")
    answers: list[object] = []

    log.submit("t", [1], answers.append)

    assert [type(answer) for answer in answers] == [LogFailed]


def test_a_submission_to_a_missing_topic_is_refused_at_once(memory_log: Log) -> None:
    with pytest.raises(TopicNotFound):
        memory_log.submit("t", [1], print)


# Reservations.


@pytest.mark.parametrize("durability", ["ephemeral", "memory", "disk"])
def test_seqs_are_reserved_anew_before_they_run_out(
    monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    monkeypatch.setattr(limits, "SEQ_RESERVE", 3)
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.create("t", durability=durability)
    given: list[int] = []

    for _ in range(12):
        given.append(log.append("t", [1]).last_seq)
        survivor = open_memory_log(fs.power_cut(lambda _: VANISH))
        assert survivor.append("t", [1]).first_seq > given[-1]

    assert given == list(range(1, 13))
