"""Groups: the laws one by one, then histories against the clerk, and queues that he must catch."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import settings
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
from penstock.topics.leases import Queue
from tests.support import rig
from tests.unit.topics.group_mutants import MUTANTS
from tests.unit.topics.groups import TAGS, Claims, GroupDesk, play, restart
from tests.unit.topics.leases import DELAYS_MS, LEASES_MS, NODES, PERIODS_MS, WAITS_MS

HISTORIES = 500_000 if rig.IS_FULL else 200 if rig.IS_BRIEF else 800
PARTS = 4  # so that several processes can share the work
STEPS = 24


def desk_with(*tags: str | None, **config: Any) -> GroupDesk:
    view = GroupDesk(**config)
    view.append(len(tags), tags=tags)
    return view


def claim(view: GroupDesk, most: int = 9) -> list[int]:
    """To one worker, checked before and after."""
    view.check()
    hand = view.claim(most, ["ann"], 1_000)
    view.check()
    return hand


def by_ann(*seqs: int) -> list[tuple[int, str, int]]:
    return [(seq, "ann", 0) for seq in seqs]


# The laws.


def test_of_a_group_one_is_out_and_the_next_goes_when_it_is_done() -> None:
    view = desk_with("a", "a", "b", None, "a", None)

    assert claim(view) == [1, 3, 4, 6]
    assert claim(view) == []
    view.ack(by_ann(1, 4))
    assert claim(view) == [2]
    view.ack(by_ann(2))
    assert claim(view) == [5]


def test_what_comes_back_goes_out_before_those_behind_it() -> None:
    view = desk_with("a", "a")

    claim(view)
    view.nack(by_ann(1), 0)
    again = claim(view)
    view.wait(1_001)

    assert again == [1]
    assert claim(view) == [1]


def test_a_rest_holds_up_its_group_and_no_other() -> None:
    view = desk_with("a", "a", "b", None)
    assert claim(view, 1) == [1]

    view.nack(by_ann(1), 500)

    assert claim(view) == [3, 4]
    view.wait(500)
    assert claim(view) == [1]


def test_a_job_for_later_holds_up_nobody_and_has_its_place_at_its_time() -> None:
    view = GroupDesk()
    view.append(1, 500, tags=["a"])
    view.append(1, tags=["a"])

    assert claim(view) == [2]
    view.append(1, tags=["a"])
    view.wait(500)
    assert claim(view) == []
    view.ack(by_ann(2))
    assert claim(view) == [1]


def test_a_group_waits_until_what_is_done_is_gone_from_the_disk() -> None:
    view = desk_with("a", "a")
    claim(view)

    view.queue.leases.pop(1)
    view.queue.offered.add(1)
    view.lines[1].state = "offered"

    assert claim(view) == []


@pytest.mark.parametrize("gone", [[1], [2], [1, 2]])
def test_those_behind_a_removed_job_go_on(gone: list[int]) -> None:
    view = desk_with("a", "a", "a", "a")
    claim(view)

    view.vanish(gone)

    assert claim(view) == [min({2, 3} - {*gone})] * (1 in gone)
    view.end()


@pytest.mark.parametrize("from_snapshot", [False, True])
@pytest.mark.parametrize("keeps_leases", [False, True])
@pytest.mark.parametrize("is_resting", [False, True])
def test_leases_and_rests_that_hold_on_hold_up_their_groups(
    keeps_leases: bool, from_snapshot: bool, is_resting: bool
) -> None:
    view = desk_with("a", "a", "b", keeps_leases=keeps_leases)
    claim(view, 1)
    if is_resting:
        view.nack(by_ann(1), 900)

    view.restart(0, 0, from_snapshot=from_snapshot)

    assert claim(view) == ([3] if keeps_leases else [1, 3])
    view.wait(1_001)
    assert 1 in claim(view)


def test_turns_that_a_process_gave_and_nobody_took_end_with_it() -> None:
    view = desk_with("b", "a", "a")
    assert view.offer(9) == [1, 2]

    view.restart(0, 0, from_snapshot=False)
    view.vanish([2])

    assert claim(view) == [1, 3]


def test_whoever_is_picked_has_the_turn_while_he_is_read() -> None:
    view = desk_with("a", "a", "b")

    picked = view.offer(1)
    assert claim(view) == [3]
    view.withdraw(picked)

    assert claim(view) == [1]


def test_a_job_that_was_picked_and_not_taken_waits_behind_an_older_one() -> None:
    view = GroupDesk()
    view.append(1, 500, tags=["a"])
    view.append(1, tags=["a"])

    view.withdraw(view.offer(1))
    view.wait(500)

    assert claim(view) == [1]


def test_nobody_waits_for_a_job_that_cannot_be_read() -> None:
    view = desk_with("a", "a", "a")

    view.pass_over(view.offer(1), 200)
    assert claim(view) == [2]
    view.wait(200)
    view.ack(by_ann(2))

    assert claim(view) == [1]


def test_what_was_out_before_goes_first_and_then_the_oldest() -> None:
    view = desk_with("a", "b", "a", None, "c")
    claim(view, 4)

    view.ack(by_ann(1))
    view.nack(by_ann(4, 2), 0)

    assert claim(view) == [2, 4, 3]


def test_jobs_that_nobody_was_told_of_have_their_place_when_they_are() -> None:
    view = desk_with("a")
    assert claim(view) == [1]
    view.append(2, tags=["a", "b"])

    assert view.offer(9, tells=False) == []
    view.check()

    assert claim(view) == [3]
    view.ack(by_ann(1))
    assert claim(view) == [2]


@pytest.mark.parametrize("way", ["ack", "dead letter"])
def test_a_recurring_job_lets_its_group_go_on_and_keeps_its_tag(way: str) -> None:
    view = GroupDesk()
    view.append(1, period_ms=100, tags=["a"])
    view.append(2, tags=["a", "a"])
    view.wait(100)

    if way == "ack":
        assert claim(view) == [1]
        view.ack(by_ann(1))
    else:
        view.bury(view.offer(1))
    assert claim(view) == [2]
    view.wait(100)
    assert claim(view) == []
    view.ack(by_ann(2))

    assert claim(view) == [1]


def test_the_done_are_waited_for_though_nobody_was_told() -> None:
    """A worker from before a restart acknowledges before anybody claims."""
    view = desk_with("a", "a")
    claim(view)
    view.restart(0, 0, from_snapshot=False)

    view.ack(by_ann(1))  # checks before the job is gone


def test_two_of_a_group_that_were_lent_have_not_both_the_turn() -> None:
    """The lease of the second ended while nobody looked, and then the first went out."""
    view = GroupDesk()
    view.append(1, 500, tags=["a"])
    view.append(1, tags=["a"])
    assert claim(view) == [2]
    view.restart(5_000, 0, from_snapshot=False)
    assert claim(view) == [1]

    view.restart(0, 0, from_snapshot=False, is_told_first=True)

    assert claim(view) == []


def test_groups_that_begin_while_two_are_out_wait_for_both() -> None:
    queue = Queue()
    queue.apply(LeasesChanged(7, LeaseEvent.CLAIMED, (1, 2), (1, 1), "ann", 1, 100, 100))
    queue.use_groups(True)
    assert queue.groups is not None
    queue.groups.tell([1, 2, 3], dict.fromkeys([1, 2, 3], "a"), queue)

    queue.forget([2])

    assert queue.groups.pick(queue) is None


def test_a_recurring_job_that_was_passed_over_once_goes_behind_older_ones() -> None:
    """Its group had two places among those that were out before, and one of them is left."""
    view = GroupDesk()
    view.append(1, 1_000)
    view.append(1, tags=["a"])
    view.append(1, period_ms=1, tags=["a"])
    view.wait(1)
    for seq, later_ms in ((2, 500), (3, 100)):
        assert claim(view, 1) == [seq]
        view.nack(by_ann(seq), 0)
        view.pass_over(view.offer(1), later_ms)
    view.wait(100)
    view.check()
    view.wait(400)
    for seq in (2, 3):
        assert claim(view, 1) == [seq]
        view.ack(by_ann(seq))
    view.now_ms = 2_000

    assert view.offer(1) == [1]


def test_jobs_that_were_out_go_out_again_when_groups_end() -> None:
    view = desk_with("a", "a", "b")
    claim(view)
    view.nack(by_ann(3, 1), 0)

    view.queue.use_groups(False)

    assert list(view.queue.reclaimed()) == [1, 3]


# Histories.


@pytest.mark.parametrize("part", range(PARTS))
def test_no_history_of_groups_surprises_the_clerk(
    part: int,
    record_property: Callable[[str, object], None],
    capfd: pytest.CaptureFixture[str],
) -> None:
    seed = rig.new_seed()
    tried = 0
    for number in range(part, HISTORIES, PARTS):
        try:
            play(Random(f"{seed}.{number}"), STEPS)
        except Exception as error:
            error.add_note(
                f"seed {seed}, history {number}: play(Random('{seed}.{number}'), {STEPS})"
            )
            raise
        tried += 1
    record_property("group_histories", tried)
    with capfd.disabled():
        rig.say(f"groups, part {part}: seed {seed}, {tried} histories of {STEPS} steps and an end")
    assert tried == HISTORIES // PARTS


# Queues that are broken.


@pytest.mark.parametrize("name", MUTANTS)
def test_the_clerk_notices_broken_groups(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for (kind, verb), broken in MUTANTS[name].items():
        monkeypatch.setattr(kind, verb, broken)

    with pytest.raises(AssertionError):
        play_many(2_000)


def play_many(histories: int) -> None:
    for number in range(histories):
        play(Random(number), STEPS)


# The same by hypothesis, which finds the shortest history that fails.

some = st.integers(0, 7)
lease_times = st.sampled_from(LEASES_MS)
some_tags = st.lists(st.sampled_from(sorted({*TAGS}, key=str)), min_size=1, max_size=4)


class GroupMachine(RuleBasedStateMachine):
    """The desk checks itself in every verb."""

    @initialize(keeps_leases=st.booleans(), tags=some_tags)
    def start(self, keeps_leases: bool, tags: list[str | None]) -> None:
        self.view = GroupDesk(keeps_leases=keeps_leases)
        self.view.append(len(tags), tags=tags)
        self.claims: Claims = []

    @rule(
        tags=some_tags,
        delay_ms=st.sampled_from((0, 0, *DELAYS_MS)),
        period_ms=st.sampled_from((0, 0, *PERIODS_MS)),
    )
    def append(self, tags: list[str | None], delay_ms: int, period_ms: int) -> None:
        self.view.append(len(tags), delay_ms, period_ms, tags=tags)

    @rule(most=st.integers(1, 3))
    def tell(self, most: int) -> None:
        self.view.tell(most)

    @rule(most=st.integers(1, 4), nodes=st.permutations(NODES), lease_ms=lease_times)
    def claim(self, most: int, nodes: list[str], lease_ms: int) -> None:
        self.view.claim(most, nodes, lease_ms)

    @rule(most=st.integers(1, 4), tells=st.booleans())
    def pick(self, most: int, tells: bool) -> None:
        tells = tells or self.view.told < self.view.began_at
        self.claims.append(self.view.offer(most, tells=tells))

    @precondition(lambda self: self.claims)
    @rule(at=some, what=st.sampled_from(("take", "withdraw", "pass over", "bury")))
    def take(self, at: int, what: str) -> None:
        view = self.view
        found = self.claims.pop(at % len(self.claims))
        if what == "withdraw":
            view.withdraw(found)
        elif what == "pass over":
            view.pass_over(found[:1], 200)
        elif what == "bury":
            view.bury(found[:1])
        view.lease(found, NODES, LEASES_MS[0])

    @precondition(lambda self: self.view.given)
    @rule(
        picks=st.lists(some, min_size=1, max_size=3),
        verb=st.sampled_from(("ack", "nack", "delay", "extend")),
        lease_ms=lease_times,
        delay_ms=st.sampled_from(DELAYS_MS),
    )
    def settle(self, picks: list[int], verb: str, lease_ms: int, delay_ms: int) -> None:
        view = self.view
        given = [view.given[-1 - pick % len(view.given)] for pick in picks]
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

    @rule(
        again=st.integers(0, 30),
        from_snapshot=st.booleans(),
        shift_ms=st.integers(-400, 5_000),
        is_told_first=st.booleans(),
    )
    def restart(self, again: int, from_snapshot: bool, shift_ms: int, is_told_first: bool) -> None:
        shift_ms = max(0, shift_ms) if from_snapshot else shift_ms
        restart(self.view, shift_ms, again, from_snapshot, is_told_first)
        self.claims.clear()

    @precondition(lambda self: hasattr(self, "view"))
    @invariant()
    def agrees(self) -> None:
        self.view.check()

    def teardown(self) -> None:
        if hasattr(self, "view"):
            self.view.end()


def test_groups_do_what_the_clerk_says() -> None:
    run_state_machine_as_test(
        GroupMachine, settings=settings(max_examples=100, stateful_step_count=30)
    )
