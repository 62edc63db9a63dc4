"""Leases: the laws one by one, then histories against a clerk who writes everything down."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from penstock.entries import LeaseEvent, LeasesChanged
from penstock.topics import leases
from penstock.topics.leases import Queue, deal, lease_names
from penstock.types import QueueCounts
from tests.support import rig
from tests.unit.topics.lease_mutants import MUTANTS
from tests.unit.topics.leases import (
    DELAYS_MS,
    LEASES_MS,
    NODES,
    PERIODS_MS,
    TOPIC,
    WAITS_MS,
    Desk,
    is_held_by,
    play,
)

HISTORIES = 1_000_000 if rig.IS_FULL else 1_000 if rig.IS_BRIEF else 4_000
PARTS = 4  # so that several processes can share the work
STEPS = 12


def claimed(
    *seqs: int, node: str = "ann", first_id: int = 1, until_ms: int = 100, nth: int = 1
) -> LeasesChanged:
    counts = (nth,) * len(seqs)
    return LeasesChanged(TOPIC, LeaseEvent.CLAIMED, seqs, counts, node, first_id, until_ms, 100)


def extended(*seqs: int, until_ms: int, lease_ms: int = 100) -> LeasesChanged:
    return LeasesChanged(TOPIC, LeaseEvent.EXTENDED, seqs, until_ms=until_ms, lease_ms=lease_ms)


def released(*seqs: int) -> LeasesChanged:
    return LeasesChanged(TOPIC, LeaseEvent.RELEASED, seqs)


def delayed(*seqs: int, until_ms: int) -> LeasesChanged:
    return LeasesChanged(TOPIC, LeaseEvent.DELAYED, seqs, until_ms=until_ms)


def scheduled(*seqs: int, until_ms: int) -> LeasesChanged:
    return LeasesChanged(TOPIC, LeaseEvent.SCHEDULED, seqs, node="hourly", until_ms=until_ms)


def dead(count: int) -> LeasesChanged:
    return LeasesChanged(TOPIC, LeaseEvent.DEAD, (9,), lease_id=count)


def queue_after(*entries: LeasesChanged) -> Queue:
    queue = Queue()
    for entry in entries:
        queue.apply(entry)
    return queue


def told(queue: Queue) -> tuple[Any, ...]:
    """All that anybody can see of it."""
    state = queue.leases, queue.delayed, queue.deliveries, queue.crons, queue.dead_lettered
    return *state, queue.next_lease_id, [seq for seq in range(1, 10) if queue.is_free(seq)]


# Leases.


def test_a_lease_lasts_through_its_last_millisecond() -> None:
    queue = queue_after(claimed(1, until_ms=100))

    queue.sweep(100)
    during = is_held_by(queue, 1, "ann", 1), list(queue.reclaimed())
    queue.sweep(101)

    assert during == (True, [])
    assert not is_held_by(queue, 1, "ann", 1)
    assert list(queue.reclaimed()) == [1]


def test_a_delay_is_over_at_its_time() -> None:
    queue = queue_after(claimed(1), delayed(1, until_ms=100))

    queue.sweep(99)
    before = list(queue.reclaimed())
    queue.sweep(100)

    assert before == []
    assert list(queue.reclaimed()) == [1]


def test_an_extended_lease_ends_at_its_new_time_and_not_at_the_old_one() -> None:
    queue = queue_after(claimed(1, until_ms=100), extended(1, until_ms=300))

    queue.sweep(250)
    held = is_held_by(queue, 1, "ann", 1)
    queue.sweep(301)

    assert held
    assert queue.is_free(1)


def test_a_lease_can_be_made_shorter() -> None:
    queue = queue_after(claimed(1, until_ms=1_000), extended(1, until_ms=200))

    queue.sweep(201)

    assert list(queue.reclaimed()) == [1]


def test_the_jobs_of_one_claim_have_ids_that_follow_each_other() -> None:
    queue = queue_after(claimed(4, 2, 7, first_id=20))

    assert {seq: lease.id for seq, lease in queue.leases.items()} == {4: 20, 2: 21, 7: 22}
    assert queue.next_lease_id == 23


@pytest.mark.parametrize(
    ("seq", "node", "lease_id", "is_held"),
    [
        (1, "ann", 5, True),
        (1, "ann", 0, True),
        (1, "ann", 6, False),
        (1, "bob", 5, False),
        (1, "bob", 0, False),
        (2, "ann", 5, False),
        (2, "ann", 0, False),
    ],
)
def test_a_job_is_held_by_its_node_under_its_id(
    seq: int, node: str, lease_id: int, is_held: bool
) -> None:
    assert is_held_by(queue_after(claimed(1, first_id=5)), seq, node, lease_id) is is_held


def test_an_old_id_holds_nothing_though_its_node_has_the_job_again() -> None:
    queue = queue_after(claimed(1), released(1), claimed(1, first_id=2, nth=2))

    assert not is_held_by(queue, 1, "ann", 1)
    assert is_held_by(queue, 1, "ann", 2)


# Whose turn.


def test_jobs_that_came_back_are_handed_out_in_their_order_and_once() -> None:
    queue = queue_after(claimed(3, 1, 2), released(3), released(1, 2), released(1))

    assert list(queue.reclaimed()) == [1, 2, 3]
    assert list(queue.reclaimed()) == []


def test_looking_at_some_leaves_the_others_in_their_place() -> None:
    queue = queue_after(claimed(1, 2, 3), released(1, 2, 3))

    assert next(iter(queue.reclaimed())) == 1
    queue.put_back(1)

    assert list(queue.reclaimed()) == [1, 2, 3]


def test_what_is_offered_is_offered_to_nobody_else() -> None:
    queue = queue_after(claimed(1, 2), released(1, 2))
    queue.offered.add(1)

    assert list(queue.reclaimed()) == [2]
    assert not queue.is_free(1)


def test_fresh_is_what_was_never_handed_out_nor_put_off() -> None:
    queue = queue_after(claimed(1, 2), released(1))
    queue.put_off(3, 500)
    queue.offered.add(4)

    assert queue.fresh(range(1, 6)) == [5]


def test_each_delivery_of_a_job_has_the_next_number() -> None:
    queue = Queue()
    queue.deliveries.update({2: 1, 3: 7})

    assert queue.next_deliveries([4, 5]) == (1, 1)
    assert queue.next_deliveries([2, 4, 3]) == (2, 1, 8)


def test_leases_are_named_by_their_numbers() -> None:
    assert lease_names(()) == []
    assert lease_names((1, 255)) == ["lease_1", "lease_ff"]


def test_a_job_that_is_named_twice_is_held_once() -> None:
    queue = queue_after(claimed(1, 2, 3, first_id=5))

    assert queue.held("ann", [3, 9, 1, 3, 2], [0, 0, 5, 7, 9]) == ((3, 1), [9, 3, 2])


def test_the_counts_say_where_the_jobs_are() -> None:
    queue = queue_after(claimed(1, 2, 3), delayed(2, until_ms=500), dead(4))
    queue.offered.add(5)

    assert queue.counts(10) == QueueCounts(6, 2, 1, 4)
    assert queue.counts(0).ready == 0


def test_the_next_change_is_the_earliest_end_of_anything() -> None:
    queue = Queue()
    assert queue.next_change_ms() is None

    queue.apply(claimed(1, until_ms=300))
    with_lease = queue.next_change_ms()
    queue.put_off(2, 200)

    assert with_lease == 300
    assert queue.next_change_ms() == 200


# What recurs.


def test_a_recurring_job_is_put_off_as_if_it_had_never_been_out() -> None:
    queue = queue_after(scheduled(1, until_ms=100), claimed(1, until_ms=300))
    queue.offered.add(1)

    queue.apply(scheduled(1, until_ms=500))

    assert (queue.delayed, queue.deliveries, queue.leases) == ({1: 500}, {}, {})
    assert queue.crons == {1: "hourly"}
    queue.sweep(500)
    assert list(queue.reclaimed()) == [1]


def test_leases_that_are_not_durable_leave_schedules_alone() -> None:
    queue = queue_after(claimed(1, 2), scheduled(1, until_ms=500))

    queue.restart(50, keeps_leases=False)

    assert queue.delayed == {1: 500}
    assert list(queue.reclaimed()) == [2]


def test_what_recurs_no_more_has_no_schedule() -> None:
    queue = queue_after(scheduled(1, 2, until_ms=500))

    queue.forget([1])

    assert queue.crons.keys() == {2}


def test_pruning_takes_the_schedules_of_jobs_that_were_due() -> None:
    queue = queue_after(scheduled(1, until_ms=500))
    queue.sweep(500)

    queue.prune(lambda seq: False)

    assert queue.crons == {}


# What goes.


def test_of_a_job_that_is_no_more_nothing_stays() -> None:
    queue = queue_after(claimed(1, 2, 3), delayed(2, until_ms=500))
    queue.offered.add(3)

    queue.forget([1, 2, 3, 4])
    queue.sweep(1_000)

    assert [queue.leases, queue.delayed, queue.deliveries, queue.offered] == [{}, {}, {}, set()]
    assert queue.next_lease_id == 4


def test_pruning_takes_the_dead_and_leaves_the_living() -> None:
    queue = queue_after(claimed(1, 2, 3, 4), delayed(3, until_ms=500), delayed(4, until_ms=500))
    queue.offered |= {5, 6}

    queue.prune(lambda seq: seq % 2 == 0)

    assert queue.leases.keys() == {2}
    assert queue.delayed.keys() == {4}
    assert queue.deliveries.keys() == {2, 4}
    assert queue.offered == {6}


def test_entries_about_jobs_that_nobody_holds_change_no_lease() -> None:
    queue = queue_after(extended(1, until_ms=900))

    assert queue.leases == {}
    assert queue.is_free(1)


def test_a_claim_that_contradicts_itself_is_refused() -> None:
    wrong = LeasesChanged(TOPIC, LeaseEvent.CLAIMED, (1, 2), (1,), "ann", 1, 100, 100)

    with pytest.raises(ValueError, match="argument"):
        Queue().apply(wrong)


def test_what_is_over_does_not_pile_up() -> None:
    queue = queue_after(claimed(1, 2))
    for number in range(3 * leases._SLACK):
        queue.apply(extended(1, until_ms=200 + number))
        queue.put_off(2, 200 + number)

    assert len(queue._expiries) <= leases._SLACK + 5
    assert len(queue._delays) <= leases._SLACK + 5
    queue.sweep(199 + 3 * leases._SLACK)
    assert is_held_by(queue, 1, "ann", 1)


# Replay.

HISTORY = (
    claimed(1, 2, 3),
    extended(1, until_ms=400),
    released(2),
    dead(1),
    claimed(2, node="bob", first_id=4, until_ms=600, nth=2),
    delayed(3, until_ms=700),
    released(2),
    claimed(2, node="cy", first_id=5, until_ms=800, nth=3),
    dead(2),
    extended(1, 2, until_ms=900),
    scheduled(4, until_ms=300),
    claimed(4, first_id=6, until_ms=500),
    scheduled(4, until_ms=860),
)


@pytest.mark.parametrize("at", range(len(HISTORY)))
@pytest.mark.parametrize("now_ms", [0, 850, 2_000])
def test_entries_that_a_snapshot_has_already_may_come_once_more(at: int, now_ms: int) -> None:
    once, twice = queue_after(*HISTORY), queue_after(*HISTORY, *HISTORY[at:])
    for queue in (once, twice):
        queue.restart(now_ms, keeps_leases=True)
        queue.sweep(now_ms)

    assert told(twice) == told(once)
    assert list(twice.reclaimed()) == list(once.reclaimed())


def test_leases_that_are_not_durable_end_with_their_process() -> None:
    queue = queue_after(claimed(1, 2, nth=3), delayed(2, until_ms=10_000))

    queue.restart(50, keeps_leases=False)

    assert list(queue.reclaimed()) == [1, 2]
    assert queue.deliveries == {1: 3, 2: 3}
    assert queue.next_lease_id == 3


def test_durable_leases_and_delays_go_on() -> None:
    queue = queue_after(claimed(1, 2, until_ms=120), delayed(2, until_ms=10_000))

    queue.restart(50, keeps_leases=True)
    queue.sweep(120)

    assert is_held_by(queue, 1, "ann", 1)
    assert queue.delayed == {2: 10_000}
    assert list(queue.reclaimed()) == []


def test_after_a_restart_a_lease_lasts_no_longer_than_it_was_given_for() -> None:
    queue = queue_after(claimed(1, until_ms=1_000_000))

    queue.restart(50, keeps_leases=True)

    assert queue.leases[1].until_ms == 150


def test_what_ended_while_nobody_looked_is_ready_after_a_restart() -> None:
    queue = queue_after(claimed(1, 2, until_ms=100), delayed(2, until_ms=200))

    queue.restart(5_000, keeps_leases=True)
    queue.sweep(5_000)

    assert list(queue.reclaimed()) == [1, 2]


def test_an_older_claim_does_not_bring_ids_back() -> None:
    queue = queue_after(claimed(1, first_id=40), claimed(2, first_id=7))

    assert queue.next_lease_id == 41


# Dealing.


@given(st.lists(st.integers(), unique=True, max_size=30), st.lists(st.integers(0, 9), max_size=6))
def test_jobs_are_dealt_one_by_one_to_those_who_still_want_more(
    seqs: list[int], wants: list[int]
) -> None:
    hands: list[list[int]] = [[] for _ in wants]
    turns = [n for level in range(10) for n, want in enumerate(wants) if want > level]
    for seq, number in zip(seqs, turns, strict=False):
        hands[number].append(seq)

    assert deal(seqs, wants) == hands


def test_four_who_want_ten_of_twenty_get_five_each() -> None:
    assert [len(hand) for hand in deal(range(20), [10] * 4)] == [5, 5, 5, 5]


# Histories.


@pytest.mark.parametrize("part", range(PARTS))
def test_no_history_of_leases_surprises_the_clerk(
    part: int,
    record_property: Callable[[str, object], None],
    capfd: pytest.CaptureFixture[str],
) -> None:
    seed = rig.new_seed()
    tried = operations = 0
    for number in range(part, HISTORIES, PARTS):
        choose = Random(f"{seed}.{number}")
        try:
            play(choose, STEPS)
        except Exception as error:
            error.add_note(
                f"seed {seed}, history {number}: play(Random('{seed}.{number}'), {STEPS})"
            )
            raise
        tried += 1
        operations += STEPS + 1
    record_property("lease_histories", tried)
    with capfd.disabled():
        rig.say(f"leases, part {part}: seed {seed}, {tried} histories, {operations} operations")
    assert tried == HISTORIES // PARTS


@pytest.mark.parametrize("name", MUTANTS)
def test_the_clerk_notices_a_broken_queue(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Queue, name.strip(), MUTANTS[name])

    with pytest.raises(AssertionError):
        play_many(2_000)


def play_many(histories: int) -> None:
    for number in range(histories):
        play(Random(number), STEPS)


# The same by hypothesis, which finds the shortest history that fails.

some = st.integers(0, 7)
lease_times = st.sampled_from(LEASES_MS)


class DeskMachine(RuleBasedStateMachine):
    """The desk checks itself in every verb."""

    @initialize(keeps_leases=st.booleans(), jobs=st.integers(1, 5))
    def start(self, keeps_leases: bool, jobs: int) -> None:
        self.view = Desk(keeps_leases=keeps_leases)
        self.view.append(jobs)

    @rule(
        count=st.integers(1, 3),
        delay_ms=st.sampled_from((0, *DELAYS_MS)),
        period_ms=st.sampled_from((0, 0, *PERIODS_MS)),
    )
    def append(self, count: int, delay_ms: int, period_ms: int) -> None:
        self.view.append(count, delay_ms, period_ms)

    @rule(most=st.integers(1, 4), nodes=st.permutations(NODES), lease_ms=lease_times)
    def claim(self, most: int, nodes: list[str], lease_ms: int) -> None:
        self.view.claim(most, nodes, lease_ms)

    @rule(most=st.integers(1, 4), what=st.sampled_from(("withdraw", "pass over", "bury", "leave")))
    def offer(self, most: int, what: str) -> None:
        found = self.view.offer(most)
        if what == "withdraw":
            self.view.withdraw(found)
        elif what == "pass over":
            self.view.pass_over(found, 200)
        elif what == "bury":
            self.view.bury(found)

    @precondition(lambda self: self.view.given)
    @rule(
        picks=st.lists(some, min_size=1, max_size=3),
        verb=st.sampled_from(("ack", "nack", "delay", "extend")),
        is_fenced=st.booleans(),
        lease_ms=lease_times,
        delay_ms=st.sampled_from(DELAYS_MS),
    )
    def settle(
        self, picks: list[int], verb: str, is_fenced: bool, lease_ms: int, delay_ms: int
    ) -> None:
        view = self.view
        given = [view.given[-1 - pick % len(view.given)] for pick in picks]
        if not is_fenced:
            given = [(seq, node, 0) for seq, node, _ in given]
        if verb == "ack":
            view.ack(given)
        elif verb == "extend":
            view.extend(given, lease_ms)
        else:
            view.nack(given, delay_ms if verb == "delay" else 0)

    @rule(gone=st.sets(some, min_size=1))
    def vanish(self, gone: set[int]) -> None:
        seqs = sorted(self.view.lines)
        self.view.vanish([seqs[at] for at in gone if at < len(seqs)])

    @rule(ms=st.sampled_from(WAITS_MS))
    def wait(self, ms: int) -> None:
        self.view.wait(ms)

    @rule(again=st.integers(0, 30), from_snapshot=st.booleans(), shift_ms=st.integers(-400, 5_000))
    def restart(self, again: int, from_snapshot: bool, shift_ms: int) -> None:
        shift_ms = max(0, shift_ms) if from_snapshot else shift_ms
        self.view.restart(shift_ms, again, from_snapshot=from_snapshot)

    @precondition(lambda self: hasattr(self, "view"))
    @invariant()
    def agrees(self) -> None:
        self.view.check()

    def teardown(self) -> None:
        if hasattr(self, "view"):
            self.view.end()


def test_a_queue_does_what_the_clerk_does() -> None:
    run_state_machine_as_test(DeskMachine, settings=settings(stateful_step_count=30))
