"""Groups: the laws one by one, then histories against the clerk, and queues that he must catch."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
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

from penstock.topics.groups import Groups
from penstock.topics.queues import Queue
from penstock.types import LeaseEvent, LeasesChanged
from tests.support import rig
from tests.unit.topics.groups import TAGS, Claims, GroupDesk, ack, play, restart
from tests.unit.topics.leases import DELAYS_MS, LEASES_MS, NODES, PERIODS_MS, WAITS_MS

HISTORIES = 500_000 if rig.IS_FULL else 3_000
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


@pytest.mark.xfail(reason="a group waits until what is done is gone from the disk")
def test_the_done_are_waited_for_though_nobody_was_told() -> None:
    """A worker from before a restart acknowledges before anybody claims."""
    desk = desk_with("a", "a")
    claim(desk)
    desk.restart(0, 0, from_snapshot=False)

    desk.ack(by_ann(1))  # checks before the job is gone


@pytest.mark.xfail(reason="of the jobs with one tag one is out at a time")
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


@pytest.mark.xfail(reason="of the jobs with one tag one is out at a time")
def test_groups_that_begin_while_two_are_out_wait_for_both() -> None:
    queue = Queue()
    queue.apply(LeasesChanged(7, LeaseEvent.CLAIMED, (1, 2), (1, 1), "ann", 1, 100, 100))
    queue.use_groups(True)
    assert queue.groups is not None
    queue.groups.tell([1, 2, 3], dict.fromkeys([1, 2, 3], "a"), queue)

    queue.forget([2])

    assert queue.groups.pick(queue) is None


@pytest.mark.xfail(reason="what recurs is as if it had never been out")
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


@pytest.mark.xfail(reason="no job is lost when groups end")
def test_jobs_whose_time_came_go_out_when_groups_end() -> None:
    queue = Queue()
    queue.put_off(1, 100)
    queue.cursor = 2  # the second was handed out
    queue.use_groups(True)
    queue.sweep(100)

    queue.use_groups(False)

    assert list(queue.reclaimed()) == [1]


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

apply, forget, schedule, sweep = Queue.apply, Queue.forget, Queue._schedule, Queue.sweep
tell, free, release, pick = Groups.tell, Groups.free, Groups.release, Groups.pick


def the_turn_stays_with_the_done(groups: Groups, seq: int, desk: Queue) -> None:
    owners = groups._owners.copy()
    release(groups, seq, desk)
    groups._owners |= owners


def the_turn_stays_until_it_recurs(queue: Queue, seq: int, cron: str, until_ms: int) -> None:
    groups, queue.groups = queue.groups, None
    schedule(queue, seq, cron, until_ms)
    queue.groups = groups


def what_recurs_has_no_tag(queue: Queue, seq: int, cron: str, until_ms: int) -> None:
    schedule(queue, seq, cron, until_ms)
    if queue.groups is not None:
        queue.groups.tags.pop(seq, None)


def what_recurs_was_out_before(queue: Queue, seq: int, cron: str, until_ms: int) -> None:
    deliveries = queue.deliveries.copy()
    schedule(queue, seq, cron, until_ms)
    queue.deliveries = deliveries


def lets_others_go(event: LeaseEvent) -> Callable[[Queue, LeasesChanged], None]:
    def and_gives_up_its_turn(queue: Queue, entry: LeasesChanged) -> None:
        if entry.event == event and queue.groups is not None:
            for seq in entry.seqs:
                queue.groups.release(seq, queue)
        apply(queue, entry)

    return and_gives_up_its_turn


def an_end_lets_others_go(queue: Queue, now_ms: int) -> None:
    for seq, lease in queue.leases.items():
        if lease.until_ms < now_ms and queue.groups is not None:
            queue.groups.release(seq, queue)
    sweep(queue, now_ms)


def an_end_loses_those_behind(queue: Queue, now_ms: int) -> None:
    over = [seq for seq, lease in queue.leases.items() if lease.until_ms < now_ms]
    sweep(queue, now_ms)
    for seq in over:
        if queue.groups is not None:
            queue.groups._waiting.pop(queue.groups.tags.get(seq, ""), None)


def those_behind_the_done_are_lost(groups: Groups, seq: int, desk: Queue) -> None:
    groups._waiting.pop(groups.tags.get(seq, ""), None)
    release(groups, seq, desk)


def the_removed_pass_nothing_on(groups: Groups, seq: int, desk: Queue) -> None:
    tag = groups.tags.pop(seq, None)
    groups._idle.discard(seq)
    if tag is not None and groups._owners.get(tag) == seq:
        del groups._owners[tag]


def the_removed_are_waited_for(groups: Groups, seq: int, desk: Queue) -> None:
    if seq not in groups._idle:
        release(groups, seq, desk)
        groups.tags.pop(seq, None)


def the_youngest_is_next(groups: Groups, tag: str) -> int | None:
    return max([seq for seq in groups._idle if groups.tags[seq] == tag], default=None)


def whoever_came_first_is_next(groups: Groups, tag: str) -> int | None:
    line = groups._waiting.setdefault(tag, [])
    line[:] = [seq for seq in line if seq in groups._idle]
    return line[0] if line else None


def at_the_end_of_the_line(groups: Groups, seq: int, desk: Queue) -> None:
    tag = groups.tags.get(seq)
    line = groups._waiting.get(tag or "", []).copy()
    free(groups, seq, desk)
    if tag is not None and line and line[0] != seq and groups._waiting.get(tag, [0])[0] == seq:
        groups._waiting[tag] = [*line, seq]


def the_next_is_not_ready(groups: Groups, tag: str, desk: Queue) -> None:
    (groups._able.discard if groups._first(tag) is None else groups._able.add)(tag)


def a_late_one_has_no_place(groups: Groups, seq: int, desk: Queue) -> None:
    tag = groups.tags.get(seq)
    if tag is None or seq > groups.known or groups._first(tag) is None:
        free(groups, seq, desk)


def what_nobody_was_told_of_has_no_group(groups: Groups, seq: int, desk: Queue) -> None:
    if seq > groups.known:
        heapq.heappush(groups._fresh, seq)
    free(groups, seq, desk)


def picked_and_put_back_keeps_the_turn(groups: Groups, seq: int, desk: Queue) -> None:
    if groups._owners.get(groups.tags.get(seq, "")) == seq:
        heapq.heappush(groups._fresh, seq)
    else:
        free(groups, seq, desk)


def picked_and_put_back_is_lost(groups: Groups, seq: int, desk: Queue) -> None:
    if groups._owners.get(groups.tags.get(seq, "")) != seq or seq in desk.deliveries:
        free(groups, seq, desk)


class Busy:
    """A queue that has nothing out and nothing put off, if one believes it."""

    def __init__(self, queue: Queue) -> None:
        self.deliveries = queue.deliveries

    def is_free(self, seq: int) -> bool:
        return True

    def holds(self, seq: int) -> bool:
        return False


def out_or_not(groups: Groups, desk: Queue) -> int | None:
    return pick(groups, Busy(desk))


def whoever_has_the_turn(groups: Groups, desk: Queue) -> int | None:
    owners, groups._owners = groups._owners, {}
    seq = pick(groups, desk)
    groups._owners = owners | groups._owners
    return seq


def whoever_is_older(groups: Groups, desk: Queue) -> int | None:
    first, groups_first = Groups._first, lambda groups, tag: looked_at[-1]
    looked_at: list[int] = []

    class Watched(Busy):
        def is_free(self, seq: int) -> bool:
            looked_at.append(seq)
            return desk.is_free(seq)

    try:
        Groups._first = groups_first  # type: ignore[method-assign]
        seq = pick(groups, Watched(desk))
    finally:
        Groups._first = first  # type: ignore[method-assign]
    if seq in groups.tags:
        groups._look(groups.tags[seq], desk)
    return seq


def the_picked_have_no_turn(groups: Groups, desk: Queue) -> int | None:
    owners = groups._owners.copy()
    seq = pick(groups, desk)
    if seq in groups.tags:
        groups._owners = owners
        groups._look(groups.tags[seq], desk)
    return seq


def the_picked_still_wait(groups: Groups, desk: Queue) -> int | None:
    seq = pick(groups, desk)
    if seq in groups.tags and seq not in desk.deliveries:
        groups._idle.add(seq)
    return seq


def fresh_ones_first(groups: Groups, desk: Queue) -> int | None:
    groups._returned, groups._fresh = groups._fresh, groups._returned
    seq = pick(groups, desk)
    groups._returned, groups._fresh = groups._fresh, groups._returned
    return seq


def one_kind(groups: Groups, desk: Queue) -> int | None:
    groups._fresh, groups._returned = [*groups._fresh, *groups._returned], []
    heapq.heapify(groups._fresh)
    return pick(groups, desk)


def a_restart_forgets_whose_turn_it_is(
    groups: Groups, seqs: Iterable[int], tags: Mapping[int, str], desk: Queue
) -> None:
    class Forgetful(Busy):
        def is_free(self, seq: int) -> bool:
            return desk.is_free(seq)

    tell(groups, seqs, tags, Forgetful(desk))


def no_tag_is_a_tag(groups: Groups, seqs: list[int], tags: Mapping[int, str], desk: Queue) -> None:
    tell(groups, seqs, {seq: tags.get(seq, "") for seq in seqs}, desk)


def all_tags_are_one(groups: Groups, seqs: list[int], tags: Mapping[int, str], desk: Queue) -> None:
    tell(groups, seqs, dict.fromkeys(tags, "a"), desk)


def only_the_first_is_told(
    groups: Groups, seqs: list[int], tags: Mapping[int, str], desk: Queue
) -> None:
    tell(groups, seqs[:1], tags, desk)


def told_early(groups: Groups, seqs: list[int], tags: Mapping[int, str], desk: Queue) -> None:
    """What is put off is told as if it were there."""
    tell(groups, seqs, tags, desk)
    for seq in seqs:
        groups.free(seq, desk)


def who_rests_does_not_count(queue: Queue, seq: int) -> bool:
    return seq in queue.leases


def who_is_put_off_counts(queue: Queue, seq: int) -> bool:
    return seq in queue.leases or seq in queue.delayed


def those_in_line(groups: Groups) -> int:
    """Also those that are gone."""
    return sum(map(len, groups._waiting.values())) - len(groups._able)


def all_that_wait(groups: Groups) -> int:
    return len(groups._idle)


def those_told(groups: Groups) -> int:
    return len(groups.tags) - len(groups._able)


def none(groups: Groups) -> int:
    return 0


def told_twice(groups: Groups, seqs: list[int], tags: Mapping[int, str], desk: Queue) -> None:
    tell(groups, seqs, tags, desk)
    for seq in seqs:
        if seq in groups._idle:
            heapq.heappush(groups._waiting[tags[seq]], seq)


Mutant = dict[tuple[type, str], Any]
MUTANTS: dict[str, Mutant] = {
    "the turn stays with the done": {(Groups, "release"): the_turn_stays_with_the_done},
    "the turn stays until it recurs": {(Queue, "_schedule"): the_turn_stays_until_it_recurs},
    "what recurs has no tag": {(Queue, "_schedule"): what_recurs_has_no_tag},
    "what recurs was out before": {(Queue, "_schedule"): what_recurs_was_out_before},
    "what came back lets others go": {(Queue, "apply"): lets_others_go(LeaseEvent.RELEASED)},
    "a rest lets others go": {(Queue, "apply"): lets_others_go(LeaseEvent.DELAYED)},
    "an end lets others go": {(Queue, "sweep"): an_end_lets_others_go},
    "an end loses those behind": {(Queue, "sweep"): an_end_loses_those_behind},
    "those behind the done are lost": {(Groups, "release"): those_behind_the_done_are_lost},
    "the removed pass nothing on": {(Groups, "gone"): the_removed_pass_nothing_on},
    "the removed are waited for": {(Groups, "gone"): the_removed_are_waited_for},
    "the youngest is next": {(Groups, "_first"): the_youngest_is_next},
    "whoever came first is next": {
        (Groups, "_first"): whoever_came_first_is_next,
        (Groups, "free"): at_the_end_of_the_line,
    },
    "the next is not ready": {(Groups, "_look"): the_next_is_not_ready},
    "a late one has no place": {(Groups, "free"): a_late_one_has_no_place},
    "the untold have no group": {(Groups, "free"): what_nobody_was_told_of_has_no_group},
    "put back, it keeps the turn": {(Groups, "free"): picked_and_put_back_keeps_the_turn},
    "put back, it is lost": {(Groups, "free"): picked_and_put_back_is_lost},
    "pick: out or not": {(Groups, "pick"): out_or_not},
    "pick: whoever has the turn": {(Groups, "pick"): whoever_has_the_turn},
    "pick: whoever is older": {(Groups, "pick"): whoever_is_older},
    "pick: without a turn": {(Groups, "pick"): the_picked_have_no_turn},
    "pick: still waiting": {(Groups, "pick"): the_picked_still_wait},
    "pick: fresh ones first": {(Groups, "pick"): fresh_ones_first},
    "pick: one kind": {(Groups, "pick"): one_kind},
    "tell: nobody is out": {(Groups, "tell"): a_restart_forgets_whose_turn_it_is},
    "tell: no tag is a tag": {(Groups, "tell"): no_tag_is_a_tag},
    "tell: all tags are one": {(Groups, "tell"): all_tags_are_one},
    "tell: only the first": {(Groups, "tell"): only_the_first_is_told},
    "tell: too early": {(Groups, "tell"): told_early},
    "told twice, counted twice": {
        (Groups, "tell"): told_twice,
        (Groups, "blocked"): property(those_in_line),
    },
    "a rest does not hold": {(Queue, "holds"): who_rests_does_not_count},
    "a start that is put off holds": {(Queue, "holds"): who_is_put_off_counts},
    "blocked: the gone, too": {(Groups, "blocked"): property(those_in_line)},
    "blocked: the first, too": {(Groups, "blocked"): property(all_that_wait)},
    "blocked: all with tags": {(Groups, "blocked"): property(those_told)},
    "blocked: none": {(Groups, "blocked"): property(none)},
}


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
            ack(desk, given)
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
