"""A router at work: from one topic to another, as far as it has been sent."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from penstock.engine.copies import Origin
from penstock.topics.routers import Router

if TYPE_CHECKING:
    from penstock.engine.handle import Handle


class Route:
    """`lock` is held by whoever sends it on, so that steps come in order. `moved` is told when a
    step has been published or has failed."""

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
        """Has the source something that was not looked at yet? What nobody can send on does not
        count."""
        if self.is_gone or (self.stopped and not self.in_flight):
            return False
        return self.router.cursor < self.source.topic.head

    def outlook(self) -> tuple[object, ...]:
        """While this is the same, a record that found no room finds none."""
        source, dest = self.source.topic, self.dest.topic
        size = (dest.live, dest.bytes, self.dest.staged_bytes, self.dest.next_seq, dest.config)
        return (self.staged, self.router.rules, source.removals, source.lost_floor, *size)

    def sent(self) -> None:
        """One more step is on its way."""
        with self.moved:
            self.in_flight += 1

    def settled(self, *, failed: bool) -> None:
        """A step is over. After a failure the next one begins where the last one that counts
        ended."""
        with self.moved:
            self.in_flight -= 1
            if failed:
                self.staged = self.router.cursor
            self.moved.notify_all()
