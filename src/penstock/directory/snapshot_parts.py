"""A topic's state ↔ its part of a snapshot. Values only; the caller handles the files."""

from __future__ import annotations

import itertools
import zlib
from typing import Protocol

import msgspec

from penstock.codec import kernel
from penstock.codec.frame import FrameType
from penstock.directory.block import Block
from penstock.entries import RecordsAppended
from penstock.storage.segments.format import SegmentFacts
from penstock.storage.segments.reader import Segment
from penstock.storage.wal.recovery import Positions
from penstock.topics import loss_ranges
from penstock.topics.bitmap import Bitmap
from penstock.topics.leases import Lease, Queue
from penstock.topics.router import Router
from penstock.topics.spans import Run, Span
from penstock.topics.topic import Topic
from penstock.types import (
    Cause,
    LossRange,
    RouterRules,
    TagMatch,
    TopicConfig,
)


class SpanPart(msgspec.Struct, frozen=True, array_like=True):
    """A span: sealed (facts), or a tail with its frames."""

    first: int
    count: int
    start: int
    live: int
    payload_bytes: int
    dead: bytes  # zlib of the bitmap; empty when nothing is dead
    facts: SegmentFacts | None
    frames: bytes


class QueuePart(msgspec.Struct, frozen=True, array_like=True):
    """The leases of a queue. They are always stored; the opening decides whether they count."""

    leases: list[tuple[int, str, int, int, int]]  # seq, node, id, until, lease_ms
    delayed: list[tuple[int, int, int]]  # seq, until, for how long or 0
    deliveries: list[tuple[int, int]]
    dead_lettered: int
    next_lease_id: int
    crons: list[tuple[int, str]] = []


class RouterPart(msgspec.Struct, frozen=True, array_like=True):
    """A router that ends in the topic."""

    name: str
    source: str
    source_id: int
    bits: int
    match: tuple[bytes, bool] | None
    cursor: int
    forwarded: int


class TopicPart(msgspec.Struct, frozen=True, array_like=True):
    id: int
    name: str
    config: TopicConfig
    created_ts: int
    head: int
    last_ts: int
    ceiling: int
    evict_floor: int
    expiry_floor: int
    delete_floor: int
    position: tuple[int, int]
    losses: list[LossRange]
    keys: list[tuple[bytes, int, int, int]]
    spans: list[SpanPart]
    consumers: list[tuple[str, int, int]] = []  # not written when there are none
    queue: QueuePart | None = None  # nor is this
    routers: list[RouterPart] = []  # nor are these


class SnapshotBody(msgspec.Struct, frozen=True):
    """A whole snapshot."""

    next_topic_id: int
    positions: Positions
    topics: list[TopicPart]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(SnapshotBody)


def encode(body: SnapshotBody) -> bytes:
    """A topic that uses no later feature is written in the earlier form."""
    topics = [msgspec.structs.astuple(part)[: _fields(part)] for part in body.topics]
    return _ENCODER.encode({**msgspec.structs.asdict(body), "topics": topics})


def _fields(part: TopicPart) -> int | None:
    """How many are written."""
    if part.routers:
        return None
    if part.queue is not None:
        return -1
    return -2 if part.consumers else -3


def decode(data: bytes, *, of: bytes, wanted: bytes) -> SnapshotBody:
    """ValueError when it is not a snapshot of this log."""
    if of != wanted:
        raise ValueError("snapshot belongs to another log")
    try:
        return _DECODER.decode(data)
    except msgspec.MsgspecError as error:
        raise ValueError(f"snapshot cannot be decoded: {error}") from None


