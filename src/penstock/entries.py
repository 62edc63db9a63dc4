"""Entries: every change to the state of the topics is one of these, live and on replay.

The log holds them as frames (`codec/entry.py`); `topics/registry.py` applies them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import msgspec

from penstock.types import Cause, TagMatch, TopicConfig


@dataclass(frozen=True, slots=True)
class TopicCreated:
    topic_id: int
    name: str
    config: TopicConfig
    ts: int


@dataclass(frozen=True, slots=True)
class TopicConfigured:
    topic_id: int
    name: str
    config: TopicConfig


@dataclass(frozen=True, slots=True)
class TopicDropped:
    topic_id: int
    name: str


class RecordsAppended(msgspec.Struct, frozen=True):
    """Consecutive seqs of one topic; `frames` are their WAL bytes, `offsets` where each starts.

    Made once per append, so a Struct: it costs a tenth of a frozen dataclass.
    """

    topic_id: int
    first_seq: int
    count: int
    first_ts: int
    last_ts: int
    payload_bytes: int
    frames: bytes | memoryview
    offsets: bytes
    key: bytes = b""


@dataclass(frozen=True, slots=True)
class RecordsDeleted:
    """A permanent delete as an operation. Nothing above `bound_seq` is ever touched by it."""

    topic_id: int
    before_seq: int | None
    match: TagMatch | None
    seqs: tuple[int, ...]
    bound_seq: int


@dataclass(frozen=True, slots=True)
class FloorMoved:
    topic_id: int
    evict: int
    earliest: int
    expiry: int


@dataclass(frozen=True, slots=True)
class SeqsReserved:
    topic_id: int
    ceiling: int


@dataclass(frozen=True, slots=True)
class SeqsLost:
    topic_id: int
    first: int
    last: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class PositionMoved:
    """A consumer position was moved or removed."""

    topic_id: int
    name: str
    seq: int
    ts: int
    is_removed: bool = False


@dataclass(frozen=True, slots=True)
class BatchStarted:
    """The next `count` appended records of the topic belong together, all or none."""

    topic_id: int
    first_seq: int
    count: int
    key: bytes
    ts: int
    router: str = ""  # that copied them, and is thereby past `cursor` of its source
    cursor: int = 0


@dataclass(frozen=True, slots=True)
class DurableMarked:
    """Everything up to (file index, offset) of this shard is past a successful sync."""

    file_index: int
    offset: int


@dataclass(frozen=True, slots=True)
class Scarred:
    """`repair` removed unreadable bytes; this frame fills their place."""

    bytes_lost: int


@dataclass(frozen=True, slots=True)
class RouterCreated:
    name: str
    source: str
    dest: str
    options: int
    match: TagMatch | None
    cursor: int
    dest_base: int
    topic_id: int = 0  # of the destination, where the router is kept
    source_id: int = 0


@dataclass(frozen=True, slots=True)
class RouterDropped:
    name: str
    topic_id: int = 0


@dataclass(frozen=True, slots=True)
class RecordsRouted:
    """A router has reached `cursor`: `lost` seqs of its destination stand for records that its
    source had lost, and the copies of the others follow."""

    topic_id: int
    router: str
    cursor: int
    lost: int = 0
    copies: RecordsAppended | None = None
    lost_hops: int = 0  # how often the word of this loss was passed on


@dataclass(frozen=True, slots=True)
class WalRange:
    """Bytes start..end-1 of a WAL file. `group` is the name of the directory it is in."""

    group: str
    file_index: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RouterMoved:
    """A router is past `cursor` of its source, with `count` more copies. Used by replay, for copies
    that were logged with their bytes."""

    topic_id: int
    router: str
    cursor: int
    count: int


@dataclass(frozen=True, slots=True)
class KeyRemembered:
    """The idempotency key of a batch that is in the topic. Replay's form of `BatchStarted`."""

    topic_id: int
    key: bytes
    first_seq: int
    last_seq: int
    ts: int


@dataclass(frozen=True, slots=True)
class RouterLogged:
    """The logged cursor of a router into a RAM-only topic: `total` copies so far."""

    topic_id: int
    router: str
    cursor: int
    total: int


@dataclass(frozen=True, slots=True)
class CopiesLogged:
    """The logged form of copies: the position of their bytes in the log, and the seqs taken from
    the source. Without seqs, only the cursor moved."""

    topic_id: int
    first_seq: int
    ts: int
    router: str
    options: int
    cursor: int
    lost: int = 0
    source_id: int = 0
    source: str = ""
    place: WalRange | None = None
    # Numbers in pairs, from seq 1 on: how many are passed over, how many are taken.
    runs: tuple[int, ...] = ()


class LeaseEvent(enum.IntEnum):
    """Events of jobs. The numbers are on disk (Leases frames): never renumber."""

    CLAIMED = 0
    RELEASED = 1
    EXTENDED = 2
    DELAYED = 4
    DEAD = 5
    SCHEDULED = 6


@dataclass(frozen=True, slots=True)
class LeasesChanged:
    """One event for several jobs of a queue. Claimed ones have consecutive lease ids from
    `lease_id` on; for dead ones it is how many there have been in all. Of scheduled ones `node` is
    the schedule."""

    topic_id: int
    event: LeaseEvent
    seqs: tuple[int, ...]
    deliveries: tuple[int, ...] = ()  # of claimed ones, this one included
    node: str = ""
    lease_id: int = 0
    until_ms: int = 0
    lease_ms: int = 0


COPIES_DURABLE = 0x80  # among the options of CopiesLogged: the copies were waited for
COPIES_HOPS_SHIFT = 4  # three bits: how many routers have passed on the loss

TopicEntry = (
    TopicCreated
    | TopicConfigured
    | TopicDropped
    | RecordsAppended
    | RecordsDeleted
    | FloorMoved
    | SeqsReserved
    | SeqsLost
    | PositionMoved
    | LeasesChanged
    | RouterCreated
    | RouterDropped
    | RecordsRouted
    | RouterLogged
    | RouterMoved
    | KeyRemembered
)
ControlEntry = (
    TopicCreated
    | TopicConfigured
    | TopicDropped
    | RecordsDeleted
    | FloorMoved
    | SeqsReserved
    | SeqsLost
    | PositionMoved
    | BatchStarted
    | DurableMarked
    | Scarred
    | RouterCreated
    | RouterDropped
    | LeasesChanged
    | CopiesLogged
)
