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

from penstock.topics.queues import Queue
from penstock.types import LeaseEvent, LeasesChanged
from tests.support import rig
from tests.unit.topics.group_mutants import MUTANTS
from tests.unit.topics.groups import TAGS, Claims, GroupDesk, play, restart
from tests.unit.topics.leases import DELAYS_MS, LEASES_MS, NODES, PERIODS_MS, WAITS_MS

HISTORIES = 500_000 if rig.IS_FULL else 200 if rig.IS_BRIEF else 800
PARTS = 4  # so that several processes can share the work
STEPS = 24


def desk_with(*tags: str | None, **config: Any) -> GroupDesk:
    desk = GroupDesk(**config)
    desk.append(len(tags), tags=tags)
    return desk


def claim(desk: GroupDesk, most: int = 9) -> list[int]:
    """To one worker, checked before and after."""
    desk.check()
    hand = desk.claim(most, ["ann"], 1_000)
    desk.check()
    return hand


def by_ann(*seqs: int) -> list[tuple[int, str, int]]:
    return [(seq, "ann", 0) for seq in seqs]


# The laws.


def test_of_a_group_one_is_out_and_the_next_goes_when_it_is_done() -> None:
    desk = desk_with("a", "a", "b", None, "a", None)

    assert claim(desk) == [1, 3, 4, 6]
    assert claim(desk) == []
    desk.ack(by_ann(1, 4))
    assert claim(desk) == [2]
    desk.ack(by_ann(2))
    assert claim(desk) == [5]


def test_what_comes_back_goes_out_before_those_behind_it() -> None:
    desk = desk_with("a", "a")

    claim(desk)
    desk.nack(by_ann(1), 0)
    again = claim(desk)
    desk.wait(1_001)

    assert again == [1]
    assert claim(desk) == [1]


def test_a_rest_holds_up_its_group_and_no_other() -> None:
    desk = desk_with("a", "a", "b", None)
    assert claim(desk, 1) == [1]

    desk.nack(by_ann(1), 500)

    assert claim(desk) == [3, 4]
    desk.wait(500)
    assert claim(desk) == [1]


def test_a_job_for_later_holds_up_nobody_and_has_its_place_at_its_time() -> None:
    desk = GroupDesk()
    desk.append(1, 500, tags=["a"])
    desk.append(1, tags=["a"])

    assert claim(desk) == [2]
    desk.append(1, tags=["a"])
    desk.wait(500)
    assert claim(desk) == []
    desk.ack(by_ann(2))
    assert claim(desk) == [1]


def test_a_group_waits_until_what_is_done_is_gone_from_the_disk() -> None:
    desk = desk_with("a", "a")
    claim(desk)

    desk.queue.leases.pop(1)
    desk.queue.offered.add(1)
    desk.lines[1].state = "offered"

    assert claim(desk) == []


@pytest.mark.parametrize("gone", [[1], [2], [1, 2]])
def test_those_behind_a_removed_job_go_on(gone: list[int]) -> None:
    desk = desk_with("a", "a", "a", "a")
    claim(desk)

    desk.vanish(gone)

    assert claim(desk) == [min({2, 3} - {*gone})] * (1 in gone)
    desk.end()


@pytest.mark.parametrize("from_snapshot", [False, True])
@pytest.mark.parametrize("keeps_leases", [False, True])
@pytest.mark.parametrize("is_resting", [False, True])
def test_leases_and_rests_that_hold_on_hold_up_their_groups(
    keeps_leases: bool, from_snapshot: bool, is_resting: bool
) -> None:
    desk = desk_with("a", "a", "b", keeps_leases=keeps_leases)
    claim(desk, 1)
    if is_resting:
        desk.nack(by_ann(1), 900)

    desk.restart(0, 0, from_snapshot=from_snapshot)

    assert claim(desk) == ([3] if keeps_leases else [1, 3])
    desk.wait(1_001)
    assert 1 in claim(desk)


