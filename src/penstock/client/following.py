"""The state of one `follow`: the position in the topic and the next long poll. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from penstock.client import calls
from penstock.types import Gap, Page, Record

POLL_S: Final = 20.0  # how long the server may wait for new records
PAGE_RECORDS: Final = 1000


class Follower:
    """A position in a topic that advances with each page. After the first page it has the topic's
    epoch, so that a topic that was dropped and created again is detected."""

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
        """The read of the next page."""
        wait_s = POLL_S
        if self._timeout_s is not None:
            wait_s = max(0.0, min(POLL_S, self._idle_since + self._timeout_s - now))
        return calls.read(
            self._topic,
            calls.ReadRequest(
                after=self._after,
                limit=PAGE_RECORDS,
                node=self._node,
                tag=self._tag,
                epoch=self._epoch,
                from_ts=self._from_ts,
                wait_s=wait_s,
            ),
        )

    def advance(self, page: Page) -> list[Record | Gap]:
        """Advance past a page. Returns its gap and its records, in order."""
        self.has_begun = True
        self._failures = 0
        self._after, self._from_ts = page.next_seq, None
        self._epoch = page.epoch or None
        items: list[Record | Gap] = [] if page.gap is None else [page.gap]
        items += page.records
        return items

    def restart_timeout(self, now: float) -> None:
        """The caller has processed the page: the idle time begins now."""
        self._idle_since = now

    def record_failure(self) -> int:
        """A read failed. Returns the number of failures in a row."""
        self._failures += 1
        return self._failures

    def is_idle(self, now: float) -> bool:
        """True when no record has arrived for `timeout_s`."""
        return self._timeout_s is not None and now - self._idle_since >= self._timeout_s
