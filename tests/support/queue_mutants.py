"""Queues with one promise broken at a time; `queue_launch` adds them to `server_mutants`."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any

from penstock.atomic_steps import Step
from penstock.engine import queues as engine_queues
from penstock.engine.handle import Handle
from penstock.engine.lease_clock import LeaseClock
from penstock.engine.queues import Claimer, Queues
from penstock.entries import LeaseEvent, LeasesChanged, RecordsDeleted
from penstock.topics.leases import Queue
from tests.support.server_mutants import Patch


def _ack_not_fenced() -> list[Patch]:
    """Any lease of the same node is as good as the one that was given."""

    held = Queue.held

    def lenient(self: Queue, node: str, seqs: Iterable[int], lease_ids: Iterable[int]) -> Any:
        return held(self, node, seqs, [0 for _ in lease_ids])

    return [(Queue, "held", lenient)]


def _ack_not_logged() -> list[Patch]:
    """A job that is done is deleted in memory only."""

    def acked(self: Queues, handle: Handle, held: tuple[int, ...], callback: Any) -> Any:
        removal = RecordsDeleted(handle.topic.id, None, None, held, handle.next_seq - 1)
        self._journal.apply_unlogged(handle, [removal])
        return None, False, 0

    return [(Queues, "_acked", acked)]


def _ack_takes_the_next() -> list[Patch]:
    """With a job goes the one behind it, which nobody has done."""
    acked = Queues._acked

    def greedy(self: Queues, handle: Handle, held: tuple[int, ...], callback: Any) -> Any:
        behind = [seq for seq in (held[-1] + 1,) if seq < handle.next_seq and seq not in held]
        return acked(self, handle, (*held, *behind), callback)

    return [(Queues, "_acked", greedy)]


def _claim_not_marked() -> list[Patch]:
    """A job that somebody works on is offered to others."""
    claim = Queue._claim

    def forgetful(self: Queue, entry: LeasesChanged) -> list[Step]:
        back = [(heapq.heappush, self._reclaimed, seq) for seq in entry.seqs]
        return [*claim(self, entry), *back]

    def is_free(self: Queue, seq: int) -> bool:
        return seq not in self.delayed and seq not in self.offered

    return [(Queue, "_claim", forgetful), (Queue, "is_free", is_free)]


def _claim_not_logged() -> list[Patch]:
    """A restart forgets how often a job was out, and which leases were given."""
    return [(engine_queues, "_KEPT", (LeaseEvent.DELAYED, LeaseEvent.DEAD))]


def _leases_end_at_restart() -> list[Patch]:
    """Even those that were promised to hold."""
    restart = Queue.restart

    def lenient(self: Queue, now_ms: int, *, keeps_leases: bool) -> None:
        restart(self, now_ms, keeps_leases=False)

    return [(Queue, "restart", lenient)]


def _expiry_by_wall_clock() -> list[Patch]:
    """Leases end by the time of the day, which people set."""
    return [(LeaseClock, "now_ms", lambda self: self._clock.now_ms())]


def _never_expires() -> list[Patch]:
    """A job whose worker went away is not given to others."""
    return [(Queue, "sweep", lambda self, now_ms: None)]


def _deliveries_not_counted() -> list[Patch]:
    """Each delivery is the first."""
    lease = Queues._lease

    def first(
        self: Queues, handle: Handle, claimer: Claimer, seqs: list[int]
    ) -> LeasesChanged | None:
        handle.topic.queue.deliveries.update(dict.fromkeys(seqs, 0))
        return lease(self, handle, claimer, seqs)

    return [(Queues, "_lease", first)]


MUTANTS: dict[str, Callable[[], list[Patch]]] = {
    "ack-not-fenced": _ack_not_fenced,
    "ack-not-logged": _ack_not_logged,
    "ack-takes-the-next": _ack_takes_the_next,
    "claim-not-marked": _claim_not_marked,
    "claim-not-logged": _claim_not_logged,
    "leases-end-at-restart": _leases_end_at_restart,
    "expiry-by-wall-clock": _expiry_by_wall_clock,
    "never-expires": _never_expires,
    "deliveries-not-counted": _deliveries_not_counted,
}