def capture(topic: Topic, *, with_tail: bool = True) -> TopicPart:
    """Call with the topic's lock held. Of RAM-only records only the seqs are stored, without their
    keys: a retry must append records again that a restart has lost. Without the tail, `completed`
    has to add it."""
    spans, told, keys = topic.spans, topic.losses, topic.keys
    if not with_tail:
        spans = [span for span in spans if span.run.is_sealed]
    numbered = [(key, 0, 0, 0) for key in topic.producers.as_keys()]
    if topic.config.durability == "ephemeral":
        numbered = []
        spans = [span for span in spans if span.run.is_sealed]
        kept_to = max([topic.lost_floor, *(span.last for span in spans)])
        if topic.head > kept_to:
            told = loss_ranges.added(told, kept_to + 1, topic.head, Cause.LOST)
            keys = {key: hit for key, hit in keys.items() if hit[1] <= kept_to}
    return TopicPart(
        topic.id,
        topic.name,
        topic.config,
        topic.created_ts,
        topic.head,
        topic.last_ts,
        topic.ceiling,
        topic.evict_floor,
        topic.expiry_floor,
        topic.delete_floor,
        topic.position,
        list(told),
        [*((key, *hit) for key, hit in keys.items()), *numbered],
        [_capture_span(span) for span in spans],
        [(name, *held) for name, held in topic.consumers.items()],
        _capture_queue(topic) if topic.config.type == "queue" else None,
        [_capture_router(router) for router in topic.routers.values()],
    )


def completed(part: TopicPart, tail: list[Span]) -> TopicPart:
    """A part that was captured without its tail, with the segments that the tail became."""
    return msgspec.structs.replace(part, spans=[*part.spans, *map(_capture_span, tail)])


def capture_cold(topic: Topic) -> TopicPart:
    """The same for a reader of only the cold tier: the topic as of its last cold record. Call with
    the topic's lock held."""
    spans = list(itertools.takewhile(_is_cold, topic.spans))
    head = spans[-1].last if spans else min(topic.earliest - 1, topic.head)
    told = [
        msgspec.structs.replace(loss, last=min(loss.last, head))
        for loss in topic.losses
        if loss.first <= head
    ]
    return TopicPart(
        topic.id,
        topic.name,
        topic.config,
        topic.created_ts,
        head,
        spans[-1].run.last_ts if spans else 0,
        head,
        min(topic.evict_floor, head),
        min(topic.expiry_floor, head),
        min(topic.delete_floor, head),
        (0, 0),
        told,
        [],
        [_capture_span(span) for span in spans],
    )


def _is_cold(span: Span) -> bool:
    return isinstance(span.run, Segment) and span.run.is_cold


def _capture_router(router: Router) -> RouterPart:
    match = router.rules.match
    return RouterPart(
        router.name,
        router.source,
        router.source_id,
        router.rules.bits,
        None if match is None else (match.value, match.is_prefix),
        *router.kept,
    )


def _restore_router(part: RouterPart) -> Router:
    match = None if part.match is None else TagMatch(*part.match)
    rules = RouterRules.of(part.bits, match)
    router = Router(part.name, part.source, part.source_id, rules, part.cursor)
    router.forwarded = part.forwarded
    return router


def _capture_queue(topic: Topic) -> QueuePart | None:
    if topic.config.durability == "ephemeral":
        return None  # its jobs are not kept either
    queue = topic.queue
    return QueuePart(
        [(seq, one.node, one.id, one.until_ms, one.lease_ms) for seq, one in queue.leases.items()],
        [(seq, until, queue.rests.get(seq, 0)) for seq, until in queue.delayed.items()],
        list(queue.deliveries.items()),
        queue.dead_lettered,
        queue.next_lease_id,
        list(queue.crons.items()),
    )


def _restore_queue(queue: Queue, part: QueuePart) -> None:
    queue.leases = {
        seq: Lease(node, lease_id, until_ms, lease_ms)
        for seq, node, lease_id, until_ms, lease_ms in part.leases
    }
    queue.delayed = {seq: until for seq, until, _ in part.delayed}
    queue.rests = {seq: rest for seq, _, rest in part.delayed if rest}
    queue.deliveries = dict(part.deliveries)
    queue.dead_lettered = part.dead_lettered
    queue.next_lease_id = part.next_lease_id
    queue.crons = dict(part.crons)


