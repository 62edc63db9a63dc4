"""The calls of queue verbs, as `calls` has them for topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.client import answers
from penstock.client.calls import Call, json_call, topic_path
from penstock.client.http import HttpResponse
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
    def parse(response: HttpResponse, source: str) -> list[Schedule]:
        found = answers.decoded(response, _Schedules, source)
        return [Schedule(one.seq, one.cron, one.timezone, one.due) for one in found.schedules]

    return Call("GET", topic_path(topic, "schedules"), parse)


def claim(topic: str, node: str, most: int, lease_ms: int | None, wait_s: float) -> Call[Claimed]:
    """Not repeated when its answer was lost: its leases end by themselves, and a second claim would
    lease more jobs than the worker asked for."""
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


def resolve(
    verb: str,
    topic: str,
    node: str,
    jobs: Sequence[int | Job],
    lease_ids: Sequence[str],
    **more: int | None,
) -> Call[Settled]:
    """Ack, nack or extend. Repeatable only with lease ids: without them a second attempt could act
    on a later lease of the same job. With them, the server skips the jobs of the first attempt."""
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
    to: str | None = None,
    seqs: Sequence[int] = (),
    tag: Any = None,
    after: int = 0,
    limit: int = 100,
    dry_run: bool = False,
) -> Call[Redriven]:
    """Repeatable: a job that was moved is no longer in `topic`."""
    asked: dict[str, Any] = {"after": after, "limit": limit, "dry_run": dry_run}
    if to is not None:
        asked["to"] = to
    if seqs:
        asked["seqs"] = list(seqs)
    if tag is not None:
        asked["match"] = tag
    return json_call("POST", topic_path(topic, "redrive"), asked, _redriven, is_change=True)


def _redriven(response: HttpResponse, source: str) -> Redriven:
    found = answers.decoded(response, _Redriven, source)
    failed = {int(seq): why for seq, why in found.failed.items()}
    return Redriven(found.topic, found.moved, failed, found.next_seq, found.done)


def counts(topic: str) -> Call[QueueCounts]:
    def parse(response: HttpResponse, source: str) -> QueueCounts:
        found = answers.decoded(response, _Counted, source).queue
        if found is None:
            raise ServerError(
                source, reason=f"its answer has no queue counts: {topic!r} may not be a queue"
            )
        return found

    return Call("GET", topic_path(topic) + "?touch=false", parse)


def _node(node: object) -> str:
    if not isinstance(node, str) or not node:
        raise InvalidArgument(
            f"invalid node {node!r}: expected the name of the worker, a non-empty string"
        )
    return node


def _claimed(response: HttpResponse, source: str) -> Claimed:
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


def _settled(response: HttpResponse, source: str) -> Settled:
    found = answers.decoded(response, _Settled, source)
    done = next(
        (one for one in (found.acked, found.nacked, found.extended) if one is not None), None
    )
    if done is None:
        raise ServerError(
            source, reason="its answer has none of the fields acked, nacked and extended"
        )
    return Settled(
        found.topic,
        done,
        found.skipped,
        found.ready,
        found.in_flight,
        found.deadlines,
        found.performance.fsync_ms,
    )
