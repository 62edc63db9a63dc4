"""The protocol between a sender and the server over `GET /v0/sender`. Pure.

Each binary message of the sender is one frame of its spool. The server counts the messages from 0:
`fsn = X-Penstock-Fsn + count`. The frame contains its number, too, and both must agree. A text
message names the incarnation of the frames that follow. The server's replies are binary and
cumulative.
"""

from __future__ import annotations

import enum
import re
from struct import Struct
from struct import error as StructError
from typing import Final

import msgspec

from penstock import limits
from penstock.errors import InvalidArgument

PATH: Final = "/v0/sender"
SENDER: Final = "x-penstock-sender"
FSN: Final = "x-penstock-fsn"  # of the first frame on this connection
DURABLE_ACK: Final = "x-penstock-durable-ack"  # requested with `on`, confirmed with `enabled`
FRAME_BYTES_MAX: Final = "x-penstock-frame-bytes-max"
INCARNATION_BYTES: Final = 16

_MAGIC: Final = b"PSP1"
_PARCEL: Final = Struct("<4sHHI")  # magic, flags, bytes of the topic, records
_PROVED: Final = 1  # a flag: a proof follows the topic, see `topics.idempotency`
PROOF_BYTES: Final = 9
_RECORD: Final = Struct("<IIHH")  # of data, meta, tag, node
_REPLY: Final = Struct("<BQ")  # status, count
_TEXT_MAX: Final = 1024
_TOPIC = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,254}", re.ASCII)

pack_record = _RECORD.pack
ROW_BYTES: Final = _RECORD.size  # of a row without its content


def check_topic(topic: object) -> None:
    """Raises InvalidArgument for a name that a frame cannot contain. The server checks more."""
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
        raise InvalidArgument(
            f"invalid topic name {topic!r}: expected 1 to 255 letters, digits and ._:-"
        )


class ReplyStatus(enum.IntEnum):
    """The first byte of a reply; the error numbers are QWP's."""

    OK = 0  # all frames up to here have met the durability class of their topics
    DURABLE = 2  # all frames up to here are synced
    SCHEMA = 3  # a record is not allowed in its topic
    PARSE = 5  # not a frame
    INTERNAL = 6
    SECURITY = 8
    WRITE = 9  # not written: the topic is full or not writable


class Parcel(msgspec.Struct, frozen=True):
    """The payload of a frame: records of one topic, not decoded yet."""

    topic: str
    count: int
    at: int  # where the records begin in the payload
    proof: bytes = b""  # of a producer that generates its rows again


class Incarnation(msgspec.Struct, frozen=True):
    """The text message: frames of one incarnation never share a number."""

    incarnation: str  # in hex


class Reply(msgspec.Struct, frozen=True):
    """A reply. `count` is the number of its last message, counted from 0."""

    status: int
    count: int
    text: str = ""


def parcel_head(topic: str, count: int, proof: bytes = b"") -> bytes:
    """The header before the records of a payload."""
    name = topic.encode()
    return _PARCEL.pack(_MAGIC, _PROVED if proof else 0, len(name), count) + name + proof


def open_parcel(payload: bytes) -> Parcel:
    """Decode the header of a payload. Raises InvalidArgument."""
    try:
        magic, flags, size, count = _PARCEL.unpack_from(payload)
    except StructError:
        raise InvalidArgument("the payload of the frame is too short") from None
    if magic != _MAGIC or flags not in (0, _PROVED):
        raise InvalidArgument("the payload of the frame has an unknown type")
    at = _PARCEL.size + size
    try:
        topic = payload[_PARCEL.size : at].decode()
    except UnicodeDecodeError:
        raise InvalidArgument("the topic of the frame is not UTF-8") from None
    proof = payload[at : at + PROOF_BYTES] if flags else b""
    at += PROOF_BYTES if flags else 0
    if len(payload) < at or not count:
        raise InvalidArgument("the payload of the frame ends before its records begin")
    if count > limits.BATCH_RECORDS_MAX:
        raise InvalidArgument(
            f"{count} records in one frame: the maximum is {limits.BATCH_RECORDS_MAX}"
        )
    return Parcel(topic, count, at, proof)


def contents_of(payload: bytes) -> tuple[str, int]:
    """The topic and the number of rows of a payload; ('', 0) for an invalid payload."""
    try:
        parcel = open_parcel(payload)
    except InvalidArgument:
        return "", 0
    return parcel.topic, parcel.count


def encode_reply(reply: Reply) -> bytes:
    head = _REPLY.pack(reply.status, reply.count)
    if reply.status in (ReplyStatus.OK, ReplyStatus.DURABLE):
        return head
    return head + reply.text.encode()[:_TEXT_MAX]


def decode_reply(data: bytes) -> Reply:
    """Decode a reply of the server. Raises InvalidArgument."""
    try:
        status, count = _REPLY.unpack_from(data)
    except StructError:
        raise InvalidArgument("the server's answer is too short") from None
    return Reply(status, count, data[_REPLY.size :].decode("utf-8", "replace"))
