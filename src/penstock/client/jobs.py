"""The verbs of queues as values, as `calls` has them for topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.client import answers
from penstock.client.calls import Call, json_call, topic_path
from penstock.client.http import Response
from penstock.errors import InvalidArgument, ServerError
from penstock.types import Claimed, Job, QueueCounts, Redriven, Schedule, Settled
from penstock.wire.jobs import JobView

_WAIT_S_MAX = 30.0


class _Claimed(msgspec.Struct):
    topic: str
    claimed: list[JobView]
    ready: int = 0


class _Cost(msgspec.Struct):
    fsync_ms: float = 0.0


class _Settled(msgspec.Struct):
    topic: str
    acked: int | None = None
    nacked: int | None = None
    extended: int | None = None
    skipped: list[int] = []
    ready: int = 0
    in_flight: int = 0
    deadlines: dict[int, int] = {}
    performance: _Cost = msgspec.field(default_factory=_Cost)


class _Redriven(msgspec.Struct):
    topic: str
    moved: int
    failed: dict[str, str]
    next_seq: int
    done: bool


class _Scheduled(msgspec.Struct):
    seq: int = msgspec.field(name="$seq")
    cron: str
    timezone: str
    due: int


class _Schedules(msgspec.Struct):
    schedules: list[_Scheduled]


class _Counted(msgspec.Struct):
    queue: QueueCounts | None = None


def schedules(topic: str) -> Call[list[Schedule]]:
    def parse(response: Response, source: str) -> list[Schedule]:
        found = answers.decoded(response, _Schedules, source)
        return [Schedule(one.seq, one.cron, one.timezone, one.due) for one in found.schedules]

    return Call("GET", topic_path(topic, "schedules"), parse)


def claim(topic: str, node: str, most: int, lease_ms: int | None, wait_s: float) -> Call[Claimed]:
    """Not repeated when its answer was lost: what it leased comes back by itself, and a second
    claim would keep twice as much from others until then."""
    asked: dict[str, Any] = {"node": _node(node), "max": most}
    if lease_ms is not None:
        asked["lease_ms"] = lease_ms
    wait_s = max(0.0, min(wait_s, _WAIT_S_MAX))
    if wait_s:
        asked["wait_ms"] = round(wait_s * 1000)
    target = topic_path(topic, "claim")
    return json_call(
        "POST", target, asked, _claimed, is_change=True, is_repeatable=False, wait_s=wait_s
    )


def settle(
    verb: str,
    topic: str,
    node: str,
    jobs: Sequence[int | Job],
    lease_ids: Sequence[str],
    **more: int | None,
) -> Call[Settled]:
    """Repeated only under lease ids: without one the second attempt could meet another lease.
    What the lost first attempt did is then among the skipped."""
    seqs, ids = Job.named(jobs, lease_ids)
    asked: dict[str, Any] = {"node": _node(node), "seqs": seqs}
    asked |= {name: value for name, value in more.items() if value is not None}
    if ids:
        asked["lease_ids"] = ids
    target = topic_path(topic, verb)
    return json_call(
        "POST", target, asked, _settled, is_change=True, is_repeatable=bool(ids) and all(ids)
    )


def redrive(
    topic: str,
    *,
    to: str | None,
    seqs: Sequence[int],
    tag: Any,
    after: int,
    limit: int,
    dry_run: bool,
) -> Call[Redriven]:
    """Repeatable: what is moved is gone from here."""
    asked: dict[str, Any] = {"after": after, "limit": limit, "dry_run": dry_run}
    if to is not None:
        asked["to"] = to
    if seqs:
        asked["seqs"] = list(seqs)
    if tag is not None:
        asked["match"] = tag
    return json_call("POST", topic_path(topic, "redrive"), asked, _redriven, is_change=True)


def _redriven(response: Response, source: str) -> Redriven:
    found = answers.decoded(response, _Redriven, source)
    failed = {int(seq): why for seq, why in found.failed.items()}
    return Redriven(found.topic, found.moved, failed, found.next_seq, found.done)


def counts(topic: str) -> Call[QueueCounts]:
    def parse(response: Response, source: str) -> QueueCounts:
        found = answers.decoded(response, _Counted, source).queue
        if found is None:
            raise ServerError(source, reason=f"its answer has no counts: is {topic!r} a queue?")
        return found

    return Call("GET", topic_path(topic) + "?touch=false", parse)


def _node(node: object) -> str:
    if not isinstance(node, str) or not node:
        raise InvalidArgument(f"node is the name of the worker, not {node!r}")
    return node


def _claimed(response: Response, source: str) -> Claimed:
    found = answers.decoded(response, _Claimed, source)
    jobs = [
        Job(
            one.seq,
            one.lease_id,
            one.deadline,
            one.ts,
            one.deliveries,
            one.data,
            one.tag,
            one.meta,
        )
        for one in found.claimed
    ]
    return Claimed(found.topic, jobs, found.ready)


def _settled(response: Response, source: str) -> Settled:
    found = answers.decoded(response, _Settled, source)
    done = next(
        (one for one in (found.acked, found.nacked, found.extended) if one is not None), None
    )
    if done is None:
        raise ServerError(source, reason="its answer does not say how many jobs it settled")
    return Settled(
        found.topic,
        done,
        found.skipped,
        found.ready,
        found.in_flight,
        found.deadlines,
        found.performance.fsync_ms,
    )
