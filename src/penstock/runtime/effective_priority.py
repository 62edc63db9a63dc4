"""The current priority of a topic: its setting, or the time since its last read, raised by the time
that its work has waited."""

from __future__ import annotations

import math
from typing import Final

PRIORITY_MAX: Final = 1000
AUTO_MAX: Final = 500
HALF_LIFE_MS: Final = 30_000
FORGOTTEN_MS: Final = 300_000
AGE_MS_PER_POINT: Final = 10
AGE_CAP_MS: Final = 10_000


class Recency:
    """When each topic was last read. Bounded by the number of topics."""

    def __init__(self) -> None:
        self._read_ms: dict[int, int] = {}

    def touch(self, topic_id: int, now_ms: int) -> None:
        self._read_ms[topic_id] = now_ms

    def forget(self, topic_id: int) -> None:
        self._read_ms.pop(topic_id, None)

    def last_read_ms(self, topic_id: int) -> int | None:
        return self._read_ms.get(topic_id)


def effective_priority(
    priority: int | None, *, is_auto: bool, last_read_ms: int | None, now_ms: int
) -> int:
    """A priority that was set wins, within ±1000. Otherwise interest decays by half every 30
    seconds and is gone after five minutes."""
    if priority is not None:
        return max(-PRIORITY_MAX, min(PRIORITY_MAX, priority))
    if not is_auto or last_read_ms is None:
        return 0
    idle_ms = max(0, now_ms - last_read_ms)
    if idle_ms >= FORGOTTEN_MS:
        return 0
    return round(AUTO_MAX * math.exp2(-idle_ms / HALF_LIFE_MS))


def age_boost(waited_ms: float) -> float:
    """The points for waiting: one every 10 ms, for at most ten seconds."""
    return max(0.0, min(waited_ms, AGE_CAP_MS)) / AGE_MS_PER_POINT
