"""The runner: replay is live, a saved state plus the rest is the whole, and nothing is guessed."""

from __future__ import annotations

import errno
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.codec.columns import Columns
from penstock.errors import NotReady, ProjectionFailed
from penstock.projections.runner import ProjectionRunner, RunnerOptions
from penstock.testing.clock import FakeClock
from penstock.testing.fs import MemoryFilesystem
from penstock.types import Offset
from tests.unit.projections.support import Adder, ListTail

HOME = "/data/projections/1"
PATH = f"{HOME}/state.bin"


def runner_of(
    tail: ListTail,
    fs: MemoryFilesystem | None = None,
    make: Callable[[], Adder] = Adder,
    clock: FakeClock | None = None,
    **options: Any,
) -> ProjectionRunner:
    made = ProjectionRunner(
        fs or MemoryFilesystem(), HOME, tail, make, clock or FakeClock(), RunnerOptions(**options)
    )
    made.restore()
    return made


def adder_of(runner: ProjectionRunner) -> Adder:
    assert isinstance(runner.projection, Adder)
    return runner.projection


def state_of(runner: ProjectionRunner) -> tuple[int, int]:
    return adder_of(runner).sum, adder_of(runner).order


def numbers(*values: int) -> list[bytes]:
    return [b"%d" % value for value in values]


def test_it_folds_what_is_there_and_then_what_comes() -> None:
    tail = ListTail(*numbers(1, 2))
    runner = runner_of(tail)

    assert runner.catch_up()
    assert (adder_of(runner).sum, runner.applied) == (3, Offset(1, 2))
    tail.add(*numbers(5))
    runner.read_own()

    assert (adder_of(runner).sum, runner.status.state, runner.lag) == (8, "ready", 0)


def test_pages_of_any_size_give_the_same_state() -> None:
    tail = ListTail(*numbers(*range(50)))

    states = set()
    for size in (1, 3, 50, 1000):
        runner = runner_of(tail, page_records=size)
        runner.catch_up()
        states.add(state_of(runner))

    assert len(states) == 1


def test_a_limit_ends_early_and_says_so() -> None:
    runner = runner_of(ListTail(*numbers(*range(10))))

    assert not runner.catch_up(4)
    assert runner.applied == Offset(1, 4)
    states = [runner.status.state]
    assert runner.catch_up(100)
    assert [*states, runner.status.state] == ["replaying", "ready"]


def test_a_saved_state_and_the_rest_is_the_whole() -> None:
    fs, tail = MemoryFilesystem(), ListTail(*numbers(1, 2, 3))
    first = runner_of(tail, fs)
    first.catch_up()
    assert first.save()
    tail.add(*numbers(4, 5))

    again = runner_of(tail, fs)
    assert (again.applied, adder_of(again).sum) == (Offset(1, 3), 6)
    again.catch_up()

    whole = runner_of(tail)
    whole.catch_up()
    assert state_of(again) == state_of(whole)
    assert again.counts.records == 2


def test_records_applied_between_the_parts_belong_to_the_next_save() -> None:
    fs, tail = MemoryFilesystem(), ListTail(*numbers(1, 2, 3))
    runner = runner_of(tail, fs)
    runner.catch_up()

    def apply_more(index: int, kind: str, path: str) -> None:
        if kind == "write" and len(tail.records) < 20:
            tail.add(*numbers(7))
            runner.catch_up()

    fs.on_operation = apply_more
    assert runner.save()
    fs.on_operation = None

    assert len(tail.records) > 5
    restored = runner_of(tail, fs)
    assert (restored.applied, adder_of(restored).sum) == (Offset(1, 3), 6)
    restored.catch_up()
    assert state_of(restored) == state_of(runner)
    assert runner.save_due_s is not None


