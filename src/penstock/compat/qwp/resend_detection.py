"""Detects resent messages, by the acknowledgements that clients have received. Pure.

A client resends messages for which it has received no OK, without marking them. A message that
equals one whose OK was received is therefore new, and treating it as a repetition would lose it.
Nobody says what was heard either. What has reached the client's machine is taken for heard, unless
the connection is reset soon after, as machines do when a program has not read everything: a row
that is there twice can be found, a row that is lost cannot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

_KNOWN_MAX: Final = 131_072
_READING_S: Final = 2.0  # within so long a client that lives reads what has reached it


class Receipts:
    """The receipts of all connections of a server. Event loop only."""

    def __init__(self) -> None:
        self._heard: dict[bytes, int] = {}  # digest -> OKs that were heard; the oldest first
        self._told: dict[bytes, Told] = {}  # digest -> who was told last, and may not have heard

    def heard(self, digest: bytes, asking: Told, is_held: Callable[[int], bool]) -> int:
        """How many equal messages with this digest will not be sent again.

        Of those from before this server's start nothing is known, but `is_held` says which
        numbers the topic has. One alone may be sent again. Several show that equal messages are
        meant here, so none is taken for a repetition.
        """
        told = self._told.get(digest)
        if told is not None and told is not asking:  # it has left, or is another client
            told.confirm()
        count = self._heard.get(digest)
        if count is None:
            count = 0
            if is_held(1):
                count = 2
                while is_held(count):
                    count += 1
            self._record(digest, count)
        return count

    def open(self, delivered_bytes: Callable[[], int], now_s: Callable[[], float]) -> Told:
        """For a new connection."""
        return Told(self, delivered_bytes, now_s)

    def expect(self, digest: bytes, told: Told) -> None:
        self._told[digest] = told

    def confirm(self, digest: bytes, number: int) -> None:
        """The client has received the OK for this message."""
        self._record(digest, max(number + 1, self._heard.get(digest, 0)))

    def drop(self, digest: bytes, told: Told) -> None:
        """Nothing more will be known from this connection."""
        if self._told.get(digest) is told:
            del self._told[digest]

    def _record(self, digest: bytes, count: int) -> None:
        self._heard.pop(digest, None)
        self._heard[digest] = count
        if len(self._heard) > _KNOWN_MAX:
            del self._heard[next(iter(self._heard))]


class Told:
    """The OKs that one connection was sent and may not have received. `delivered_bytes` of what was
    written have reached the other machine."""

    def __init__(
        self, receipts: Receipts, delivered_bytes: Callable[[], int], now_s: Callable[[], float]
    ) -> None:
        self._receipts = receipts
        self._delivered_bytes = delivered_bytes
        self._now_s = now_s
        self._waiting: deque[tuple[float, int, bytes, int]] = deque()  # when, where, what
        self._latest: dict[bytes, int] = {}  # digest -> its last number that waits

    def add(self, marks: Iterable[tuple[bytes, int]], end: int) -> None:
        """An OK for these was written, and ends at this byte."""
        now_s = self._now_s()
        for digest, number in marks:
            self._waiting.append((now_s, end, digest, number))
            self._latest[digest] = number
            self._receipts.expect(digest, self)

    def confirm(self, *, age_s: float = 0.0) -> None:
        """What was told so long ago, and was delivered, was heard."""
        until_s = self._now_s() - age_s
        waiting = self._waiting
        if not waiting or waiting[0][0] > until_s:
            return
        delivered = self._delivered_bytes()
        while waiting and waiting[0][0] <= until_s and waiting[0][1] <= delivered:
            _, _, digest, number = waiting.popleft()
            self._receipts.confirm(digest, number)
            if self._latest.get(digest) == number:
                self._forget(digest)

    def confirm_old(self) -> None:
        """From time to time, so that a reset at the end leaves little in doubt."""
        self.confirm(age_s=_READING_S)

    def end(self, *, is_clean: bool) -> None:
        """The connection ended. A reset means that the client has not read everything."""
        self.confirm(age_s=0.0 if is_clean else _READING_S)
        self._waiting.clear()
        for digest in list(self._latest):
            self._forget(digest)

    def _forget(self, digest: bytes) -> None:
        del self._latest[digest]
        self._receipts.drop(digest, self)