def _capture_span(span: Span) -> SpanPart:
    run = span.run
    dead = b"" if span.dead is None else zlib.compress(bytes(span.dead.bits), 1)
    facts: SegmentFacts | None = None
    frames = b""
    if isinstance(run, Segment):
        facts = run.facts
    elif isinstance(run, Block):
        frames = bytes(memoryview(run.frames)[: run.used])
    return SpanPart(span.first, span.count, span.start, span.live, span.bytes, dead, facts, frames)


class Segments(Protocol):
    """Finds the segments of a part."""

    def segment(self, topic_id: int, facts: SegmentFacts) -> Run: ...


class _NoSegments:
    """Finds no files, to check everything else in a part."""

    def segment(self, topic_id: int, facts: SegmentFacts) -> Run:
        return _EMPTY


_EMPTY = Block(RecordsAppended(0, 0, 0, 0, 0, 0, b"", b""), 0)


def check(data: bytes) -> None:
    """Check that this snapshot can be restored; ValueError with the reason if not. It runs
    `restore` itself, without the files of segments."""
    try:
        body = _DECODER.decode(data)
    except msgspec.MsgspecError as error:
        raise ValueError(f"snapshot cannot be decoded: {error}") from None
    for part in body.topics:
        restore(part, _NoSegments())


def restore(part: TopicPart, shelf: Segments) -> Topic:
    """The topic as captured. ValueError when the part contradicts itself."""
    topic = Topic(part.id, part.name, part.config, part.created_ts)
    topic.head = part.head
    topic.last_ts = part.last_ts
    topic.ceiling = part.ceiling
    topic.evict_floor = part.evict_floor
    topic.expiry_floor = part.expiry_floor
    topic.delete_floor = part.delete_floor
    topic.position = part.position
    topic.losses = loss_ranges.ordered(part.losses)
    for key, first, last, ts in part.keys:
        topic.remember(key, first, last, ts)
    topic.consumers = {name: (seq, ts) for name, seq, ts in part.consumers}
    if part.queue is not None:
        _restore_queue(topic.queue, part.queue)
    topic.routers = {one.name: _restore_router(one) for one in part.routers}
    for piece in part.spans:
        span = _restore_span(part.id, piece, shelf)
        topic.spans.append(span)
        topic.live += span.live
        topic.bytes += span.bytes
    return topic


def _restore_span(topic_id: int, part: SpanPart, shelf: Segments) -> Span:
    run: Run = (
        shelf.segment(topic_id, part.facts)
        if part.facts is not None
        else block_of(part.frames, part.first, part.count)
    )
    span = Span(
        run,
        first=part.first,
        count=part.count,
        live=part.live,
        payload_bytes=part.payload_bytes,
        start=part.start,
    )
    if part.dead:
        span.dead = Bitmap(_inflated(part.dead, part.count // 8 + 1))
    return span


def _inflated(packed: bytes, most: int) -> bytes:
    """Unpack at most `most` bytes."""
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(packed, most)
    except zlib.error as error:
        raise ValueError(f"the bitmap of dead records is damaged: {error}") from None
    if not unpacker.eof and unpacker.decompress(unpacker.unconsumed_tail, 1):
        raise ValueError("the bitmap of dead records is longer than its span")
    return data


def block_of(frames: bytes, first: int, count: int) -> Block:
    """A block from the frames of one run, verified."""
    items, stop, reason = kernel.scan(frames, 0, len(frames))
    if reason or stop != len(frames) or len(items) != 1 or items[0][0] != FrameType.APPEND:
        raise ValueError("the frames of a tail are damaged")
    _, topic_id, seq, ts, _, _, held, payload, offsets, last_ts = items[0]
    if seq != first or held < count:
        raise ValueError("the frames of a tail are not the ones that were kept")
    entry = RecordsAppended(topic_id, seq, held, ts, last_ts, payload, frames, offsets)
    return Block(entry, 0)