def test_a_save_that_rests_between_its_parts_is_finished_when_it_is_closed() -> None:
    fs, tail = MemoryFilesystem(), ListTail(*numbers(1, 2, 3))
    runner = runner_of(tail, fs)  # whose time stands still: a rest does not end by itself
    runner.catch_up()

    def apply_more(index: int, kind: str, path: str) -> None:
        if kind == "write" and len(tail.records) < 20:
            tail.add(*numbers(7))
            runner.catch_up()

    fs.on_operation = apply_more
    saving = threading.Thread(target=runner.save, args=(1.0,))
    saving.start()
    runner.close()
    saving.join()
    fs.on_operation = None

    restored = runner_of(tail, fs)
    assert restored.applied is not None
    restored.catch_up()
    assert state_of(restored) == state_of(runner)


def test_it_never_saves_past_the_synced_seq() -> None:
    fs, tail = MemoryFilesystem(), ListTail(*numbers(1, 2))
    seen: list[tuple[str, int]] = []
    fs.on_operation = lambda index, kind, path: seen.append((kind, tail.synced_seq))
    runner = runner_of(tail, fs)
    runner.catch_up()

    assert runner.save()

    assert tail.syncs == 1
    assert dict(seen)["rename"] == 2


def test_it_does_not_sync_what_is_synced() -> None:
    tail = ListTail(*numbers(1, 2))
    tail.synced_seq = 2
    runner = runner_of(tail)
    runner.catch_up()

    assert runner.save()
    assert tail.syncs == 0


def test_a_topic_that_cannot_be_synced_is_not_saved() -> None:
    fs, tail = MemoryFilesystem(), ListTail(*numbers(1, 2))
    tail.can_sync = False
    runner = runner_of(tail, fs)
    runner.catch_up()

    assert not runner.save()
    assert (runner.counts.snapshot_errors, fs.list(HOME)) == (1, [])
    assert runner.save_due_s is not None


def test_nothing_new_is_not_saved_again() -> None:
    runner = runner_of(ListTail(*numbers(1)))
    due = [runner.save_due_s]
    runner.catch_up()
    due.append(runner.save_due_s)
    assert runner.save()

    assert [*due, runner.save_due_s] == [None, 30, None]
    assert not runner.save()


def test_a_disk_that_fails_costs_a_save_and_nothing_else() -> None:
    fs, tail = MemoryFilesystem(), ListTail(*numbers(1))
    runner = runner_of(tail, fs)
    runner.catch_up()
    fs.fail("sync", error=errno.EIO)

    assert not runner.save()
    assert "Input/output" in runner.counts.snapshot_error
    assert runner.save()

    assert (runner.status.snapshot, runner.counts.snapshots) == (Offset(1, 1), 1)


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda fs, tail: fs.corrupt(PATH, 30), "head is damaged"),
        (lambda fs, tail: fs.replace(PATH, bytes(fs.map(PATH))[:-1]), "end is damaged"),
        (lambda fs, tail: setattr(tail, "log_id", bytes(16)), "another log"),
        (lambda fs, tail: setattr(tail, "topic", "u"), "from topic 't', not 'u'"),
        (lambda fs, tail: tail.create_again(*numbers(9, 9, 9, 9)), "created again"),
        (lambda fs, tail: setattr(tail, "records", tail.records[:2]), "newer than the log"),
        (lambda fs, tail: setattr(tail, "is_there", False), "does not exist"),
    ],
)
def test_a_saved_state_that_does_not_fit_is_thrown_away_and_folded_again(
    harm: Callable[[MemoryFilesystem, ListTail], None], reason: str
) -> None:
    fs, tail = MemoryFilesystem(), ListTail(*numbers(1, 2, 3))
    runner = runner_of(tail, fs)
    runner.catch_up()
    runner.save()

    harm(fs, tail)
    again = runner_of(tail, fs)

    assert (again.counts.discarded, again.applied, fs.list(HOME)) == (1, None, [])
    assert reason in again.counts.discard_reason
    again.catch_up()
    whole = runner_of(tail)
    whole.catch_up()
    assert state_of(again) == state_of(whole)


