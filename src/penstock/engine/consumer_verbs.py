"""The verbs of consumer positions that a log has."""

from __future__ import annotations

import abc

from penstock.engine.consumers import Consumers
from penstock.types import Position


class ConsumerVerbs(abc.ABC):
    """A part of `Log`, which makes this one."""

    _consumers: Consumers

    def move_position(self, topic: str, name: str, seq: int) -> Position:
        """Note that consumer `name` has dealt with everything up to `seq`. Durable on return."""
        return self._consumers.move(topic, name, seq)

    def position(self, topic: str, name: str) -> Position | None:
        """Where this consumer stands, and how far behind that is; None when it never moved."""
        return self._consumers.get(topic, name)

    def positions(self, topic: str) -> list[Position]:
        """All of the topic, sorted by name."""
        return self._consumers.all(topic)

    def drop_position(self, topic: str, name: str) -> bool:
        """Forget a consumer; false when there is none of this name. Durable on return."""
        return self._consumers.drop(topic, name)
