"""Pushes of one event type: events are checked, known ids are left out, the rest is appended."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from penstock.codec import kernel
from penstock.errors import InvalidArgument
from penstock.feature_types import Pushed, PushSync
from penstock.features.dedupe_index import DedupeIndex, Id, id_of
from penstock.features.definition_nodes import EventType
from penstock.features.event_decoder import EventDecoder, FieldSchema
from penstock.features.feature_log import FeatureLog
from penstock.projections.host import HostedProjection
from penstock.types import Appended

Event = Mapping[str, Any] | bytes
_MANY: Final = 8  # from here on one pass over all is faster
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class EventPush:
    """Safe from several threads. Of an event type with a dedupe window, one push runs at a time:
    the look at the ids and the append are one step."""

    def __init__(
        self,
        event: EventType,
        log: FeatureLog,
        index: HostedProjection | None,
        turn: threading.Lock | None = None,
    ) -> None:
        self.event = event
        self._log = log
        self._index = index
        self._turn = turn or threading.Lock()  # one for all that push to the topic
        self._decoder = EventDecoder(
            event.name,
            {name: FieldSchema(one.type, one.is_optional) for name, one in event.fields.items()},
        )

    @property
    def is_deduped(self) -> bool:
        return self._index is not None

    def is_synced(self, sync: PushSync | None) -> bool:
        """True if a push is acknowledged after its sync. What the event type promises counts also
        when its topic was given a weaker class, or was dropped and created again."""
        return "per_event" in (sync, self.event.sync)

    def checked(self, events: Sequence[Event]) -> list[bytes]:
        """The events as JSON texts, if all of them fit. Raises SchemaMismatch."""
        if not events:
            raise InvalidArgument(f"no event to push: expected one {self.event.name!r} or more")
        texts = [one if isinstance(one, bytes) else _text(self.event.name, one) for one in events]
        if len(texts) < _MANY or not self._are_all_good(texts):
            for index, text in enumerate(texts):
                self._decoder.validate(text, index if len(texts) > 1 else None)
        return texts

    def _are_all_good(self, texts: Sequence[bytes]) -> bool:
        """Decode many events at once. False: some do not fit, and `validate` says why."""
        ends = np.zeros(len(texts) + 1, np.uint32)
        np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=ends[1:])
        return self._decoder.fit(ends.tobytes(), b"".join(texts), len(texts))

    def spans(self, body: bytes, most: int) -> bytes | None:
        """Where the events of a JSON array lie in it, as `kernel.element_spans` says it, if they
        are all good. None: `checked` must look at each of them."""
        found = None if self.is_deduped else kernel.element_spans(body, most)
        if found is None:
            return None
        table, count = found
        return table if self._decoder.fit(table, body, count, are_spans=True) else None

    def push(self, events: Sequence[Event], sync: PushSync | None, version: int) -> Pushed:
        """Append the events that are new, all or none."""
        texts = self.checked(events)
        is_synced = self.is_synced(sync)
        if self._index is None:
            return self.answer(
                self._log.append(self.event.topic, texts, is_synced=is_synced), version
            )
        with self._turn:
            known = self._known(texts)
            new = [text for text, seq in zip(texts, known, strict=True) if seq is None]
            seqs = [seq for seq in known if seq is not None]
            if new:
                appended = self._log.append(self.event.topic, new, is_synced=is_synced)
                return self.answer(appended, version, len(seqs))
        if is_synced:  # the push that appended them may have promised less
            self._log.sync(self.event.topic, max(seqs))
        return Pushed(
            self.event.name,
            self.event.topic,
            min(seqs),
            max(seqs),
            0,
            len(seqs),
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

    def _known(self, texts: Sequence[bytes]) -> list[int | None]:
        """The seq of each event whose id was seen, in the log or earlier in this push. Of the
        latter it is the seq that is given out next, or a later one."""
        held = self._index
        dedupe = self.event.dedupe
        if held is None or dedupe is None:
            raise AssertionError("the event has no dedupe window")
        held.runner.read_own()
        now_ms = self._log.clock.now_ms()
        found: list[int | None] = []
        here: set[Id] = set()
        with held.runner.lock:
            index = held.runner.projection
            if not isinstance(index, DedupeIndex):
                raise TypeError(f"{type(index).__name__} is no index of ids")
            head = held.runner.applied
            following = 1 if head is None else head.seq + 1
            for text in texts:
                one = id_of(_decode(text), dedupe.field)
                if one is None:
                    found.append(None)
                elif one in here:
                    found.append(following)
                else:
                    here.add(one)
                    found.append(index.find(one, now_ms))
        return found


def _text(event: str, data: Mapping[str, Any]) -> bytes:
    try:
        return _encode(data)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidArgument(f"invalid event {event!r}: it is not JSON-able: {error}") from None
