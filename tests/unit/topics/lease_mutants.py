"""Queues that are broken, each in one way, and the clerk must notice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.topics.queues import Queue
from penstock.types import LeasesChanged

sweep, claim, forget, put_off = Queue.sweep, Queue._claim, Queue.forget, Queue.put_off
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


def the_first_of_a_claim_alone(queue: Queue, until_ms: int, seqs: tuple[int, ...]) -> None:
    expire_at(queue, until_ms, seqs[:1])


def one_id_for_all(queue: Queue, entry: LeasesChanged) -> None:
    claim(queue, entry)
    queue.next_lease_id = entry.lease_id + 1


def as_often_as_it_came_back(queue: Queue) -> Iterator[int]:
    heap, queue._reclaimed = sorted(queue._reclaimed), []
    return iter([seq for seq in heap if queue.is_free(seq)])


def with_leases_for_ever(queue: Queue, now_ms: int, *, keeps_leases: bool) -> None:
    for seq, lease in queue.leases.items():
        queue._expire_at(lease.until_ms, (seq,))
    for seq in queue.deliveries:
        queue.put_back(seq)


def with_rests_for_ever(queue: Queue, seq: int, until_ms: int, rest_ms: int = 0) -> None:
    put_off(queue, seq, until_ms)


def out_before_though_it_recurs(queue: Queue, seq: int, cron: str, until_ms: int) -> None:
    deliveries = queue.deliveries.copy()
    schedule(queue, seq, cron, until_ms)
    queue.deliveries = deliveries


def on_offer_though_it_recurs(queue: Queue, seq: int, cron: str, until_ms: int) -> None:
    is_offered = seq in queue.offered
    schedule(queue, seq, cron, until_ms)
    if is_offered:
        queue.offered.add(seq)


def once_and_never_again(queue: Queue, seq: int, cron: str, until_ms: int) -> None:
    is_first = seq not in queue.crons
    schedule(queue, seq, cron, until_ms)
    if not is_first:
        queue.delayed.pop(seq)


def without_its_schedule(queue: Queue, seq: int, cron: str, until_ms: int) -> None:
    queue.put_off(seq, until_ms)


def but_the_delayed(queue: Queue, seqs: Iterable[int]) -> None:
    forget(queue, [seq for seq in seqs if seq not in queue.delayed])


MUTANTS = {
    "sweep": without_putting_back,
    "sweep ": early_by_one,
    "held": whoever_has_the_name,
    "_expire_at": the_first_of_a_claim_alone,
    "_claim": one_id_for_all,
    "reclaimed": as_often_as_it_came_back,
    "settle": with_leases_for_ever,
    "put_off": with_rests_for_ever,
    "forget": but_the_delayed,
    "_schedule": out_before_though_it_recurs,
    "_schedule ": on_offer_though_it_recurs,
    "_schedule  ": once_and_never_again,
    "_schedule   ": without_its_schedule,
}
