"""One topic followed by long poll: where the reader is, and what comes next. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from penstock.client import calls
from penstock.types import Gap, Page, Record

POLL_S: Final = 20.0  # how long the server may hold an answer back
PAGE_RECORDS: Final = 1000


class Follower:
    """A place in a topic that moves with each page. Knows the topic's epoch once it has read,
    so that a topic made anew is told apart from the old one, whatever happened in between."""

    def __init__(
        self,
        topic: str,
        *,
        after: int,
        from_ts: int | None,
        node: str | Sequence[str] | None,
        tag: Any,
        timeout_s: float | None,
        now: float,
    ) -> None:
        self.has_begun = False
        self._topic = topic
        self._after = after
        self._from_ts = from_ts
        self._node = node
        self._tag = tag
        self._epoch: int | None = None
        self._timeout_s = timeout_s
        self._idle_since = now
        self._failures = 0

    def call(self, now: float) -> calls.Call[Page]:
        """Ask for what comes next."""
        wait_s = POLL_S
        if self._timeout_s is not None:
            wait_s = max(0.0, min(POLL_S, self._idle_since + self._timeout_s - now))
        return calls.read(
            self._topic,
            calls.Wanted(
                after=self._after,
                limit=PAGE_RECORDS,
                node=self._node,
                tag=self._tag,
                epoch=self._epoch,
                from_ts=self._from_ts,
                wait_s=wait_s,
            ),
        )

    def take(self, page: Page) -> list[Record | Gap]:
        """What this page brings, in order. The place moves past it."""
        self.has_begun = True
        self._failures = 0
        self._after, self._from_ts = page.next_seq, None
        self._epoch = page.epoch or None
        items: list[Record | Gap] = [] if page.gap is None else [page.gap]
        items += page.records
        return items

    def rest(self, now: float) -> None:
        """Everything taken has been dealt with: waiting begins."""
        self._idle_since = now

    def lost(self) -> int:
        """Asking failed: how often so, one after the other."""
        self._failures += 1
        return self._failures

    def is_idle(self, now: float) -> bool:
        """Has nothing come for too long?"""
        return self._timeout_s is not None and now - self._idle_since >= self._timeout_s
