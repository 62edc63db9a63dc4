"""Queues that are broken, each in one way, and the clerk must notice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from penstock.atomic_steps import Step
from penstock.entries import LeaseEvent, LeasesChanged
from penstock.topics.leases import Queue, dropped

sweep, steps, forget, rest = Queue.sweep, Queue.steps, Queue.forget, Queue._rest
schedule, held, expire_at = Queue._schedule, Queue.held, Queue._expire_at


def without_putting_back(queue: Queue, now_ms: int) -> None:
    for seq in [seq for seq, one in queue.leases.items() if one.until_ms < now_ms]:
        del queue.leases[seq]


def early_by_one(queue: Queue, now_ms: int) -> None:
    sweep(queue, now_ms + 1)


def whoever_has_the_name(
    queue: Queue, node: str, seqs: Iterable[int], lease_ids: Iterable[int]
) -> tuple[tuple[int, ...], list[int]]:
    return held(queue, node, seqs, [0 for _ in lease_ids])


def the_first_of_a_claim_alone(queue: Queue, until_ms: int, seqs: tuple[int, ...]) -> Step:
    return expire_at(queue, until_ms, seqs[:1])


def one_id_for_all(queue: Queue, entries: Sequence[LeasesChanged]) -> list[Step]:
    ids = [one.lease_id + 1 for one in entries if one.event == LeaseEvent.CLAIMED]
    return [*steps(queue, entries), *[(setattr, queue, "next_lease_id", past) for past in ids]]


def as_often_as_it_came_back(queue: Queue) -> Iterator[int]:
    heap, queue._reclaimed = sorted(queue._reclaimed), []
    return iter([seq for seq in heap if queue.is_free(seq)])


def with_leases_for_ever(queue: Queue, now_ms: int, *, keeps_leases: bool) -> None:
    queue._find_expiries()
    for seq in queue.deliveries:
        queue.put_back(seq)


def with_rests_for_ever(
    queue: Queue, seqs: Sequence[int], until_ms: int, rest_ms: int = 0
) -> list[Step]:
    return rest(queue, seqs, until_ms)


def out_before_though_it_recurs(
    queue: Queue, seqs: Sequence[int], cron: str, until_ms: int
) -> list[Step]:
    deliveries = {seq: queue.deliveries[seq] for seq in seqs if seq in queue.deliveries}
    return [*schedule(queue, seqs, cron, until_ms), (queue.deliveries.update, deliveries)]


def on_offer_though_it_recurs(
    queue: Queue, seqs: Sequence[int], cron: str, until_ms: int
) -> list[Step]:
    offered = queue.offered.intersection(seqs)
    return [*schedule(queue, seqs, cron, until_ms), (queue.offered.update, offered)]


def once_and_never_again(queue: Queue, seqs: Sequence[int], cron: str, until_ms: int) -> list[Step]:
    again = [seq for seq in seqs if seq in queue.crons]
    return [*schedule(queue, seqs, cron, until_ms), dropped(queue.delayed, again)]


def without_its_schedule(queue: Queue, seqs: Sequence[int], cron: str, until_ms: int) -> list[Step]:
    return rest(queue, seqs, until_ms)


def but_the_delayed(queue: Queue, seqs: Iterable[int]) -> None:
    forget(queue, [seq for seq in seqs if seq not in queue.delayed])


MUTANTS = {
    "sweep": without_putting_back,
    "sweep ": early_by_one,
    "held": whoever_has_the_name,
    "_expire_at": the_first_of_a_claim_alone,
    "steps": one_id_for_all,
    "reclaimed": as_often_as_it_came_back,
    "restart": with_leases_for_ever,
    "_rest": with_rests_for_ever,
    "forget": but_the_delayed,
    "_schedule": out_before_though_it_recurs,
    "_schedule ": on_offer_though_it_recurs,
    "_schedule  ": once_and_never_again,
    "_schedule   ": without_its_schedule,
}
