"""The state of one watch of a row of features over its connections. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.client import error_answers, feature_calls
from penstock.client.http import HttpResponse
from penstock.client.watching import SILENCE_S
from penstock.errors import ServerError
from penstock.feature_types import FeatureKey
from penstock.wire.sse import Parser


class FeatureWatchState:
    """Not for several threads. Each connection begins with the row as it is then: one that was
    received already is left out."""

    def __init__(
        self,
        table: str,
        key: FeatureKey,
        features: Sequence[str] | None,
        *,
        source: str,
        timeout_s: float | None,
        now: float,
    ) -> None:
        self.stream_url: str | None = feature_calls.watch_url(table, key, features)
        self.last_id = ""
        self.has_failed = False  # the server could not read the row, and ended the stream
        self._last: dict[str, Any] | None = None
        self._source = source
        self._timeout_s = timeout_s
        self._idle_since = now
        self._failures = 0
        self._parser = Parser()

    def refused(self, response: HttpResponse) -> Exception:
        """The exception for a stream that did not open."""
        return error_answers.error_of(response, self._source)

    def record_failure(self) -> int:
        """The connection ended; the number of failures in a row."""
        self._parser = Parser()
        self.has_failed = False
        self._failures += 1
        return self._failures

    def deadline(self, now: float) -> float:
        """The deadline for the next bytes: the server sends heartbeats."""
        until = now + SILENCE_S
        return until if self._timeout_s is None else min(until, self._idle_since + self._timeout_s)

    def restart_timeout(self, now: float) -> None:
        self._idle_since = now

    def is_idle(self, now: float) -> bool:
        """True when the row has not changed for `timeout_s`."""
        return self._timeout_s is not None and now - self._idle_since >= self._timeout_s

    def is_new(self, row: dict[str, Any]) -> bool:
        """True when the row differs from the one before."""
        is_new, self._last = row != self._last, row
        return is_new

    def feed(self, piece: bytes) -> list[dict[str, Any]]:
        """The rows in the next bytes that differ from those before, in order."""
        found = []
        for event in self._parser.feed(piece):
            self._failures = 0
            if event.event == "error":
                self.has_failed = True
            elif event.event == "row":
                row = self._row(event.data)
                if self.is_new(row):
                    found.append(row)
        return found

    def _row(self, text: bytes) -> dict[str, Any]:
        try:
            return msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise ServerError(
                self._source, reason=f"it sent an event that is not one: {error}"
            ) from None
