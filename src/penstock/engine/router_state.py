"""The run-time state of a router: its topics, its lock and its progress."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from penstock.directory.copy_origin import Origin
from penstock.topics.router import Router

if TYPE_CHECKING:
    from penstock.engine.handle import Handle


class ActiveRouter:
    """The thread that makes a step holds `lock`, so that steps are in order. `moved` is notified
    when a step has been published or has failed."""

    __slots__ = (
        "dest",
        "full",
        "hops_max",
        "in_flight",
        "is_gone",
        "lock",
        "moved",
        "router",
        "source",
        "staged",
        "stopped",
    )

    def __init__(self, router: Router, source: Handle, dest: Handle) -> None:
        self.router = router
        self.source = source
        self.dest = dest
        self.lock = threading.Lock()
        self.moved = threading.Condition()
        self.staged = router.cursor  # the seq of the source that the newest step goes to
        self.in_flight = 0
        self.hops_max = 0
        self.stopped = ""
        self.full: tuple[object, ...] | None = None  # what it looked like when there was no room
        self.is_gone = False

    @property
    def origin(self) -> Origin:
        return Origin(self.router.name, self.router.source, self.router.source_id)

    @property
    def is_behind(self) -> bool:
        """True if the source has records that were not examined yet. A stopped router does not
        count."""
        if self.is_gone or (self.stopped and not self.in_flight):
            return False
        return self.router.cursor < self.source.topic.head

    def outlook(self) -> tuple[object, ...]:
        """While this value is unchanged, a record that found no room finds none again."""
        source, dest = self.source.topic, self.dest.topic
        size = (dest.live, dest.bytes, self.dest.staged_bytes, self.dest.next_seq, dest.config)
        return (self.staged, self.router.rules, source.removals, source.lost_floor, *size)

    def step_sent(self) -> None:
        """Count one more staged step."""
        with self.moved:
            self.in_flight += 1

    def step_ended(self, *, failed: bool) -> None:
        """A step ended. After a failure the next one begins where the last successful one ended."""
        with self.moved:
            self.in_flight -= 1
            if failed:
                self.staged = self.router.cursor
            self.moved.notify_all()