@pytest.mark.parametrize(
    "make", [lambda: Adder(version=2), lambda: Adder(definition=b"[]")], ids=["version", "def"]
)
def test_another_version_or_definition_is_folded_again(make: Callable[[], Adder]) -> None:
    fs, tail = MemoryFilesystem(), ListTail(*numbers(1, 2, 3))
    runner = runner_of(tail, fs)
    runner.catch_up()
    runner.save()

    again = runner_of(tail, fs, make)

    assert (again.applied, again.counts.discarded) == (None, 1)


def test_parts_that_the_projection_refuses_are_folded_again() -> None:
    class Unwilling(Adder):
        def restore(self, parts: Any) -> None:
            self.sum = 77
            raise KeyError("no")

    fs, tail = MemoryFilesystem(), ListTail(*numbers(1, 2, 3))
    runner = runner_of(tail, fs)
    runner.catch_up()
    runner.save()

    again = runner_of(tail, fs, Unwilling)

    assert (again.applied, adder_of(again).sum) == (None, 0)
    assert "cannot be used" in again.counts.discard_reason


def test_a_saved_state_for_which_there_is_no_memory_stays_on_disk() -> None:
    class Crowded(Adder):
        def restore(self, parts: Any) -> None:
            raise MemoryError("a lot was wanted")

    fs, tail = MemoryFilesystem(), ListTail(*numbers(1, 2, 3))
    runner = runner_of(tail, fs)
    runner.catch_up()
    runner.save()

    with pytest.raises(ProjectionFailed, match=r"no memory for the saved state: a lot was wanted"):
        runner_of(tail, fs, Crowded)

    tail.lose(1)
    again = runner_of(tail, fs)
    assert (again.applied, adder_of(again).sum) == (Offset(1, 3), 6)


@pytest.mark.parametrize("policy", ["accept", "rebuild"])
def test_a_gap_that_was_there_at_the_beginning_is_marked(policy: str) -> None:
    tail = ListTail(*numbers(1))
    tail.lose(3)
    tail.add(*numbers(5))
    runner = runner_of(tail, on_gap=policy)

    runner.catch_up()

    assert (adder_of(runner).sum, adder_of(runner).lost) == (6, 3)
    assert (runner.counts.gaps, runner.counts.lost_seqs, runner.counts.rebuilds) == (1, 3, 0)


def test_accept_marks_a_new_gap_and_goes_on() -> None:
    tail = ListTail(*numbers(1))
    runner = runner_of(tail)
    runner.catch_up()
    tail.lose(2)
    runner.catch_up()

    assert (adder_of(runner).lost, runner.counts.rebuilds, runner.lag) == (2, 0, 0)


def test_rebuild_begins_again_once_for_a_new_gap() -> None:
    made: list[Adder] = []

    def make() -> Adder:
        made.append(Adder())
        return made[-1]

    tail = ListTail(*numbers(1, 2))
    runner = runner_of(tail, make=make, on_gap="rebuild")
    runner.catch_up()
    tail.lose(2)
    tail.add(*numbers(4))
    runner.catch_up()

    assert (len(made), adder_of(runner).sum, adder_of(runner).lost) == (2, 7, 2)
    assert "records 3 to 4 were lost" in runner.counts.rebuild_reason
    assert runner.status.state == "ready"


def test_fail_stops_at_a_gap_until_it_is_rebuilt() -> None:
    fs, tail = MemoryFilesystem(), ListTail(*numbers(1))
    runner = runner_of(tail, fs, on_gap="fail")
    runner.catch_up()
    runner.save()
    tail.lose(2)

    for _ in range(2):
        with pytest.raises(ProjectionFailed, match="records 2 to 3 were lost"):
            runner.read_own()
    assert runner.status.state == "failed"
    with pytest.raises(ProjectionFailed):
        runner_of(tail, fs, on_gap="fail").catch_up()  # opening again is no way around it

    runner.rebuild()
    runner.read_own()
    assert (runner.status.state, adder_of(runner).lost) == ("ready", 2)


