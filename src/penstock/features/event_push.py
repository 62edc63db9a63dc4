"""Pushes of one event type: events are checked, known ids are left out, the rest is appended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from penstock.codec import kernel
from penstock.errors import InvalidArgument, Overloaded, PenstockError, ProjectionFailed
from penstock.feature_types import Pushed, PushSync
from penstock.features.dedupe_index import DedupeIndex, Id, bytes_of, id_of
from penstock.features.definition_nodes import EventType
from penstock.features.durations import duration_text
from penstock.features.event_decoder import EventDecoder, FieldSchema
from penstock.features.feature_log import AppendUnderWay, FeatureLog
from penstock.features.ids_under_way import IdsUnderWay
from penstock.features.time_bounds import TimeBounds
from penstock.projections.host import HostedProjection
from penstock.types import Appended

Event = Mapping[str, Any] | bytes
_MANY: Final = 8  # from here on one pass over all is faster
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class BegunPush(msgspec.Struct, frozen=True, gc=False):
    """A push whose new events have their seqs. `queued`: their append, which is not done yet; None
    when there are no new ones. `first_seq` and `last_seq` are then those of the known ones, which
    cannot be read yet if `needs_flush`."""

    queued: AppendUnderWay | None
    deduped: int
    first_seq: int = 0
    last_seq: int = 0
    needs_flush: bool = False


class EventPush:
    """Safe from several threads. Of an event type with a dedupe window, one push at a time looks at
    the ids and queues its append, which is one step. They wait for the log together."""

    def __init__(
        self,
        event: EventType,
        log: FeatureLog,
        index: HostedProjection | None,
        under_way: IdsUnderWay | None = None,
    ) -> None:
        self.event = event
        self._log = log
        self._index = index
        # One for all that push to the topic.
        self._under_way = under_way or IdsUnderWay(lambda: log.flush(event.topic))
        self._decoder = EventDecoder(
            event.name,
            {name: FieldSchema(one.type, one.is_optional) for name, one in event.fields.items()},
            None if event.time is None else TimeBounds.of(event.time),
        )

    @property
    def is_deduped(self) -> bool:
        return self._index is not None

    def is_synced(self, sync: PushSync | None) -> bool:
        """True if a push is acknowledged after its sync. What the event type promises counts also
        when its topic was given a weaker class, or was dropped and created again."""
        return "per_event" in (sync, self.event.sync)

    def check_sync(self, sync: PushSync | None) -> None:
        """Raise InvalidArgument if a push must be synced and its topic never is."""
        if self.is_synced(sync):
            self._log.check_sync(self.event.topic)

    def checked(self, events: Sequence[Event]) -> list[bytes]:
        """The events as JSON texts, if all of them fit. Raises SchemaMismatch."""
        if not events:
            raise InvalidArgument(f"no event to push: expected one {self.event.name!r} or more")
        texts = [one if isinstance(one, bytes) else _text(self.event.name, one) for one in events]
        now_ms = self._log.clock.now_ms()
        if len(texts) < _MANY or not self._are_all_good(texts, now_ms):
            for index, text in enumerate(texts):
                self._decoder.validate(text, index if len(texts) > 1 else None, now_ms)
        return texts

    def _are_all_good(self, texts: Sequence[bytes], now_ms: int) -> bool:
        """Decode many events at once. False: some do not fit, and `validate` says why."""
        ends = np.zeros(len(texts) + 1, np.uint32)
        np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=ends[1:])
        return self._decoder.fit(ends.tobytes(), b"".join(texts), len(texts), now_ms=now_ms)

    def spans(self, body: bytes, most: int) -> bytes | None:
        """Where the events of a JSON array lie in it, as `kernel.element_spans` says it, if they
        are all good. None: `checked` must look at each of them."""
        found = None if self.is_deduped else kernel.element_spans(body, most)
        if found is None:
            return None
        table, count = found
        now_ms = self._log.clock.now_ms()
        is_good = self._decoder.fit(table, body, count, are_spans=True, now_ms=now_ms)
        return table if is_good else None

    def push(self, events: Sequence[Event], sync: PushSync | None, version: int) -> Pushed:
        """Append the events that are new, all or none."""
        is_synced = self.is_synced(sync)
        if self._index is None:
            texts = self.checked(events)
            self.check_sync(sync)
            return self.answer(
                self._log.append(self.event.topic, texts, is_synced=is_synced), version
            )
        begun = self.begin(events, sync)
        appended = None if begun.queued is None else begun.queued.wait()
        if begun.needs_flush:
            self._log.flush(self.event.topic)
        pushed = self.ended(begun, appended, version)
        if is_synced:  # also what another push appended, which may have promised less
            self._log.sync(self.event.topic, pushed.last_seq)
        return pushed

    def begin(
        self,
        events: Sequence[Event],
        sync: PushSync | None,
        done: Callable[[Appended | PenstockError], None] | None = None,
    ) -> BegunPush:
        """The first half of a push to an event type with a dedupe window. `done` as in
        `FeatureLog.queue`."""
        texts = self.checked(events)
        topic, under_way, field = self.event.topic, self._under_way, self._id_field
        self.check_sync(sync)
        with under_way.turn:
            under_way.begin(field)
            new: list[tuple[bytes, Mapping[str, Any]]] = []
            known: list[int] = []
            needs_flush = False
            for text, event, one, seq in self._looked_up(texts):
                if seq is not None:
                    known.append(seq)
                elif one is not None and (seq := under_way.find(field, one)) is not None:
                    known.append(seq)
                    needs_flush = True
                else:
                    new.append((text, event))
            if not new:
                return BegunPush(None, len(texts), min(known), max(known), needs_flush)
            fresh = [text for text, _ in new]
            queued = under_way.queue(
                [event for _, event in new], lambda: self._log.queue(topic, fresh, done)
            )
        return BegunPush(queued, len(texts) - len(new))

    def ended(self, begun: BegunPush, appended: Appended | None, version: int) -> Pushed:
        """The answer of a push that was begun; `appended` is that of its append."""
        if appended is not None:
            return self.answer(appended, version, begun.deduped)
        return Pushed(
            self.event.name,
            self.event.topic,
            begun.first_seq,
            begun.last_seq,
            0,
            begun.deduped,
            self._log.clock.now_ms(),
            version,
        )

    def answer(self, appended: Appended, version: int, deduped: int = 0) -> Pushed:
        return Pushed(
            self.event.name,
            self.event.topic,
            appended.first_seq,
            appended.last_seq,
            appended.count,
            deduped,
            appended.ts,
            version,
        )

    @property
    def _id_field(self) -> str:
        if self.event.dedupe is None:
            raise AssertionError("the event has no dedupe window")
        return self.event.dedupe.field

    def _looked_up(
        self, texts: Sequence[bytes]
    ) -> list[tuple[bytes, Mapping[str, Any], Id | None, int | None]]:
        """Each event with its id, and its seq if the index has it. Of events with one id, only the
        first."""
        held, field = self._index, self._id_field
        if held is None:
            raise AssertionError("the event has no index of ids")
        try:
            held.runner.read_own()
        except ProjectionFailed as error:
            raise ProjectionFailed(
                error.path,
                reason=f"the ids of event {self.event.name!r} are not known: {error.reason}",
                hint="raise `memory_max` of its `dedupe` or shorten its window",
            ) from None
        now_ms = self._log.clock.now_ms()
        here: set[Id] = set()
        found: list[tuple[bytes, Mapping[str, Any], Id | None, int | None]] = []
        new: list[Id] = []
        with held.runner.lock:
            index = held.runner.projection
            if not isinstance(index, DedupeIndex):
                raise TypeError(f"{type(index).__name__} is no index of ids")
            for text in texts:
                event = _decode(text)
                one = id_of(event, field)
                if one is None:
                    found.append((text, event, None, None))
                elif one not in here:
                    here.add(one)
                    seq = index.find(one, now_ms)
                    found.append((text, event, one, seq))
                    if seq is None and self._under_way.find(field, one) is None:
                        new.append(one)
            check_room(index, self.event, new, self._under_way.bytes, now_ms)
        return found


def check_room(
    index: DedupeIndex, event: EventType, new: Sequence[Id], under_way: int, now_ms: int
) -> None:
    """Raise Overloaded if these ids, those of appends under way (their bytes) and those within the
    window need more memory than they may."""
    if event.dedupe is None:
        raise AssertionError("the event has no dedupe window")
    most, more = event.dedupe.memory_max, bytes_of(new)
    held = index.bytes_at(now_ms)
    if not new or held + under_way + more <= most:
        return
    raise Overloaded(
        f"no room for {len(new)} new ids of event {event.name!r}: they need {more} bytes of "
        f"memory, and {index.count_at(now_ms)} ids of the last "
        f"{duration_text(event.dedupe.window_ms)} take {held} of {most}; raise `memory_max` of its "
        "`dedupe` or shorten its window",
        retry_after_ms=max(1, index.frees_in_ms(now_ms)),
        limit=("memory_max", most),
    )


def _text(event: str, data: Mapping[str, Any]) -> bytes:
    try:
        return _encode(data)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidArgument(f"invalid event {event!r}: it is not JSON-able: {error}") from None
