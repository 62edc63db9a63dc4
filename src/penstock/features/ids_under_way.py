"""The ids of appends to a topic that are queued: their events cannot be read yet, so no index has
them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.errors import PenstockError
from penstock.features.dedupe_index import Id, bytes_of, id_of
from penstock.features.feature_log import AppendUnderWay


class _Noted:
    """The events of one append. `queued` is None while it is being queued."""

    __slots__ = ("events", "queued")

    def __init__(self, events: Sequence[Mapping[str, Any]]) -> None:
        self.events = events
        self.queued: AppendUnderWay | None = None


class IdsUnderWay:
    """Of one topic. The holder of `turn` uses it: the look at the ids and the queueing of an append
    are one step, and the wait for the append is not part of it."""

    def __init__(self, flush: Callable[[], None]) -> None:
        self.turn = threading.Lock()
        self._flush = flush  # returns when all that is queued can be read, or has failed
        self._appends: deque[_Noted] = deque()  # they are done in this order
        self._fields: set[str] = set()
        self._places: dict[tuple[str, Id], tuple[_Noted, int]] = {}
        self.bytes = 0  # of these ids, as an index would count them

    def begin(self, field: str) -> None:
        """At the beginning of a turn, before a look at the index: forget the appends that are done.
        The ids are in `field`, which a registration may change."""
        if field not in self._fields:
            self._fields.add(field)
            for noted in self._appends:
                self._note(noted, field)
        while self._appends:
            noted = self._appends[0]
            if noted.queued is None:  # an exception from outside ended the call
                self._flush()
            elif not noted.queued.is_done:
                return
            self._forget(noted)

    def find(self, field: str, one: Id) -> int | None:
        """The seq of the event with this id."""
        found = self._places.get((field, one))
        if found is None:
            return None
        noted, at = found
        if noted.queued is None:
            raise AssertionError("an append without a seq outlived its turn")
        return noted.queued.first_seq + at

    def queue(
        self, events: Sequence[Mapping[str, Any]], queue: Callable[[], AppendUnderWay]
    ) -> AppendUnderWay:
        """Queue an append of these events. One that is refused leaves no id behind."""
        noted = _Noted(events)
        for field in self._fields:
            self._note(noted, field)
        self._appends.append(noted)
        try:
            queued = noted.queued = queue()
        except PenstockError:
            self._forget(noted)
            raise
        return queued

    def _note(self, noted: _Noted, field: str) -> None:
        for at, event in enumerate(noted.events):
            one = id_of(event, field)
            if one is not None and (field, one) not in self._places:  # the first one counts
                self._places[field, one] = noted, at
                self.bytes += bytes_of([one])

    def _forget(self, noted: _Noted) -> None:
        self._appends.remove(noted)
        for field in self._fields:
            for event in noted.events:
                one = id_of(event, field)
                if one is not None and self._places.get((field, one), (None,))[0] is noted:
                    del self._places[field, one]
                    self.bytes -= bytes_of([one])