def test_a_dropped_topic_leaves_an_empty_state_and_a_new_one_is_folded() -> None:
    fs, tail = MemoryFilesystem(), ListTail(*numbers(1, 2))
    runner = runner_of(tail, fs)
    runner.catch_up()
    runner.save()

    tail.is_there = False
    runner.read_own()
    assert (adder_of(runner).sum, runner.applied, fs.list(HOME)) == (0, None, [])
    assert runner.status.head is None

    tail.create_again(*numbers(8))
    runner.read_own()
    assert (adder_of(runner).sum, runner.applied) == (8, Offset(2, 1))


def test_a_topic_that_was_created_again_meanwhile_is_folded_from_its_beginning() -> None:
    tail = ListTail(*numbers(1, 2))
    runner = runner_of(tail)
    runner.catch_up()

    tail.create_again(*numbers(8, 9, 10))
    runner.read_own()

    assert (adder_of(runner).sum, runner.counts.rebuilds) == (27, 1)
    assert runner.counts.rebuild_reason == "the topic was created again"


def test_an_error_of_the_projection_stops_it_and_is_not_saved() -> None:
    fs, tail = MemoryFilesystem(), ListTail(b"1", b"x")
    runner = runner_of(tail, fs, page_records=1)

    with pytest.raises(ProjectionFailed, match="invalid literal"):
        runner.catch_up()

    assert (runner.status.state, runner.save(), fs.list(HOME)) == ("failed", False, [])
    assert runner.save_due_s is None


def test_an_exception_from_outside_in_the_middle_of_a_page_is_undone() -> None:
    class Interrupted(Adder):
        times = 1

        def apply(self, columns: Columns) -> None:
            super().apply(columns)
            if self.sum == 6 and Interrupted.times:
                Interrupted.times -= 1
                raise KeyboardInterrupt

    fs, tail = MemoryFilesystem(), ListTail(*numbers(1, 2))
    runner = runner_of(tail, fs, Interrupted)
    runner.catch_up()
    tail.add(*numbers(3))
    with pytest.raises(KeyboardInterrupt):
        runner.catch_up()
    assert not runner.save()

    runner.read_own()

    assert (adder_of(runner).sum, runner.counts.rebuilds) == (6, 1)


def test_a_large_backlog_is_not_for_a_reader() -> None:
    runner = runner_of(ListTail(*numbers(*range(10))), own_reads_max=5)

    with pytest.raises(NotReady, match="10 records behind"):
        runner.read_own()
    with pytest.raises(NotReady):
        runner.check_ready()

    runner.catch_up()
    runner.read_own()
    runner.check_ready()


def test_the_time_to_ready_is_measured() -> None:
    clock, tail = FakeClock(), ListTail(*numbers(1))
    runner = runner_of(tail, clock=clock)
    clock.advance(250)
    runner.catch_up()

    assert runner.counts.ready_ms == 250


def test_a_state_that_begins_again_while_it_is_saved_is_not_saved() -> None:
    class Slow(Adder):
        def snapshot(self) -> Iterator[bytes]:
            yield struct.pack("<q", self.sum)
            runner.rebuild()
            yield struct.pack("<q", self.order)

    fs, tail = MemoryFilesystem(), ListTail(*numbers(1))
    runner = runner_of(tail, fs, Slow)
    runner.catch_up()

    assert not runner.save()
    assert fs.list(HOME) == []


def test_closing_saves() -> None:
    fs, tail = MemoryFilesystem(), ListTail(*numbers(1, 2))
    runner = runner_of(tail, fs)
    runner.catch_up()
    runner.close()

    assert runner_of(tail, fs).applied == Offset(1, 2)


