"""Events of the event streams and messages of the WebSocket, as declared models.

The server formats most of them as bytes (`server/events.py`, `server/websocket_commands.py`): one
page of records goes to many streams. Tests decode real events and messages with these models.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from penstock.codec import kernel
from penstock.schema_types import U64, TopicName
from penstock.types import Cause
from penstock.wire.answers import AppendPerformance, AppendRow, RecordView, StartView

masked_messages = kernel.masked_messages  # of a WebSocket client, in the bytes that were read

StreamReason = Annotated[
    str, Meta(extra_json_schema={"enum": [*(cause.word for cause in Cause), "from_seq_too_old"]})
]
RequestId = Annotated[Any, Meta(description="The `request_id` of the command; null without one.")]


# Events of `GET /v0/watch/:wid`.


class RecordEvent(msgspec.Struct, kw_only=True):
    """Records of a topic after `from_seq`, up to `to_seq`."""

    topic: TopicName
    from_seq: U64
    to_seq: U64
    head_seq: U64
    records: list[RecordView]


class TombstoneEvent(msgspec.Struct, kw_only=True):
    """Seqs `gap_from` to `gap_to` are lost, and no caller deleted them."""

    topic: TopicName
    reason: StreamReason
    gap_from: U64
    gap_to: U64
    earliest_seq: U64
    head_seq: U64


class CaughtUpEvent(msgspec.Struct, kw_only=True):
    """Every record up to `head_seq` was sent."""

    topic: TopicName
    head_seq: U64


class TopicDeletedEvent(msgspec.Struct, kw_only=True):
    """The topic was deleted. No more records of it follow."""

    topic: TopicName
    head_seq: Literal[0]
    reason: Literal["deleted"]


class ErrorEvent(msgspec.Struct, kw_only=True):
    """Why the server ends the stream."""

    code: str
    message: str


class WorkErrorEvent(msgspec.Struct, kw_only=True):
    """Why the server ends a work stream. A topic that is no queue any more has the status as
    `code` and the code as `error`."""

    code: str | int
    error: str | UnsetType = UNSET
    message: str
    topic: TopicName


# Messages of `GET /v0/ws`, from the server.


class SubscribedMessage(msgspec.Struct, kw_only=True, tag_field="op", tag="subscribed"):
    """The answer to `subscribe`: where each topic starts."""

    request_id: RequestId
    topics: dict[str, StartView]


class UnsubscribedMessage(msgspec.Struct, kw_only=True, tag_field="op", tag="unsubscribed"):
    """The answer to `unsubscribe`: the topics that the connection followed."""

    request_id: RequestId
    topics: list[str]


class AckMessage(AppendRow, kw_only=True, tag_field="op", tag="ack"):
    """The answer to `publish`. `seqs` is null with `return_seqs: false`. Delayed records have a
    `delayed_id` and no seqs yet: `seqs` is absent."""

    request_id: RequestId
    seqs: list[U64] | UnsetType | None = UNSET
    delayed_id: U64 | UnsetType = UNSET
    performance: AppendPerformance


class PongMessage(msgspec.Struct, kw_only=True, tag_field="op", tag="pong"):
    """The answer to `ping`."""

    request_id: RequestId


class ErrorMessage(msgspec.Struct, kw_only=True, tag_field="op", tag="error"):
    """A command failed, or the server closes the connection."""

    request_id: RequestId
    code: str
    message: str
    detail: dict[str, Any] | UnsetType = UNSET


class RecordMessage(RecordEvent, kw_only=True, tag_field="op", tag="record"):
    """Records of a topic after `from_seq`, up to `to_seq`."""


class CaughtUpMessage(CaughtUpEvent, kw_only=True, tag_field="op", tag="caught_up"):
    """Every record up to `head_seq` was sent."""


class TombstoneMessage(TombstoneEvent, kw_only=True, tag_field="op", tag="tombstone"):
    """Seqs `gap_from` to `gap_to` are lost, and no caller deleted them."""


class TopicDeletedMessage(TopicDeletedEvent, kw_only=True, tag_field="op", tag="topic_deleted"):
    """The topic was deleted. No more records of it follow."""
