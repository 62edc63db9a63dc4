"""The positions of a topic's newest records in the WAL, for references to them.

A copy made by a router is logged as a reference to the bytes of the record it copies. Those bytes
must outlive the reference. A WAL file is removed when two checkpoints have absorbed it. So a
reference may only point to bytes that the newest checkpoint has not absorbed, and a checkpoint that
begins while references are being written starts at the bytes they refer to.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from penstock.entries import WalRange
from penstock.storage.wal.recovery import Positions

_STEPS_MAX = 4096


@dataclass(slots=True)
class WalStep:
    """Seqs first..last are at `place`; reading them there also needs `needs`."""

    first: int
    last: int
    place: WalRange
    needs: tuple[WalRange, ...]

    def has(self, first: int, last: int) -> bool:
        return self.first <= first and last <= self.last


class WalPositions:
    """The positions of one topic; its lock guards them. Their number is bounded: older records are
    copied with their bytes."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps: deque[WalStep] = deque(maxlen=_STEPS_MAX)

    def note(
        self, first: int, last: int, place: WalRange, needs: tuple[WalRange, ...] = ()
    ) -> None:
        steps = self._steps
        if steps and not needs and not steps[-1].needs:
            newest = steps[-1]
            at = newest.place
            is_next = newest.last + 1 == first and at.end == place.start
            if is_next and (at.group, at.file_index) == (place.group, place.file_index):
                newest.last = last
                newest.place = WalRange(at.group, at.file_index, at.start, place.end)
                return
        steps.append(WalStep(first, last, place, needs))

    def between(self, first: int, last: int) -> WalStep | None:
        """One step with all recorded positions of first..last, if they are in one file, and its
        first and last seq."""
        chosen = [step for step in self._steps if step.last >= first and step.first <= last]
        if not chosen:
            return None
        front = chosen[0].place
        if any(
            (step.place.group, step.place.file_index) != (front.group, front.file_index)
            for step in chosen
        ):
            return None
        place = WalRange(front.group, front.file_index, front.start, chosen[-1].place.end)
        needs = dict.fromkeys(one for step in chosen for one in step.needs)
        return WalStep(chosen[0].first, chosen[-1].last, place, (place, *needs))

    def prune(self, seq: int) -> None:
        """Forget the positions up to `seq`."""
        while self._steps and self._steps[0].last <= seq:
            self._steps.popleft()

    def clear(self) -> None:
        self._steps.clear()


class References:
    """The references that are being written, and how far back new ones may reach. Safe from several
    threads; its lock is held briefly, and no other lock is taken under it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[object, tuple[WalRange, ...]] = {}
        self._barrier: Positions = {}

    def admit(self, needs: tuple[WalRange, ...]) -> object | None:
        """A token to return when the reference is published, or None when the bytes it needs may be
        removed soon."""
        with self._lock:
            for place in needs:
                if (place.file_index, place.start) < self._barrier.get(place.group, (0, 0)):
                    return None
            token = object()
            self._under_way[token] = needs
            return token

    def release(self, token: object) -> None:
        """The reference is published or has failed. Ignores None."""
        with self._lock:
            self._under_way.pop(token, None)

    def bound(self, take_positions: Callable[[], Positions]) -> Positions:
        """The positions of a checkpoint, moved back to the bytes that unfinished references need.
        From now on no reference may reach further back. A reference that is published meanwhile is
        no problem: its topic is captured after this, and so after the reference."""
        positions = take_positions()
        with self._lock:
            for needs in self._under_way.values():
                for place in needs:
                    known = positions.get(place.group, (0, 0))
                    positions[place.group] = min(known, (place.file_index, place.start))
            self._barrier = dict(positions)
            return positions
