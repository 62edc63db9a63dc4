"""The pressure on the process, and the measures against it. Pure: samples in, a value out.

Every 100 ms three signals give one pressure in [0, 1], and the pressure selects measures from a
ladder: coalesce more records for a watcher, wait longer for a group commit, defer low priorities,
and at the top refuse writes. Each measure costs latency and none loses a record. The callers apply
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock import limits
from penstock.runtime.priority_scheduler import BAND_WEIGHTS

SAMPLE_MS: Final = 100
LATENCY_CEILING_MS: Final = 5.0
LATENCY_COUNTED_MS_MAX: Final = 4 * LATENCY_CEILING_MS
LATENCY_SMOOTHING: Final = 0.2
DEPTH_PER_WORKER_MAX: Final = sum(BAND_WEIGHTS)  # one whole round of the scheduler each

COALESCE_ABOVE: Final = 0.2
COALESCE_MS_MAX: Final = 20.0
WIDEN_ABOVE: Final = 0.4
DEFER_ABOVE: Final = 0.8
DEFER_SAMPLES: Final = 5
RELEASE_BELOW: Final = 0.6
REFUSE_FROM: Final = 0.95
RETRY_AFTER_S: Final = 1


@dataclass(frozen=True, slots=True)
class Ladder:
    """The measures at a pressure. They add up; each has its own value for off."""

    pressure: float = 0.0
    coalesce_ms: float = 0.0  # 0: each record is sent at once
    commit_window_ms: float | None = None  # None: the window is as the log finds it best
    is_deferring: bool = False
    retry_after_s: int | None = None  # a write that finds its queue full is refused with this


def pressure_of(*, depth: int, workers: int, latency_ms: float, busy: float) -> float:
    """The mean of the three signals. One alone is a burst, a slow disk or a long task, and gets
    the mild measures; only all three together are overload."""
    crowding = _share(depth, max(1, workers) * DEPTH_PER_WORKER_MAX)
    return (crowding + _share(latency_ms, LATENCY_CEILING_MS) + _share(busy, 1.0)) / 3


def ladder_of(pressure: float, *, is_deferring: bool) -> Ladder:
    return Ladder(
        pressure=pressure,
        coalesce_ms=coalesce_ms(pressure),
        commit_window_ms=commit_window_ms(pressure),
        is_deferring=is_deferring,
        retry_after_s=RETRY_AFTER_S if pressure >= REFUSE_FROM else None,
    )


def coalesce_ms(pressure: float) -> float:
    """How long to coalesce a topic's records into one frame."""
    return COALESCE_MS_MAX * _share(pressure - COALESCE_ABOVE, 1 - COALESCE_ABOVE)


def commit_window_ms(pressure: float) -> float | None:
    """How long a group commit may wait for other commits, or None: the log decides."""
    if pressure <= WIDEN_ABOVE:
        return None
    low_ms, high_ms = limits.COMMIT_WINDOW_MIN_S * 1000, limits.COMMIT_WINDOW_MAX_S * 1000
    return low_ms + (high_ms - low_ms) * pressure


class Deferral:
    """Begins when the pressure stays high, ends when it is low. In between nothing changes."""

    __slots__ = ("_samples_high", "is_on")

    def __init__(self) -> None:
        self.is_on = False
        self._samples_high = 0

    def update(self, pressure: float) -> bool:
        self._samples_high = self._samples_high + 1 if pressure > DEFER_ABOVE else 0
        if self._samples_high >= DEFER_SAMPLES:
            self.is_on = True
        elif pressure < RELEASE_BELOW:
            self.is_on = False
        return self.is_on


class Governor:
    """Turns samples into the ladder that holds until the next one.

    One owner samples. `ladder` is an immutable value, replaced whole: any thread may read it.
    """

    __slots__ = ("_beat", "_deferral", "_taken", "_waited_ms", "ladder", "latency_ms")

    def __init__(self) -> None:
        self.ladder = Ladder()
        self.latency_ms = 0.0
        self._deferral = Deferral()
        self._beat: float | None = None
        self._taken = 0
        self._waited_ms = 0.0

    def waited(self, waited_ms: float) -> None:
        """Record that a topic was served after this wait. Called under the lock of the ready
        set."""
        self._taken += 1
        # Without a limit, one topic that was put off for seconds would be felt for seconds.
        self._waited_ms += min(max(0.0, waited_ms), LATENCY_COUNTED_MS_MAX)

    def sample(self, now_ms: float, *, depth: int, workers: int, busy: float) -> Ladder:
        """Take a sample, once every 100 ms however often it is called. `depth` counts topics that
        may be taken, `busy` is the share of the pool's threads at work."""
        beat = now_ms // SAMPLE_MS
        if beat == self._beat:
            return self.ladder
        self._beat = beat
        self.latency_ms += LATENCY_SMOOTHING * (self._recent_ms(depth) - self.latency_ms)
        self._taken, self._waited_ms = 0, 0.0
        pressure = pressure_of(depth=depth, workers=workers, latency_ms=self.latency_ms, busy=busy)
        self.ladder = ladder_of(pressure, is_deferring=self._deferral.update(pressure))
        return self.ladder

    def _recent_ms(self, depth: int) -> float:
        """The mean wait since the last sample. When no topic was served, either none waited, or the
        waiting ones have waited for the whole time."""
        if self._taken:
            return self._waited_ms / self._taken
        return LATENCY_COUNTED_MS_MAX if depth > 0 else 0.0


def _share(value: float, ceiling: float) -> float:
    """How much of the ceiling is reached, in [0, 1]. Not a number counts as nothing."""
    return min(1.0, value / ceiling) if value > 0 else 0.0
