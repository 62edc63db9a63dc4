"""What callers send, as declared shapes. Unknown fields are ignored everywhere."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

U64 = Annotated[int, msgspec.Meta(ge=0)]
"""Seqs and durations. The upper bound is checked where the value is used."""

ABSENT: Final = msgspec.Raw(b"null")

Nodes = str | list[str] | None
Consistency = Literal["eventual", "strong"]


class RecordBody(msgspec.Struct, gc=False):
    """One record of a write. Its payload stays the text that was sent."""

    data: msgspec.Raw
    tag: str | None = None
    node: str | None = None
    meta: msgspec.Raw = ABSENT


class WriteHead(msgspec.Struct, kw_only=True):
    """A write but for its records."""

    node: str | None = None
    idempotency_key: str | None = None
    create: bool | None = None
    config: dict[str, Any] | None = None
    disable_backpressure: bool = False
    expected_seq: U64 | None = None
    deliver_at: U64 | None = None
    delay_ms: U64 | None = None
    cron: str | None = None
    timezone: str | None = None

    @property
    def is_for_later(self) -> bool:
        """Does it say when its jobs are due?"""
        given = (self.deliver_at, self.delay_ms, self.cron, self.timezone)
        return given != (None,) * 4


class WriteBody(WriteHead, kw_only=True):
    """`POST /v0/topics/:topic`"""

    records: list[RecordBody]


class TopicWriteBody(WriteBody, kw_only=True):
    """One part of `POST /v0/batch`."""

    topic: str


class BatchBody(msgspec.Struct, kw_only=True):
    """`POST /v0/batch`"""

    writes: list[TopicWriteBody]
    idempotency_key: str | None = None


class DiffBody(msgspec.Struct, kw_only=True):
    """`POST /v0/topics/:topic/diff`"""

    from_seq: U64 | None = None
    from_ts: U64 | None = None
    epoch: U64 | None = None
    limit: U64 = 0
    node: Nodes = None
    tag: Any = None
    include_tags: bool = False
    include_meta: bool = True
    wait_ms: U64 = 0
    max_batch_bytes: U64 = 0
    consistency: Consistency = "eventual"


class RouterBody(msgspec.Struct, kw_only=True):
    """`PUT /v0/routers/:router`"""

    source: str
    dest: str
    preserve_node: bool = True
    preserve_tag: bool = True
    create_dest: bool = True
    filter: Any = None
    allow_cycle: bool = False
    guarantee: Literal["at_least_once", "exactly_once"] = "at_least_once"


class DeleteBody(msgspec.Struct, kw_only=True):
    """`POST /v0/topics/:topic/delete`"""

    before_seq: U64 | None = None
    match: Any = None
    seqs: list[U64] = []


class Follow(msgspec.Struct, kw_only=True):
    """Where to begin in one topic."""

    from_seq: U64 = 0
    tail: bool = False
    from_ts: U64 | None = None
    epoch: U64 | None = None
    tag: Any = None


class FollowOptions(msgspec.Struct, kw_only=True):
    """What watch and subscribe have in common."""

    node: Nodes = None
    tag: Any = None
    limit: U64 = 0
    max_batch_bytes: U64 = 0
    include_meta: bool = True
    include_tags: bool = False
    include_data: bool = True


class WatchBody(FollowOptions, kw_only=True):
    """`POST /v0/watch`"""

    topics: dict[str, Follow]
    heartbeat_ms: U64 = 15_000
    consistency: Consistency = "eventual"


class ClaimBody(msgspec.Struct, kw_only=True):
    """`POST /v0/topics/:topic/claim`"""

    node: str
    max: U64 = 1
    lease_ms: U64 | None = None
    wait_ms: U64 = 0


class SettleBody(msgspec.Struct, kw_only=True):
    """`POST /v0/topics/:topic/ack`"""

    node: str
    seqs: list[U64]
    lease_ids: list[str] | None = None


class NackBody(SettleBody, kw_only=True):
    """`POST /v0/topics/:topic/nack`"""

    delay_ms: U64 | None = None


class ExtendBody(SettleBody, kw_only=True):
    """`POST /v0/topics/:topic/extend`"""

    lease_ms: U64


class RedriveBody(msgspec.Struct, kw_only=True):
    """`POST /v0/topics/:topic/redrive`"""

    to: str | None = None
    seqs: list[U64] = []
    match: Any = None
    after: U64 = 0
    limit: U64 = 100
    dry_run: bool = False


class PositionBody(msgspec.Struct, kw_only=True):
    """`PUT /v0/topics/:topic/positions/:name`"""

    seq: U64
    epoch: U64 | None = None


class Command(msgspec.Struct, kw_only=True):
    """Any message on a WebSocket, as far as it must be read to know which one it is."""

    op: str
    request_id: msgspec.Raw = msgspec.Raw(b"null")


class Subscribe(FollowOptions, kw_only=True):
    """op `subscribe`"""

    topic: str | None = None
    topics: dict[str, Follow] = {}
    from_seq: U64 = 0
    tail: bool = False
    from_ts: U64 | None = None
    epoch: U64 | None = None
    lenient: bool = False


class Unsubscribe(msgspec.Struct, kw_only=True):
    """op `unsubscribe`"""

    topic: str | None = None
    topics: list[str] = []


class Publish(TopicWriteBody, kw_only=True):
    """op `publish`"""

    return_seqs: bool = True