def test_a_runner_that_stopped_at_a_loss_goes_on_from_there_with_another_policy() -> None:
    made: list[Adder] = []

    def make() -> Adder:
        made.append(Adder())
        return made[-1]

    tail = ListTail(*numbers(1, 2))
    runner = runner_of(tail, make=make, on_gap="fail")
    runner.catch_up()
    tail.lose(2)
    tail.add(*numbers(4))
    with pytest.raises(ProjectionFailed):
        runner.catch_up()

    runner.change("accept", runner.options.bytes_max)
    runner.catch_up()

    assert (runner.status.state, runner.status.reason) == ("ready", "")
    assert (adder_of(runner).sum, adder_of(runner).lost) == (7, 2)
    assert (len(made), runner.counts.records, runner.counts.rebuilds) == (1, 3, 0)
    assert runner.save()


def test_a_runner_that_failed_meets_its_loss_again_unless_the_policy_permits_it() -> None:
    tail = ListTail(*numbers(1))
    runner = runner_of(tail, on_gap="fail")
    runner.catch_up()
    tail.lose(2)
    for bytes_max in (1 << 30, 1 << 31):
        with pytest.raises(ProjectionFailed, match="records 2 to 3 were lost"):
            runner.catch_up()
        runner.change("fail", bytes_max)


def test_a_loss_that_was_no_reason_before_is_one_when_the_policy_becomes_fail() -> None:
    tail = ListTail(*numbers(1, 2))
    tail.lose(2)
    runner = runner_of(tail, page_records=1)
    runner.catch_up(1)

    runner.change("fail", runner.options.bytes_max)

    with pytest.raises(ProjectionFailed, match="records 3 to 4 were lost"):
        runner.catch_up()


def test_losses_in_the_state_are_no_reason_to_fail() -> None:
    tail = ListTail(*numbers(1))
    tail.lose(2)
    runner = runner_of(tail)
    runner.catch_up()

    runner.change("fail", runner.options.bytes_max)
    tail.add(*numbers(4))
    runner.catch_up()

    assert (adder_of(runner).sum, adder_of(runner).lost) == (5, 2)


def test_what_was_folded_before_a_loss_is_saved_although_the_runner_has_failed() -> None:
    """The records may be gone: nothing else has them."""
    fs, tail = MemoryFilesystem(), ListTail(*numbers(1, 2))
    runner = runner_of(tail, fs, on_gap="fail")
    runner.catch_up()
    tail.lose(2)
    with pytest.raises(ProjectionFailed):
        runner.catch_up()
    runner.close()

    again = runner_of(tail, fs, on_gap="accept")
    again.catch_up()

    assert (adder_of(again).sum, adder_of(again).lost) == (3, 2)
    assert again.counts.records == 0


def test_a_runner_that_failed_in_the_middle_of_a_page_goes_on_from_its_saved_state() -> None:
    tail, adder = ListTail(*numbers(1, 2)), Adder()
    made = iter([adder, Adder()])
    runner = runner_of(tail, make=lambda: next(made))
    runner.catch_up()
    runner.save()
    adder.apply = None  # type: ignore[assignment,method-assign]
    tail.add(*numbers(4))
    with pytest.raises(ProjectionFailed, match="not callable"):
        runner.catch_up()
    assert not runner.save()

    runner.change("rebuild", runner.options.bytes_max)
    runner.catch_up()

    assert (adder_of(runner).sum, runner.counts.records) == (7, 3)
    assert runner.projection is not adder


def test_a_runner_that_had_too_little_memory_goes_on_when_it_gets_more() -> None:
    tail = ListTail(*numbers(1, 2))
    runner = runner_of(tail, bytes_max=-1)
    with pytest.raises(ProjectionFailed, match="bytes of memory"):
        runner.catch_up()

    runner.change("accept", 1 << 30)
    tail.add(*numbers(4))
    runner.catch_up()

    assert (adder_of(runner).sum, runner.status.state) == (7, "ready")
