"""Queues whose groups are broken, each in one way, and the clerk must notice."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from penstock.atomic_steps import Step
from penstock.entries import LeaseEvent, LeasesChanged
from penstock.topics.leases import Queue
from penstock.topics.queue_groups import QueueGroups

apply, forget, schedule, sweep = Queue.apply, Queue.forget, Queue._schedule, Queue.sweep
follow = Queue.follow
tell, free, release, pick = (
    QueueGroups.tell,
    QueueGroups.free,
    QueueGroups.release,
    QueueGroups.pick,
)


def the_turn_stays_with_the_done(groups: QueueGroups, seq: int, view: Queue) -> None:
    owners = {tag: held.copy() for tag, held in groups._owners.items()}
    release(groups, seq, view)
    groups._owners |= owners


def the_turn_stays_until_it_recurs(queue: Queue, entries: Sequence[LeasesChanged]) -> None:
    follow(queue, [entry for entry in entries if entry.event != LeaseEvent.SCHEDULED])


def what_recurs_has_no_tag(queue: Queue, entries: Sequence[LeasesChanged]) -> None:
    follow(queue, entries)
    for entry in entries:
        if entry.event == LeaseEvent.SCHEDULED and queue.groups is not None:
            for seq in entry.seqs:
                queue.groups.tags.pop(seq, None)


def what_recurs_was_out_before(
    queue: Queue, seqs: Sequence[int], cron: str, until_ms: int
) -> list[Step]:
    deliveries = {seq: queue.deliveries[seq] for seq in seqs if seq in queue.deliveries}
    return [*schedule(queue, seqs, cron, until_ms), (queue.deliveries.update, deliveries)]


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


def those_behind_the_done_are_lost(groups: QueueGroups, seq: int, view: Queue) -> None:
    groups._waiting.pop(groups.tags.get(seq, ""), None)
    release(groups, seq, view)


def the_removed_pass_nothing_on(groups: QueueGroups, seq: int, view: Queue) -> None:
    tag = groups.tags.pop(seq, None)
    groups._idle.discard(seq)
    if tag is not None and seq in groups._owners.get(tag, ()):
        groups._disown(tag, seq)


def the_removed_are_waited_for(groups: QueueGroups, seq: int, view: Queue) -> None:
    if seq not in groups._idle:
        release(groups, seq, view)
        groups.tags.pop(seq, None)


def the_youngest_is_next(groups: QueueGroups, tag: str) -> int | None:
    return max([seq for seq in groups._idle if groups.tags[seq] == tag], default=None)


def whoever_came_first_is_next(groups: QueueGroups, tag: str) -> int | None:
    line = groups._waiting.setdefault(tag, [])
    line[:] = [seq for seq in line if seq in groups._idle]
    return line[0] if line else None


def at_the_end_of_the_line(groups: QueueGroups, seq: int, view: Queue) -> None:
    tag = groups.tags.get(seq)
    line = groups._waiting.get(tag or "", []).copy()
    free(groups, seq, view)
    if tag is not None and line and line[0] != seq and groups._waiting.get(tag, [0])[0] == seq:
        groups._waiting[tag] = [*line, seq]


def the_next_is_not_ready(groups: QueueGroups, tag: str, view: Queue) -> None:
    (groups._able.discard if groups._first(tag) is None else groups._able.add)(tag)


def a_late_one_has_no_place(groups: QueueGroups, seq: int, view: Queue) -> None:
    tag = groups.tags.get(seq)
    if tag is None or seq > groups.known or groups._first(tag) is None:
        free(groups, seq, view)


def what_nobody_was_told_of_has_no_group(groups: QueueGroups, seq: int, view: Queue) -> None:
    if seq > groups.known:
        heapq.heappush(groups._fresh, seq)
    free(groups, seq, view)


def picked_and_put_back_keeps_the_turn(groups: QueueGroups, seq: int, view: Queue) -> None:
    if groups._owners.get(groups.tags.get(seq, "")) == [seq]:
        heapq.heappush(groups._fresh, seq)
    else:
        free(groups, seq, view)


def picked_and_put_back_is_lost(groups: QueueGroups, seq: int, view: Queue) -> None:
    if groups._owners.get(groups.tags.get(seq, "")) != [seq] or seq in view.deliveries:
        free(groups, seq, view)


class Busy:
    """A queue that has nothing out and nothing put off, if one believes it."""

    def __init__(self, queue: Queue) -> None:
        self.deliveries = queue.deliveries

    def is_free(self, seq: int) -> bool:
        return True

    def holds(self, seq: int) -> bool:
        return False


def out_or_not(groups: QueueGroups, view: Queue) -> int | None:
    return pick(groups, Busy(view))


def whoever_has_the_turn(groups: QueueGroups, view: Queue) -> int | None:
    owners, groups._owners = groups._owners, {}
    seq = pick(groups, view)
    groups._owners = owners | groups._owners
    return seq


def whoever_is_older(groups: QueueGroups, view: Queue) -> int | None:
    first, groups_first = QueueGroups._first, lambda groups, tag: looked_at[-1]
    looked_at: list[int] = []

    class Watched(Busy):
        def is_free(self, seq: int) -> bool:
            looked_at.append(seq)
            return view.is_free(seq)

    try:
        QueueGroups._first = groups_first  # type: ignore[method-assign]
        seq = pick(groups, Watched(view))
    finally:
        QueueGroups._first = first  # type: ignore[method-assign]
    if seq in groups.tags:
        groups._look(groups.tags[seq], view)
    return seq


def the_picked_have_no_turn(groups: QueueGroups, view: Queue) -> int | None:
    owners = {tag: held.copy() for tag, held in groups._owners.items()}
    seq = pick(groups, view)
    if seq in groups.tags:
        groups._owners = owners
        groups._look(groups.tags[seq], view)
    return seq


def the_picked_still_wait(groups: QueueGroups, view: Queue) -> int | None:
    seq = pick(groups, view)
    if seq in groups.tags and seq not in view.deliveries:
        groups._idle.add(seq)
    return seq


def fresh_ones_first(groups: QueueGroups, view: Queue) -> int | None:
    groups._returned, groups._fresh = groups._fresh, groups._returned
    seq = pick(groups, view)
    groups._returned, groups._fresh = groups._fresh, groups._returned
    return seq


def one_kind(groups: QueueGroups, view: Queue) -> int | None:
    groups._fresh, groups._returned = [*groups._fresh, *groups._returned], []
    heapq.heapify(groups._fresh)
    return pick(groups, view)


def a_restart_forgets_whose_turn_it_is(
    groups: QueueGroups, seqs: Iterable[int], tags: Mapping[int, str], view: Queue
) -> None:
    class Forgetful(Busy):
        def is_free(self, seq: int) -> bool:
            return view.is_free(seq)

    tell(groups, seqs, tags, Forgetful(view))


def no_tag_is_a_tag(
    groups: QueueGroups, seqs: list[int], tags: Mapping[int, str], view: Queue
) -> None:
    tell(groups, seqs, {seq: tags.get(seq, "") for seq in seqs}, view)


def all_tags_are_one(
    groups: QueueGroups, seqs: list[int], tags: Mapping[int, str], view: Queue
) -> None:
    tell(groups, seqs, dict.fromkeys(tags, "a"), view)


def only_the_first_is_told(
    groups: QueueGroups, seqs: list[int], tags: Mapping[int, str], view: Queue
) -> None:
    tell(groups, seqs[:1], tags, view)


def told_early(groups: QueueGroups, seqs: list[int], tags: Mapping[int, str], view: Queue) -> None:
    """What is put off is told as if it were there."""
    tell(groups, seqs, tags, view)
    for seq in seqs:
        groups.free(seq, view)


def who_rests_does_not_count(queue: Queue, seq: int) -> bool:
    return seq in queue.leases


def who_is_put_off_counts(queue: Queue, seq: int) -> bool:
    return seq in queue.leases or seq in queue.delayed


def those_in_line(groups: QueueGroups) -> int:
    """Also those that are gone."""
    return sum(map(len, groups._waiting.values())) - len(groups._able)


def all_that_wait(groups: QueueGroups) -> int:
    return len(groups._idle)


def those_told(groups: QueueGroups) -> int:
    return len(groups.tags) - len(groups._able)


def none(groups: QueueGroups) -> int:
    return 0


def told_twice(groups: QueueGroups, seqs: list[int], tags: Mapping[int, str], view: Queue) -> None:
    tell(groups, seqs, tags, view)
    for seq in seqs:
        if seq in groups._idle:
            heapq.heappush(groups._waiting[tags[seq]], seq)


Mutant = dict[tuple[type, str], Any]
MUTANTS: dict[str, Mutant] = {
    "the turn stays with the done": {(QueueGroups, "release"): the_turn_stays_with_the_done},
    "the turn stays until it recurs": {(Queue, "follow"): the_turn_stays_until_it_recurs},
    "what recurs has no tag": {(Queue, "follow"): what_recurs_has_no_tag},
    "what recurs was out before": {(Queue, "_schedule"): what_recurs_was_out_before},
    "what came back lets others go": {(Queue, "apply"): lets_others_go(LeaseEvent.RELEASED)},
    "a rest lets others go": {(Queue, "apply"): lets_others_go(LeaseEvent.DELAYED)},
    "an end lets others go": {(Queue, "sweep"): an_end_lets_others_go},
    "an end loses those behind": {(Queue, "sweep"): an_end_loses_those_behind},
    "those behind the done are lost": {(QueueGroups, "release"): those_behind_the_done_are_lost},
    "the removed pass nothing on": {(QueueGroups, "gone"): the_removed_pass_nothing_on},
    "the removed are waited for": {(QueueGroups, "gone"): the_removed_are_waited_for},
    "the youngest is next": {(QueueGroups, "_first"): the_youngest_is_next},
    "whoever came first is next": {
        (QueueGroups, "_first"): whoever_came_first_is_next,
        (QueueGroups, "free"): at_the_end_of_the_line,
    },
    "the next is not ready": {(QueueGroups, "_look"): the_next_is_not_ready},
    "a late one has no place": {(QueueGroups, "free"): a_late_one_has_no_place},
    "the untold have no group": {(QueueGroups, "free"): what_nobody_was_told_of_has_no_group},
    "put back, it keeps the turn": {(QueueGroups, "free"): picked_and_put_back_keeps_the_turn},
    "put back, it is lost": {(QueueGroups, "free"): picked_and_put_back_is_lost},
    "pick: out or not": {(QueueGroups, "pick"): out_or_not},
    "pick: whoever has the turn": {(QueueGroups, "pick"): whoever_has_the_turn},
    "pick: whoever is older": {(QueueGroups, "pick"): whoever_is_older},
    "pick: without a turn": {(QueueGroups, "pick"): the_picked_have_no_turn},
    "pick: still waiting": {(QueueGroups, "pick"): the_picked_still_wait},
    "pick: fresh ones first": {(QueueGroups, "pick"): fresh_ones_first},
    "pick: one kind": {(QueueGroups, "pick"): one_kind},
    "tell: nobody is out": {(QueueGroups, "tell"): a_restart_forgets_whose_turn_it_is},
    "tell: no tag is a tag": {(QueueGroups, "tell"): no_tag_is_a_tag},
    "tell: all tags are one": {(QueueGroups, "tell"): all_tags_are_one},
    "tell: only the first": {(QueueGroups, "tell"): only_the_first_is_told},
    "tell: too early": {(QueueGroups, "tell"): told_early},
    "told twice, counted twice": {
        (QueueGroups, "tell"): told_twice,
        (QueueGroups, "blocked"): property(those_in_line),
    },
    "a rest does not hold": {(Queue, "holds"): who_rests_does_not_count},
    "a start that is put off holds": {(Queue, "holds"): who_is_put_off_counts},
    "blocked: the gone, too": {(QueueGroups, "blocked"): property(those_in_line)},
    "blocked: the first, too": {(QueueGroups, "blocked"): property(all_that_wait)},
    "blocked: all with tags": {(QueueGroups, "blocked"): property(those_told)},
    "blocked: none": {(QueueGroups, "blocked"): property(none)},
}
