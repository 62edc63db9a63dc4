"""Request bodies and WebSocket commands, as declared models. Unknown fields are ignored.

The server decodes with these models, and the OpenAPI document is derived from them. Bounds that
stand in `extra_json_schema` are for the document: handlers check them, in bytes where the document
counts characters, and answer with the code that belongs to the bound.
"""

from __future__ import annotations

import itertools
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from penstock import limits
from penstock.append_options import AppendOptions
from penstock.schema_types import TopicName

_U64_MAX: Final = (1 << 64) - 1


def _documented(**bounds: Any) -> Meta:
    """Bounds that the document states and the handler checks."""
    return Meta(extra_json_schema=bounds)


NonNegative = Annotated[int, Meta(ge=0)]
"""Counts and durations. The handler reduces a larger value to its limit."""
Seq = Annotated[int, Meta(ge=0, extra_json_schema={"maximum": _U64_MAX})]
Seqs = Annotated[list[Seq], _documented(maxItems=limits.QUEUE_JOBS_MAX)]
LeaseId = Annotated[str, _documented(pattern="^(lease_[0-9a-f]{1,16})?$")]
IdempotencyKey = Annotated[str, _documented(minLength=1, maxLength=limits.KEY_BYTES_MAX)]
Label = Annotated[str, _documented(maxLength=limits.NODE_BYTES_MAX)]  # empty means absent
Node = Annotated[str, _documented(minLength=1, maxLength=limits.NODE_BYTES_MAX)]
Nodes = Node | list[Node] | None
Consistency = Literal["eventual", "strong"]
Config = Annotated[dict[str, Any], _documented(**{"$ref": "#/components/schemas/TopicConfigBody"})]
"""Members of `TopicConfig`. `topics/validation.py` decodes them."""

_TAG: Final = {"type": "string", "minLength": 1}


def _tag_row(operator: str, value: dict[str, Any]) -> dict[str, Any]:
    items = [{"const": "tag"}, {"const": operator}, value]
    return {"type": "array", "prefixItems": items, "minItems": 3, "maxItems": 3}


TagPredicate = Annotated[
    Any,
    Meta(
        description=(
            "Which tags match: a text is equality, a text that ends in `*` is a literal prefix; "
            '`["tag","Eq",v]` and `["tag","Glob","v*"]` are the long forms. '
            "`*` alone matches every tagged record. An untagged record never matches."
        ),
        extra_json_schema={
            "anyOf": [
                _TAG,
                _tag_row("Eq", _TAG),
                _tag_row("Glob", {"type": "string", "pattern": r"\*$"}),
                {"type": "null"},
            ]
        },
    ),
]
Refused = Annotated[Any, _documented(type="null")]
"""A member that this request inherits and must not use; null is the same as absent."""

ABSENT: Final = msgspec.Raw(b"null")


class RecordBody(msgspec.Struct, gc=False):
    """One record of a write. The payload stays the text that was sent."""

    data: msgspec.Raw
    tag: Annotated[str, _documented(maxLength=limits.TAG_BYTES_MAX)] | None = None
    node: Label | None = None
    # A factory, because a schema cannot state a raw text as a default.
    meta: msgspec.Raw = msgspec.field(default_factory=itertools.repeat(ABSENT).__next__)


class WriteOptions(AppendOptions, kw_only=True, frozen=True):
    """The options of an append, and the options that only a server has. The server passes this
    value to the engine unchanged."""

    config: Config | None = None
    disable_backpressure: bool = False


class WriteHead(WriteOptions, kw_only=True, frozen=True):
    """A write without its records: the JSON head of a binary batch."""

    node: Label | None = None


class WriteBody(WriteHead, kw_only=True, frozen=True):
    """`POST /v0/topics/:topic`"""

    records: Annotated[list[RecordBody], _documented(minItems=1, maxItems=limits.BATCH_RECORDS_MAX)]


class TopicWriteBody(WriteBody, kw_only=True, frozen=True):
    """A write that names its topic."""

    topic: TopicName


class BatchWriteBody(TopicWriteBody, kw_only=True, frozen=True):
    """One part of `POST /v0/batch`. The parts share the idempotency key of the batch, and cannot be
    delayed."""

    idempotency_key: Refused = None
    deliver_at: Refused = None
    delay_ms: Refused = None
    cron: Refused = None
    timezone: Refused = None


