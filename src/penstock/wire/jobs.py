"""A job as the HTTP API spells it, in answers and in events."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.types import Job


class JobView(msgspec.Struct, omit_defaults=True):
    """A job on the wire."""

    seq: int = msgspec.field(name="$seq")
    lease_id: str
    deadline: int
    ts: int = msgspec.field(name="$ts")
    deliveries: int
    data: Any
    tag: str | None = msgspec.field(name="$tag", default=None)
    meta: Any = None
    topic: str | None = None


def view_of(job: Job, topic: str | None = None) -> JobView:
    return JobView(
        job.seq,
        job.lease_id,
        job.deadline,
        job.ts,
        job.deliveries,
        job.data,
        job.tag,
        job.meta,
        topic,
    )