def test_turns_that_a_process_gave_and_nobody_took_end_with_it() -> None:
    desk = desk_with("b", "a", "a")
    assert desk.offer(9) == [1, 2]

    desk.restart(0, 0, from_snapshot=False)
    desk.vanish([2])

    assert claim(desk) == [1, 3]


def test_whoever_is_picked_has_the_turn_while_he_is_read() -> None:
    desk = desk_with("a", "a", "b")

    picked = desk.offer(1)
    assert claim(desk) == [3]
    desk.withdraw(picked)

    assert claim(desk) == [1]


def test_a_job_that_was_picked_and_not_taken_waits_behind_an_older_one() -> None:
    desk = GroupDesk()
    desk.append(1, 500, tags=["a"])
    desk.append(1, tags=["a"])

    desk.withdraw(desk.offer(1))
    desk.wait(500)

    assert claim(desk) == [1]


def test_nobody_waits_for_a_job_that_cannot_be_read() -> None:
    desk = desk_with("a", "a", "a")

    desk.pass_over(desk.offer(1), 200)
    assert claim(desk) == [2]
    desk.wait(200)
    desk.ack(by_ann(2))

    assert claim(desk) == [1]


def test_what_was_out_before_goes_first_and_then_the_oldest() -> None:
    desk = desk_with("a", "b", "a", None, "c")
    claim(desk, 4)

    desk.ack(by_ann(1))
    desk.nack(by_ann(4, 2), 0)

    assert claim(desk) == [2, 4, 3]


def test_jobs_that_nobody_was_told_of_have_their_place_when_they_are() -> None:
    desk = desk_with("a")
    assert claim(desk) == [1]
    desk.append(2, tags=["a", "b"])

    assert desk.offer(9, tells=False) == []
    desk.check()

    assert claim(desk) == [3]
    desk.ack(by_ann(1))
    assert claim(desk) == [2]


@pytest.mark.parametrize("way", ["ack", "dead letter"])
def test_a_recurring_job_lets_its_group_go_on_and_keeps_its_tag(way: str) -> None:
    desk = GroupDesk()
    desk.append(1, period_ms=100, tags=["a"])
    desk.append(2, tags=["a", "a"])
    desk.wait(100)

    if way == "ack":
        assert claim(desk) == [1]
        desk.ack(by_ann(1))
    else:
        desk.bury(desk.offer(1))
    assert claim(desk) == [2]
    desk.wait(100)
    assert claim(desk) == []
    desk.ack(by_ann(2))

    assert claim(desk) == [1]


def test_the_done_are_waited_for_though_nobody_was_told() -> None:
    """A worker from before a restart acknowledges before anybody claims."""
    desk = desk_with("a", "a")
    claim(desk)
    desk.restart(0, 0, from_snapshot=False)

    desk.ack(by_ann(1))  # checks before the job is gone


def test_two_of_a_group_that_were_lent_have_not_both_the_turn() -> None:
    """The lease of the second ended while nobody looked, and then the first went out."""
    desk = GroupDesk()
    desk.append(1, 500, tags=["a"])
    desk.append(1, tags=["a"])
    assert claim(desk) == [2]
    desk.restart(5_000, 0, from_snapshot=False)
    assert claim(desk) == [1]

    desk.restart(0, 0, from_snapshot=False, is_told_first=True)

    assert claim(desk) == []


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
    desk = GroupDesk()
    desk.append(1, 1_000)
    desk.append(1, tags=["a"])
    desk.append(1, period_ms=1, tags=["a"])
    desk.wait(1)
    for seq, later_ms in ((2, 500), (3, 100)):
        assert claim(desk, 1) == [seq]
        desk.nack(by_ann(seq), 0)
        desk.pass_over(desk.offer(1), later_ms)
    desk.wait(100)
    desk.check()
    desk.wait(400)
    for seq in (2, 3):
        assert claim(desk, 1) == [seq]
        desk.ack(by_ann(seq))
    desk.now_ms = 2_000

    assert desk.offer(1) == [1]


