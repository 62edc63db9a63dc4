"""A span: consecutive records of a topic, with the count of live ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from penstock.atomic_steps import Step, perform
from penstock.topics.bitmap import Bitmap, indices_of, pack_indices

_REACH: Final = 1024  # records that are looked at for the end of a stretch


class Run(Protocol):
    """The storage of a span's records; index i is seq `first + i`. Readable from any thread."""

    @property
    def is_sealed(self) -> bool:
        """True when the bytes are an immutable file, false when they are the tail in memory."""

    @property
    def last_ts(self) -> int:
        """Commit time of the newest record, for TTL."""

    @property
    def mark(self) -> Any:
        """The fill level, for `reset`; None when it accepts no more records."""

    def reset(self, mark: Any) -> None:
        """Forget the records that came after `mark`. May be repeated."""

    def measure(self, start: int, stop: int, dead: bytearray | None) -> tuple[int, int]:
        """Live records and their payload bytes among indices start..stop-1."""

    def measure_some(self, indices: bytes) -> int:
        """Payload bytes of these indices (u32 array)."""

    def find_tags(
        self, start: int, stop: int, dead: bytearray | None, value: bytes, *, is_prefix: bool
    ) -> bytes:
        """Indices (u32 array) of live records in start..stop-1 with this tag or prefix."""

    def older_than(self, start: int, stop: int, ts: int) -> int:
        """The first index in start..stop-1 whose record is not older than `ts`, or stop."""

    def ts_of(self, index: int) -> int:
        """Commit time of a live record, without reading data files; 0 when it is not known."""


class Span:
    """Mutable; guarded by its topic's lock.

    Invariant: `live` and `bytes` count exactly the records at indices start..count-1 that are
    not in `dead`.
    """

    __slots__ = ("bytes", "count", "dead", "first", "live", "run", "start")

    def __init__(
        self, run: Run, *, first: int, count: int, live: int, payload_bytes: int, start: int = 0
    ) -> None:
        self.run = run
        self.first = first
        self.count = count
        self.start = start
        self.live = live
        self.bytes = payload_bytes
        self.dead: Bitmap | None = None

    def copy(self) -> Span:
        """A copy of the span, for use without the lock."""
        same = Span(
            self.run,
            first=self.first,
            count=self.count,
            live=self.live,
            payload_bytes=self.bytes,
            start=self.start,
        )
        same.dead = None if self.dead is None else Bitmap(bytes(self.dead.bits))
        return same

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    @property
    def earliest(self) -> int:
        """The first live seq. Only meaningful after `skip_dead`."""
        return self.first + self.start

    @property
    def bits(self) -> bytearray | None:
        """The dead ones as bits, for the kernel."""
        return None if self.dead is None else self.dead.bits

    def cut_at(self, index: int) -> tuple[int, int, int]:
        """`start`, `live` and `bytes` without everything below `index`."""
        if index <= self.start:
            return self.start, self.live, self.bytes
        if index >= self.count:
            return self.count, 0, 0
        live, size = self.run.measure(self.start, index, self.bits)
        return index, self.live - live, self.bytes - size

    def kill(self, indices: bytes) -> tuple[int, int]:
        """Mark live indices (u32 array) dead; returns (records, bytes)."""
        if not indices:
            return 0, 0
        numbers = indices_of(indices)
        steps, size = self.killing(numbers)
        perform(steps)
        return len(numbers), size

    def killing(self, indices: Sequence[int]) -> tuple[list[Step], int]:
        """The steps that mark live indices dead, ascending ones and at least one; and the payload
        bytes of their records."""
        size = self.run.measure_some(pack_indices(indices))
        dead = self.dead
        steps: list[Step] = []
        if dead is None:
            dead = Bitmap()
            steps.append((setattr, self, "dead", dead))
        steps += (
            *dead.adding(indices),
            (setattr, self, "live", self.live - len(indices)),
            (setattr, self, "bytes", self.bytes - size),
        )
        return steps, size

    def first_live_without(self, indices: Sequence[int]) -> int:
        """The first live index, or count, when these live ones, ascending, are dead."""
        at = self.start
        for index in indices:
            if index != at:
                at = self.first_live(at)
                if index != at:
                    return at
            at += 1
        return self.first_live(at)

    def skip_dead(self) -> None:
        """Move `start` to the first live record."""
        if self.dead is not None:
            self.start = self.dead.first_clear(self.start, self.count)

    def last_live(self, stop: int) -> int:
        """The last live index below `stop`, or start - 1."""
        if self.dead is None:
            return stop - 1
        return self.dead.last_clear(self.start, stop)

    def live_from(self, index: int) -> int:
        """How many of the records at `index` and later are alive."""
        if index <= self.start:
            return self.live
        dead = 0 if self.dead is None else self.dead.count(index, self.count)
        return max(0, self.count - index) - dead

    def first_live(self, index: int) -> int:
        """The first live index from `index` on, or count."""
        index = max(index, self.start)
        return index if self.dead is None else self.dead.first_clear(index, self.count)

    def live_to(self, index: int) -> int:
        """The end of the live records that begin at `index`, up to the search limit."""
        if self.dead is None:
            return self.count
        return self.dead.first_set(index, min(self.count, index + _REACH))

    def index_after_live(self, nth: int) -> int:
        """The index just past the nth live record."""
        if self.dead is None:
            return self.start + nth
        return self.dead.nth_clear(self.start, self.count, nth)

    def index_after_bytes(self, excess: int) -> int:
        """The smallest index such that at least `excess` live bytes lie below it."""
        return _gallop(
            self.start,
            self.count,
            excess,
            lambda start, stop: self.run.measure(start, stop, self.bits)[1],
        )


def _gallop(start: int, stop: int, need: int, weigh: Callable[[int, int], int]) -> int:
    """Smallest end in start..stop with weigh(start, end) >= need, looking near the front first.

    Eviction usually takes a few records off a long span, so the search doubles its step
    instead of halving the whole.
    """
    step, low, below = 1, start, 0
    while low < stop:
        high = min(low + step, stop)
        weight = weigh(low, high)
        if below + weight >= need:
            break
        below += weight
        low, step = high, step * 2
    else:
        return stop
    while high - low > 1:
        middle = (low + high) // 2
        weight = weigh(low, middle)
        if below + weight >= need:
            high = middle
        else:
            below += weight
            low = middle
    return high