class BatchBody(msgspec.Struct, kw_only=True):
    """`POST /v0/batch`"""

    writes: Annotated[
        list[BatchWriteBody], _documented(minItems=1, maxItems=limits.BATCH_WRITES_MAX)
    ]
    idempotency_key: IdempotencyKey | None = None


class DiffBody(msgspec.Struct, kw_only=True):
    """`POST /v0/topics/:topic/diff`"""

    from_seq: Seq | None = None
    from_ts: NonNegative | None = None
    epoch: NonNegative | None = None
    limit: NonNegative = 0
    node: Nodes = None
    tag: TagPredicate = None
    include_tags: bool = False
    include_meta: bool = True
    wait_ms: NonNegative = 0
    max_batch_bytes: NonNegative = 0
    consistency: Consistency = "eventual"


class RouterBody(msgspec.Struct, kw_only=True):
    """`PUT /v0/routers/:router`"""

    source: TopicName
    dest: TopicName
    preserve_node: bool = True
    preserve_tag: bool = True
    create_dest: bool = True
    filter: TagPredicate = None
    allow_cycle: bool = False
    guarantee: Literal["at_least_once", "exactly_once"] = "at_least_once"


class DeleteBody(msgspec.Struct, kw_only=True):
    """`POST /v0/topics/:topic/delete`"""

    before_seq: Seq | None = None
    match: TagPredicate = None
    seqs: Seqs = []


class Follow(msgspec.Struct, kw_only=True):
    """Where to start in one topic."""

    from_seq: Seq = 0
    tail: bool = False
    from_ts: NonNegative | None = None
    epoch: NonNegative | None = None
    tag: TagPredicate = None


class FollowOptions(msgspec.Struct, kw_only=True):
    """Options that watch and subscribe share."""

    node: Nodes = None
    tag: TagPredicate = None
    limit: NonNegative = 0
    max_batch_bytes: NonNegative = 0
    include_meta: bool = True
    include_tags: bool = False
    include_data: bool = True


class WatchBody(FollowOptions, kw_only=True):
    """`POST /v0/watch`"""

    topics: Annotated[
        dict[str, Follow], _documented(minProperties=1, maxProperties=limits.WATCH_TOPICS_MAX)
    ]
    heartbeat_ms: NonNegative = 15_000
    consistency: Consistency = "eventual"


class ClaimBody(msgspec.Struct, kw_only=True):
    """`POST /v0/topics/:topic/claim`"""

    node: Node
    max: NonNegative = 1
    lease_ms: NonNegative | None = None
    wait_ms: NonNegative = 0


class SettleBody(msgspec.Struct, kw_only=True):
    """`POST /v0/topics/:topic/ack`"""

    node: Node
    seqs: Seqs
    lease_ids: list[LeaseId] | None = None


class NackBody(SettleBody, kw_only=True):
    """`POST /v0/topics/:topic/nack`"""

    delay_ms: NonNegative | None = None


class ExtendBody(SettleBody, kw_only=True):
    """`POST /v0/topics/:topic/extend`"""

    lease_ms: NonNegative


class RedriveBody(msgspec.Struct, kw_only=True):
    """`POST /v0/topics/:topic/redrive`"""

    to: TopicName | None = None
    seqs: Seqs = []
    match: TagPredicate = None
    after: Seq = 0
    limit: NonNegative = 100
    dry_run: bool = False


class PositionBody(msgspec.Struct, kw_only=True):
    """`PUT /v0/topics/:topic/positions/:name`"""

    seq: Seq
    epoch: NonNegative | None = None


class Command(msgspec.Struct, kw_only=True):
    """The members that every message of a client on a WebSocket has."""

    op: str
    request_id: msgspec.Raw = msgspec.Raw(b"null")


class Subscribe(FollowOptions, kw_only=True):
    """op `subscribe`"""

    topic: str | None = None
    topics: dict[str, Follow] = {}
    from_seq: Seq = 0
    tail: bool = False
    from_ts: NonNegative | None = None
    epoch: NonNegative | None = None
    lenient: bool = False


class Unsubscribe(msgspec.Struct, kw_only=True):
    """op `unsubscribe`"""

    topic: str | None = None
    topics: list[str] = []


class Publish(TopicWriteBody, kw_only=True, frozen=True):
    """op `publish`"""

    return_seqs: bool = True