def test_jobs_that_were_out_go_out_again_when_groups_end() -> None:
    desk = desk_with("a", "a", "b")
    claim(desk)
    desk.nack(by_ann(3, 1), 0)

    desk.queue.use_groups(False)

    assert list(desk.queue.reclaimed()) == [1, 3]


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
        self.desk = GroupDesk(keeps_leases=keeps_leases)
        self.desk.append(len(tags), tags=tags)
        self.claims: Claims = []

    @rule(
        tags=some_tags,
        delay_ms=st.sampled_from((0, 0, *DELAYS_MS)),
        period_ms=st.sampled_from((0, 0, *PERIODS_MS)),
    )
    def append(self, tags: list[str | None], delay_ms: int, period_ms: int) -> None:
        self.desk.append(len(tags), delay_ms, period_ms, tags=tags)

    @rule(most=st.integers(1, 3))
    def tell(self, most: int) -> None:
        self.desk.tell(most)

    @rule(most=st.integers(1, 4), nodes=st.permutations(NODES), lease_ms=lease_times)
    def claim(self, most: int, nodes: list[str], lease_ms: int) -> None:
        self.desk.claim(most, nodes, lease_ms)

    @rule(most=st.integers(1, 4), tells=st.booleans())
    def pick(self, most: int, tells: bool) -> None:
        tells = tells or self.desk.told < self.desk.began_at
        self.claims.append(self.desk.offer(most, tells=tells))

    @precondition(lambda self: self.claims)
    @rule(at=some, what=st.sampled_from(("take", "withdraw", "pass over", "bury")))
    def take(self, at: int, what: str) -> None:
        desk = self.desk
        found = self.claims.pop(at % len(self.claims))
        if what == "withdraw":
            desk.withdraw(found)
        elif what == "pass over":
            desk.pass_over(found[:1], 200)
        elif what == "bury":
            desk.bury(found[:1])
        desk.lease(found, NODES, LEASES_MS[0])

    @precondition(lambda self: self.desk.given)
    @rule(
        picks=st.lists(some, min_size=1, max_size=3),
        verb=st.sampled_from(("ack", "nack", "delay", "extend")),
        lease_ms=lease_times,
        delay_ms=st.sampled_from(DELAYS_MS),
    )
    def settle(self, picks: list[int], verb: str, lease_ms: int, delay_ms: int) -> None:
        desk = self.desk
        given = [desk.given[-1 - pick % len(desk.given)] for pick in picks]
        if verb == "ack":
            desk.ack(given)
        elif verb == "extend":
            desk.extend(given, lease_ms)
        else:
            desk.nack(given, delay_ms if verb == "delay" else 0)

    @rule(gone=st.sets(some, min_size=1))
    def vanish(self, gone: set[int]) -> None:
        seqs = sorted(self.desk.lines)
        self.desk.vanish([seqs[at] for at in gone if at < len(seqs)])

    @rule(ms=st.sampled_from(WAITS_MS))
    def wait(self, ms: int) -> None:
        self.desk.wait(ms)

    @rule(
        again=st.integers(0, 30),
        from_snapshot=st.booleans(),
        shift_ms=st.integers(-400, 5_000),
        is_told_first=st.booleans(),
    )
    def restart(self, again: int, from_snapshot: bool, shift_ms: int, is_told_first: bool) -> None:
        shift_ms = max(0, shift_ms) if from_snapshot else shift_ms
        restart(self.desk, shift_ms, again, from_snapshot, is_told_first)
        self.claims.clear()

    @precondition(lambda self: hasattr(self, "desk"))
    @invariant()
    def agrees(self) -> None:
        self.desk.check()

    def teardown(self) -> None:
        if hasattr(self, "desk"):
            self.desk.end()


def test_groups_do_what_the_clerk_says() -> None:
    run_state_machine_as_test(
        GroupMachine, settings=settings(max_examples=100, stateful_step_count=30)
    )
