"""The state of one `watch`: several topics over one event stream. No I/O.

A broken stream is resumed from the id of its last event. If the server does not know the session
any more, because it was restarted, a new session begins at the seqs reached so far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from penstock.client import answers, calls, error_answers
from penstock.client.http import HttpResponse
from penstock.errors import InvalidArgument, ServerError
from penstock.types import CaughtUp, Dropped, Gap, Record
from penstock.wire.json_records import BAD_JSON, slow_object
from penstock.wire.sse import Parser

HEARTBEAT_S: Final = 15.0
SILENCE_S: Final = 40.0  # two heartbeats missed: the connection is dead
TOPICS_MAX: Final = 256

Item = tuple[str, Record | Gap | CaughtUp | Dropped]


class SessionForgotten(Exception):
    """The server does not know the session any more."""


class _Wire(msgspec.Struct):
    seq: int = msgspec.field(name="$seq")
    ts: int = msgspec.field(name="$ts")
    tag: str | None = msgspec.field(name="$tag", default=None)
    node: str | None = msgspec.field(name="$node", default=None)
    meta: Any = None
    data: Any = None


class _Records(msgspec.Struct):
    topic: str
    from_seq: int
    to_seq: int
    records: list[_Wire]


class _Place(msgspec.Struct):
    topic: str
    head_seq: int = 0
    gap_to: int = 0
    earliest_seq: int = 0
    reason: str = ""


class _Error(msgspec.Struct):
    code: str | int = ""
    message: str = ""


_fast = msgspec.json.Decoder(_Records).decode
_place = msgspec.json.Decoder(_Place).decode


def _records(data: bytes) -> _Records:
    try:
        return _fast(data)
    except msgspec.ValidationError:  # numbers that JSON allows and the fast decoder does not
        return msgspec.convert(slow_object(data), _Records)


def starts_of(topics: str | Sequence[str] | Mapping[str, int | None]) -> dict[str, int | None]:
    """Topics and patterns, each with the seq to start after; None when no seq was given."""
    if isinstance(topics, str):
        topics = [topics]
    found = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics)
    if not found or not all(isinstance(name, str) and name for name in found):
        raise InvalidArgument("no topics to watch: specify names; a trailing * matches a prefix")
    if len(found) > TOPICS_MAX:
        raise InvalidArgument(f"{len(found)} topics in one watch: the maximum is {TOPICS_MAX}")
    return found


class WatchState:
    """The state of one watch over all its connections. Not for several threads."""

    def __init__(
        self,
        starts: Mapping[str, int | None],
        *,
        source: str,
        node: str | Sequence[str] | None = None,
        tag: Any = None,
        tail: bool = False,
        from_ts: int | None = None,
        timeout_s: float | None = None,
        now: float = 0.0,
    ) -> None:
        self.has_begun = False
        self.stream_url: str | None = None
        self.last_id = ""
        self._starts = dict(starts)
        self._source = source
        self._node = node
        self._tag = tag
        self._tail = tail
        self._from_ts = from_ts
        self._reached: dict[str, tuple[int, int | None]] = {}  # topic -> seq, epoch
        self._skip: dict[str, int] = {}
        self._gone: set[str] = set()
        self._asked: set[str] = set()
        self._timeout_s = timeout_s
        self._idle_since = now
        self._failures = 0
        self._parser = Parser()

    # Opening.

    def opening(self) -> calls.Call[answers.WatchGrant]:
        """The call for a session that continues where the last one ended."""
        asked: dict[str, dict[str, Any]] = {}
        for name, start in self._starts.items():
            if name not in self._gone and name not in self._reached:
                asked[name] = self._start(start)
        room = TOPICS_MAX - len(asked)
        self._skip = {}
        for name, (seq, epoch) in self._reached.items():
            if name in self._starts or room > 0:
                room -= 1
                asked[name] = {"from_seq": seq} | ({} if epoch is None else {"epoch": epoch})
            else:  # matched by a pattern, and no room: the server sends known records again
                self._skip[name] = seq
        body: dict[str, Any] = {
            "topics": asked,
            "limit": 1000,
            "heartbeat_ms": round(HEARTBEAT_S * 1000),
            "include_tags": True,
        }
        if self._node:
            body["node"] = self._node if isinstance(self._node, str) else list(self._node)
        if self._tag is not None:
            body["tag"] = self._tag
        self._asked = set(asked)
        return calls.watch(body, is_lenient=self.has_begun)

    def _start(self, seq: int | None) -> dict[str, Any]:
        if seq is not None:
            return {"from_seq": seq}
        if self._from_ts is not None:
            return {"from_ts": self._from_ts}
        return {"tail": True} if self._tail else {}

    def opened(self, session: answers.WatchGrant) -> list[Item]:
        """A session was opened: record the position of each topic. Returns `Dropped` for the topics
        that were dropped before the session was opened."""
        self.has_begun = True
        self.stream_url = session.stream_url
        self.last_id = ""
        self._parser = Parser()
        for name, start in session.topics.items():
            seq, epoch = start.get("from_seq"), start.get("epoch")
            if isinstance(seq, int) and name not in self._skip:
                self._reached[name] = seq, epoch if isinstance(epoch, int) else None
        missing = sorted(
            name for name in self._asked - set(session.topics) if not name.endswith("*")
        )
        for name in missing:
            self._drop(name)
        return [(name, Dropped()) for name in missing]

    def refused(self, response: HttpResponse) -> Exception:
        """The exception for a stream that did not open. After a 404 a new session is needed."""
        if response.status == 404:
            self.stream_url = None
            return SessionForgotten()
        return error_answers.error_of(response, self._source)

    def record_failure(self) -> int:
        """The connection ended. Returns the number of failures in a row. An incomplete event is
        discarded: the server sends it again. Without the id of a last event the server would
        continue after the events that it has sent, so a new session is needed."""
        self._parser = Parser()
        if not self.last_id:
            self.stream_url = None
        self._failures += 1
        return self._failures

    def has_ended(self) -> bool:
        """True when all topics are dropped. A pattern never ends: topics may still be created."""
        return self._gone >= set(self._starts)

    # Waiting.

    def deadline(self, now: float) -> float:
        """The deadline for the next bytes: the server sends heartbeats."""
        until = now + SILENCE_S
        return until if self._timeout_s is None else min(until, self._idle_since + self._timeout_s)

    def restart_timeout(self, item: Item, now: float) -> None:
        """The caller has processed an item: the idle time begins now. `CaughtUp` does not count."""
        if not isinstance(item[1], CaughtUp):
            self._idle_since = now

    def is_idle(self, now: float) -> bool:
        """True when no item has arrived for `timeout_s`."""
        return self._timeout_s is not None and now - self._idle_since >= self._timeout_s

    # Reading.

    def feed(self, piece: bytes) -> list[Item]:
        """The items of the next bytes, in order."""
        items: list[Item] = []
        self._failures = 0
        try:
            for event in self._parser.feed(piece):
                items += self._items(event.event, event.data)
                if event.id:
                    self.last_id = event.id
        except (*BAD_JSON, InvalidArgument) as error:
            raise ServerError(self._source, reason=f"invalid event stream: {error}") from None
        return items

    def _items(self, kind: str, data: bytes) -> list[Item]:
        match kind:
            case "record":
                return self._record_items(_records(data))
            case "tombstone":
                stone = _place(data)
                gap = answers.gap(data)
                # A topic that was created again starts at its beginning; others after the gap.
                to = gap.last
                if gap.reason == "recreated":
                    to = max(0, stone.earliest_seq - 1)
                    self._reached.pop(stone.topic, None)
                self._move(stone.topic, to)
                self._skip.pop(stone.topic, None)
                return [(stone.topic, gap)]
            case "caught-up":
                place = _place(data)
                return [(place.topic, CaughtUp(place.head_seq))]
            case "topic-deleted":
                place = _place(data)
                self._drop(place.topic)
                return [(place.topic, Dropped())]
            case "error":
                self._check_error(msgspec.json.decode(data, type=_Error))
                return []
            case _:  # an event of a later version
                return []

    def _check_error(self, error: _Error) -> None:
        """The server ended the stream. After a shutdown or a newer connection the watch goes on."""
        if error.code not in ("server_shutting_down", "replaced"):
            raise ServerError(self._source, reason=f"its event stream ended: {error.message}")

    def _record_items(self, batch: _Records) -> list[Item]:
        known = self._skip.get(batch.topic, 0)
        if known and batch.to_seq >= known:
            del self._skip[batch.topic]
        if batch.to_seq > known:
            if batch.from_seq < self._reached.get(batch.topic, (0, None))[0]:
                self._reached.pop(batch.topic)  # the topic was created again
            self._move(batch.topic, batch.to_seq)
        return [
            (batch.topic, Record(one.data, one.tag, one.node, one.meta, one.seq, one.ts))
            for one in batch.records
            if one.seq > known
        ]

    def _drop(self, topic: str) -> None:
        self._reached.pop(topic, None)
        self._skip.pop(topic, None)
        self._gone.add(topic)

    def _move(self, topic: str, seq: int) -> None:
        self._reached[topic] = seq, self._reached.get(topic, (0, None))[1]
