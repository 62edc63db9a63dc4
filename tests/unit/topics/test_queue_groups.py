"""Groups: the laws one by one, then histories against the clerk, and queues that he must catch."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
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
from tests.unit.topics.groups import TAGS, TOLERATED, WINDOW, GroupDesk, play
from tests.unit.topics.leases import DELAYS_MS, LEASES_MS, NODES, WAITS_MS

HISTORIES = 1_000_000 if rig.IS_FULL else 3_000
PARTS = 4  # so that several processes can share the work
STEPS = 12


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
    desk.append(1, 500, ["a"])
    desk.append(1, 0, ["a"])

    assert claim(desk) == [2]
    desk.append(1, 0, ["a"])
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
    assert claim(desk, 1) == [1]

    desk.restart(0, 0, from_snapshot=False)
    desk.vanish([2])

    assert claim(desk) == [3]


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


@pytest.mark.parametrize("shortfall", TOLERATED)
def test_the_clerk_knows_where_a_queue_falls_short(shortfall: str) -> None:
    """When this fails, it is mended: take it out of the list, and its marks off the tests."""
    with pytest.raises(AssertionError):
        play_many(2_000, TOLERATED.keys() - {shortfall})


def play_many(histories: int, tolerates: Iterable[str] = TOLERATED) -> None:
    for number in range(histories):
        play(Random(number), STEPS, frozenset(tolerates))


# Queues that are broken.

apply, forget, own, pass_on = Queue.apply, Queue.forget, Queue.own, Queue._pass_on
prune, sweep, remember = Queue.prune, Queue.sweep, GroupDesk._remember


def the_turn_stays_with_the_done(queue: Queue, seqs: Iterable[int]) -> None:
    gone = list(seqs)
    for seq in gone:
        queue._owned.pop(seq, None)
    forget(queue, gone)


def give_up_turn(queue: Queue, seqs: Iterable[int]) -> None:
    for seq in seqs:
        group = queue._owned.pop(seq, None)
        if group is not None:
            queue._pass_on(group)


def what_came_back_goes_behind(queue: Queue, entry: LeasesChanged) -> None:
    apply(queue, entry)
    if entry.event == LeaseEvent.RELEASED:
        give_up_turn(queue, entry.seqs)


def a_rest_lets_the_others_go(queue: Queue, entry: LeasesChanged) -> None:
    apply(queue, entry)
    if entry.event == LeaseEvent.DELAYED:
        give_up_turn(queue, entry.seqs)


def an_end_lets_the_others_go(queue: Queue, now_ms: int) -> None:
    over = [seq for seq, lease in queue.leases.items() if lease.until_ms < now_ms]
    sweep(queue, now_ms)
    give_up_turn(queue, over)


def an_end_loses_those_behind(queue: Queue, now_ms: int) -> None:
    over = [seq for seq, lease in queue.leases.items() if lease.until_ms < now_ms]
    sweep(queue, now_ms)
    for seq in over:
        queue._parked.pop(queue._owned.get(seq, ""), None)


def the_youngest_is_next(queue: Queue, group: str) -> None:
    queue._parked.get(group, []).sort(reverse=True)
    pass_on(queue, group)


def the_next_is_not_ready(queue: Queue, group: str) -> None:
    pass_on(queue, group)
    if group in queue._owners:
        queue._reclaimed.remove(queue._owners[group])
        heapq.heapify(queue._reclaimed)


def one_goes_on_and_the_rest_are_lost(queue: Queue, group: str) -> None:
    pass_on(queue, group)
    queue._parked.pop(group, None)


def everybody_has_the_turn(queue: Queue, seq: int, group: str | None) -> bool:
    return True


def those_behind_are_not_kept(queue: Queue, seq: int, group: str | None) -> bool:
    has_turn = group is None or queue._owners.get(group, seq) == seq
    return has_turn and own(queue, seq, group)


def no_tag_is_a_tag(queue: Queue, seq: int, group: str | None) -> bool:
    return own(queue, seq, group or "")


def all_tags_are_one(queue: Queue, seq: int, group: str | None) -> bool:
    return own(queue, seq, group and "a")


def whoever_asks_last_has_the_turn(queue: Queue, seq: int, group: str | None) -> bool:
    if group in queue._owners and queue._owners[group] not in queue.leases:
        del queue._owned[queue._owners.pop(group)]
    return own(queue, seq, group)


def the_removed_are_waited_for(queue: Queue, is_live: Callable[[int], bool]) -> None:
    parked = {group: heap.copy() for group, heap in queue._parked.items()}
    prune(queue, is_live)
    queue._parked |= parked


def those_behind_count_twice(queue: Queue) -> int:
    return 2 * sum(map(len, queue._parked.values()))


def a_restart_forgets_whose_turn_it_is(desk: GroupDesk) -> None:
    """Of the engine, not of the queue: it does not ask who was out."""


def a_restart_forgets_who_rests(desk: GroupDesk) -> None:
    delayed, desk.queue.delayed = desk.queue.delayed, {}
    remember(desk)
    desk.queue.delayed = delayed


MUTANTS: dict[Callable[..., Any], tuple[type, str]] = {
    the_turn_stays_with_the_done: (Queue, "forget"),
    what_came_back_goes_behind: (Queue, "apply"),
    a_rest_lets_the_others_go: (Queue, "apply"),
    an_end_lets_the_others_go: (Queue, "sweep"),
    an_end_loses_those_behind: (Queue, "sweep"),
    the_youngest_is_next: (Queue, "_pass_on"),
    the_next_is_not_ready: (Queue, "_pass_on"),
    one_goes_on_and_the_rest_are_lost: (Queue, "_pass_on"),
    everybody_has_the_turn: (Queue, "own"),
    those_behind_are_not_kept: (Queue, "own"),
    no_tag_is_a_tag: (Queue, "own"),
    all_tags_are_one: (Queue, "own"),
    whoever_asks_last_has_the_turn: (Queue, "own"),
    the_removed_are_waited_for: (Queue, "prune"),
    a_restart_forgets_whose_turn_it_is: (GroupDesk, "_remember"),
    a_restart_forgets_who_rests: (GroupDesk, "_remember"),
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_clerk_notices_broken_groups(
    mutant: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*MUTANTS[mutant], mutant)

    with pytest.raises(AssertionError):
        play_many(2_000)


def test_the_clerk_notices_wrong_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Queue, "parked", property(those_behind_count_twice))

    with pytest.raises(AssertionError):
        play_many(2_000)


# The same by hypothesis, which finds the shortest history that fails.

some = st.integers(0, 7)
lease_times = st.sampled_from(LEASES_MS)
some_tags = st.lists(st.sampled_from(sorted({*TAGS}, key=str)), min_size=1, max_size=4)


class GroupMachine(RuleBasedStateMachine):
    """The desk checks itself in every verb."""

    @initialize(
        keeps_leases=st.booleans(), window=st.sampled_from((WINDOW, WINDOW, 1, 2)), tags=some_tags
    )
    def start(self, keeps_leases: bool, window: int, tags: list[str | None]) -> None:
        self.desk = GroupDesk(keeps_leases=keeps_leases, window=window)
        self.desk.append(len(tags), tags=tags)
        self.claims: list[tuple[list[int], int]] = []  # that are not finished

    @rule(tags=some_tags, delay_ms=st.sampled_from((0, 0, *DELAYS_MS)))
    def append(self, tags: list[str | None], delay_ms: int) -> None:
        self.desk.append(len(tags), delay_ms, tags)

    @rule(most=st.integers(1, 4), nodes=st.permutations(NODES), lease_ms=lease_times)
    def claim(self, most: int, nodes: list[str], lease_ms: int) -> None:
        self.desk.claim(most, nodes, lease_ms)

    @rule(most=st.integers(1, 4))
    def look(self, most: int) -> None:
        found = self.desk.offer(most)
        self.desk.leave(found)
        self.claims.append((found, most))

    @precondition(lambda self: self.claims)
    @rule(at=some, what=st.sampled_from(("take", "withdraw", "pass over", "bury")))
    def take(self, at: int, what: str) -> None:
        desk = self.desk
        found, most = self.claims.pop(at % len(self.claims))
        if what == "withdraw":
            desk.withdraw(found)
        elif what == "pass over":
            desk.pass_over(found[:1], 200)
        elif what == "bury":
            desk.bury(found[:1])
        desk.take(found, most, NODES, LEASES_MS[0])

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

    @rule(again=st.integers(0, 30), from_snapshot=st.booleans(), shift_ms=st.integers(-400, 5_000))
    def restart(self, again: int, from_snapshot: bool, shift_ms: int) -> None:
        shift_ms = max(0, shift_ms) if from_snapshot else shift_ms
        self.desk.restart(shift_ms, again, from_snapshot=from_snapshot)
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
        GroupMachine, settings=settings(max_examples=60, stateful_step_count=25)
    )
