"""Selects the next jobs of a queue to deliver, and reserves them for a claim until they are leased.

A job is on offer from the moment a claim selects it until the claim leases it or withdraws. Offers
do not survive a restart.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Collection, Iterable
from typing import Final

from penstock.atomic_steps import perform
from penstock.engine.handle import Handle
from penstock.engine.job_reading import tags_of
from penstock.engine.lease_clock import LeaseClock
from penstock.errors import NotAQueue, TopicNotFound
from penstock.limits import QUEUE_JOBS_MAX
from penstock.topics import read_plan
from penstock.topics.leases import Queue

_TOLD_MAX: Final = 4096  # jobs whose tags are looked up in one go
_LATER_MS: Final = 10_000  # before a job that cannot be read or put aside is tried again


class JobOffers:
    """Safe from several threads. The `offer` of a claim is the set of jobs that it has on offer."""

    def __init__(self, lease_clock: LeaseClock) -> None:
        self._lease_clock = lease_clock
        self._telling = threading.Lock()

    def pick(self, handle: Handle, most: int, offer: set[int]) -> tuple[list[int], list[int]]:
        """Put ready jobs on offer. Returns (jobs to deliver, jobs that were delivered too often).
        Jobs that were delivered before come first, then new ones."""
        with handle.lock:
            queue = queue_of(handle)
            prune(handle)
            queue.sweep(self._lease_clock.now_ms())
            config = handle.topic.config
            bound = config.max_deliveries if config.dead_letter is not None else 0
            if queue.groups is not None:
                return _pick_by_group(handle, queue, most, bound, offer)
            return _pick(handle, queue, most, bound, offer)

    def withdraw(self, handle: Handle, seqs: Collection[int], offer: set[int]) -> None:
        """Withdraw these jobs of an offer: other claims may select them."""
        given = list(seqs)  # it may be the offer itself
        if not given:
            return
        with handle.lock:
            queue = handle.topic.queue
            for seq in given:
                if seq in offer and seq in queue.offered:
                    queue.put_back(seq)
                    perform(((queue.offered.discard, seq), (offer.discard, seq)))
            offer.difference_update(given)
        handle.wake()

    def pass_over(
        self, handle: Handle, seqs: Iterable[int], offer: set[int], *, is_damaged: bool
    ) -> None:
        """Remove jobs that cannot be delivered now from the offer. The lock is held."""
        queue = handle.topic.queue
        for seq in seqs:
            if is_damaged and read_plan.is_live(handle.topic, seq):
                queue.put_off(seq, self._lease_clock.now_ms() + _LATER_MS)
                perform(((queue.offered.discard, seq), (offer.discard, seq)))
                if queue.groups is not None:
                    queue.groups.release(seq, queue)
            else:
                queue.put_back(seq)
                perform(((queue.offered.discard, seq), (offer.discard, seq)))

    def is_untold(self, handle: Handle) -> bool:
        """True if a queue with groups has jobs whose tags it has not read yet, or a new rule."""
        is_grouped = handle.topic.config.rules.group_by is not None
        with handle.lock:
            groups = handle.topic.queue.groups
            if groups is None or not is_grouped:
                return is_grouped or groups is not None
            return groups.known < handle.topic.head

    def tell_groups(self, handle: Handle) -> None:
        """Read the tags of the jobs of a queue with groups. Each job is read once, without the
        lock."""
        is_grouped = handle.topic.config.rules.group_by is not None
        groups = handle.topic.queue.groups
        if groups is None and not is_grouped:
            return
        with self._telling:
            with handle.lock:
                queue_of(handle).use_groups(is_grouped)
            while is_grouped:
                with handle.lock:
                    groups = queue_of(handle).groups
                    if groups is None or groups.known >= handle.topic.head:
                        return
                    past = read_plan.live_past(handle.topic, groups.known)
                    seqs = list(itertools.islice(past, _TOLD_MAX))
                    places = read_plan.places(handle.topic, seqs)
                    last = seqs[-1] if len(seqs) == _TOLD_MAX else handle.topic.head
                    removals = handle.topic.removals
                tags = tags_of(places)
                with handle.lock:
                    queue = queue_of(handle)
                    queue.sweep(self._lease_clock.now_ms())
                    if handle.topic.removals != removals:
                        seqs = [seq for seq in seqs if read_plan.is_live(handle.topic, seq)]
                    groups.tell(seqs, tags, queue)
                    groups.known = max(groups.known, last)


def _pick(
    handle: Handle, queue: Queue, most: int, bound: int, offer: set[int]
) -> tuple[list[int], list[int]]:
    topic = handle.topic
    found: list[int] = []
    dead: list[int] = []
    for seq in queue.reclaimed():
        if bound and queue.deliveries.get(seq, 0) >= bound:
            dead.append(seq)
        elif read_plan.is_live(topic, seq):
            found.append(seq)
        else:
            queue.forget([seq])
            continue
        perform(((queue.offered.add, seq), (offer.add, seq)))
        if len(found) == most or len(dead) == QUEUE_JOBS_MAX:
            return found, dead
    cursor = queue.cursor
    past = read_plan.live_past(topic, cursor)
    left = most - len(found)
    fresh: list[int] = []
    while some := list(itertools.islice(past, left - len(fresh))):
        cursor = some[-1]
        fresh += queue.fresh(some)
    perform(
        (
            (setattr, queue, "cursor", cursor),
            (queue.offered.update, fresh),
            (offer.update, fresh),
        )
    )
    return found + fresh, dead


def _pick_by_group(
    handle: Handle, queue: Queue, most: int, bound: int, offer: set[int]
) -> tuple[list[int], list[int]]:
    found: list[int] = []
    dead: list[int] = []
    while len(found) < most and len(dead) < QUEUE_JOBS_MAX and queue.groups is not None:
        job = queue.groups.pick(queue)
        if job is None:
            break
        if not read_plan.is_live(handle.topic, job):
            queue.forget([job])
            continue
        is_dead = bound and queue.deliveries.get(job, 0) >= bound
        (dead if is_dead else found).append(job)
        perform(((queue.offered.add, job), (offer.add, job)))
    return found, dead


def queue_of(handle: Handle) -> Queue:
    """The lock is held."""
    if handle.is_dropped:
        raise TopicNotFound(handle.topic.name)
    if handle.topic.config.type != "queue":
        raise NotAQueue(handle.topic.name)
    return handle.topic.queue


def prune(handle: Handle) -> None:
    """Forget jobs whose records are deleted. The lock is held."""
    topic = handle.topic
    if topic.queue.pruned != topic.removals:
        topic.queue.prune(functools.partial(read_plan.is_live, topic))
        topic.queue.pruned = topic.removals  # last: an interrupted call is repeated
