"""The verbs of queues that a log has, each a few lines over the parts."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

from penstock.engine import redrive
from penstock.engine.batch import Batch
from penstock.engine.catalogue import Catalogue
from penstock.engine.cohorts import Cohorts
from penstock.engine.handle import Handle
from penstock.engine.queues import Claimer, Queues
from penstock.engine.terms import checked, node_name
from penstock.errors import InvalidArgument
from penstock.topics import names
from penstock.types import (
    Appended,
    Claimed,
    Job,
    QueueCounts,
    RecordsDeleted,
    Redriven,
    Schedule,
    Settled,
)


class QueueVerbs(abc.ABC):
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
        return self._cohorts.claim_within(self._catalogue.get(topic), claimer, wait_s)

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
        delay_ms: int | None = None,
    ) -> Settled:
        """These jobs are not done: they are ready again `delay_ms` from now, or when the queue's
        retry rule says; without one, at once."""
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

    def redrive(
        self,
        topic: str,
        *,
        to: str | None = None,
        seqs: Sequence[int] = (),
        tag: Any = None,
        after: int = 0,
        limit: int = 100,
        dry_run: bool = False,
    ) -> Redriven:
        """Move dead letters of `topic` back to the queues they came from, or to `to`: those in
        `seqs`, those with this tag (a trailing `*` is a prefix), or all; at most `limit` in one
        call. A dry run says what would go, and why others would not."""
        return self.redrive_for(
            self._catalogue.get(topic),
            to=to,
            seqs=list(seqs),
            tag=tag,
            after=after,
            limit=limit,
            dry_run=dry_run,
        )

    def redrive_for(
        self,
        handle: Handle,
        *,
        to: str | None,
        seqs: list[int],
        tag: Any,
        after: int,
        limit: int,
        dry_run: bool,
        may_go: Callable[[str], bool] = lambda topic: True,
    ) -> Redriven:
        """The same for servers, whose callers may not write everywhere."""
        for seq in (*seqs, after):
            names.seq(seq)
        if limit < 1:
            raise InvalidArgument(f"limit must be a positive number, not {limit!r}")
        self._catalogue.check_writable(handle)
        return redrive.redrive(
            handle,
            self._bury,
            lambda moved: self._remove(handle, moved),
            to=None if to is None else names.topic_name(to),
            seqs=seqs,
            match=None if tag is None else names.tag_match(tag),
            after=after,
            limit=limit,
            dry_run=dry_run,
            may_go=may_go,
        )

    @abc.abstractmethod
    def _bury(self, topic: str, batch: Batch) -> Appended:
        """Append a batch that was made here, creating the topic when it is missing."""

    def _remove(self, handle: Handle, seqs: list[int]) -> None:
        entry = RecordsDeleted(handle.topic.id, None, None, tuple(seqs), handle.next_seq - 1)
        self._catalogue.commit(handle, entry)

    def schedules(self, topic: str) -> list[Schedule]:
        """The recurring jobs of a queue. Delete one by its seq, and it comes no more."""
        return self.queues.schedules(self._catalogue.get(topic))

    def queue_counts(self, topic: str) -> QueueCounts:
        """How many jobs are ready, in flight, put off, and dead-lettered so far."""
        return self.queues.counts(self._catalogue.get(topic))
