"""The verbs of queues that a log has, each a few lines over the parts."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.catalogue import Catalogue
from penstock.engine.cohorts import Cohorts
from penstock.engine.queues import Claimer, Queues, checked, decoded, node_name
from penstock.types import Claimed, Job, QueueCounts, Settled


class QueueVerbs:
    """A part of `Log`, which makes these three."""

    queues: Queues  # for servers
    _catalogue: Catalogue
    _cohorts: Cohorts

    def claim(
        self,
        topic: str,
        node: str,
        max: int = 1,
        *,
        lease_ms: int | None = None,
        wait_s: float = 0.0,
    ) -> Claimed:
        """Lease up to `max` ready jobs of a queue to worker `node`. Each is nobody else's until
        its deadline; acknowledge it before, or extend the lease. Waits up to `wait_s` for the
        first."""
        claimer = Claimer(node_name(node), max, lease_ms)
        return decoded(self._cohorts.claim_within(self._catalogue.get(topic), claimer, wait_s))

    def ack(
        self, topic: str, node: str, jobs: Sequence[int | Job], lease_ids: Sequence[str] = ()
    ) -> Settled:
        """These jobs are done: they are deleted, with one sync for all on an `fsync` queue. Give
        the `Job` values of the claim: then only what is still held under that very lease counts,
        and the rest is skipped."""
        handle = self._catalogue.get(topic)
        return self.queues.ack(handle, node_name(node), *checked(jobs, lease_ids))

    def nack(
        self,
        topic: str,
        node: str,
        jobs: Sequence[int | Job],
        lease_ids: Sequence[str] = (),
        *,
        delay_ms: int = 0,
    ) -> Settled:
        """These jobs are not done: they are ready again, at once or `delay_ms` from now."""
        handle = self._catalogue.get(topic)
        given = checked(jobs, lease_ids)
        return self.queues.nack(handle, node_name(node), *given, delay_ms=delay_ms)

    def extend(
        self,
        topic: str,
        node: str,
        jobs: Sequence[int | Job],
        lease_ids: Sequence[str] = (),
        *,
        lease_ms: int,
    ) -> Settled:
        """Keep these jobs for `lease_ms` from now."""
        handle = self._catalogue.get(topic)
        given = checked(jobs, lease_ids)
        return self.queues.extend(handle, node_name(node), *given, lease_ms=lease_ms)

    def queue_counts(self, topic: str) -> QueueCounts:
        """How many jobs are ready, in flight, put off, and dead-lettered so far."""
        return self.queues.counts(self._catalogue.get(topic))
