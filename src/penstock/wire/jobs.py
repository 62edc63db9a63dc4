"""A job as the HTTP API spells it, in answers and in events."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.schema_types import U64, TopicName
from penstock.types import Job

_Tag = Annotated[str | None, Meta(extra_json_schema={"type": "string"})]  # None is not sent


class JobView(msgspec.Struct, omit_defaults=True):
    """A job on the wire."""

    seq: U64 = msgspec.field(name="$seq")
    lease_id: Annotated[str, Meta(extra_json_schema={"pattern": "^lease_[0-9a-f]+$"})]
    deadline: U64
    ts: U64 = msgspec.field(name="$ts")
    deliveries: Annotated[int, Meta(extra_json_schema={"minimum": 1})]
    data: Any
    tag: _Tag = msgspec.field(name="$tag", default=None)
    meta: Any = None


class JobEvent(JobView, omit_defaults=True, kw_only=True):
    """A job on a work stream."""

    topic: TopicName


def view_of(job: Job) -> JobView:
    return JobView(
        job.seq, job.lease_id, job.deadline, job.ts, job.deliveries, job.data, job.tag, job.meta
    )


def event_of(job: Job, topic: str) -> JobEvent:
    return JobEvent(
        job.seq,
        job.lease_id,
        job.deadline,
        job.ts,
        job.deliveries,
        job.data,
        job.tag,
        job.meta,
        topic=topic,
    )
