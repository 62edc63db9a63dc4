"""Where the newest records of a topic lie in the WAL, for those who refer to them there.

A copy made by a router is logged as a reference to the bytes of the record it copies. Those bytes
must outlive the reference: a WAL file goes when two checkpoints have absorbed it, so a reference
may only be made to what the newest checkpoint has not absorbed, and a checkpoint that begins
while references are on their way to disk counts from what they refer to.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from penstock.storage.wal.recovery import Positions
from penstock.types import Place

_STEPS_MAX = 4096


@dataclass(slots=True)
class Step:
    """Seqs first..last lie at `place`; to read them there, `needs` must be there too."""

    first: int
    last: int
    place: Place
    needs: tuple[Place, ...]

    def has(self, first: int, last: int) -> bool:
        return self.first <= first and last <= self.last


class Trail:
    """Of one topic; its lock guards it. Only so much is remembered: what is older is copied with
    its bytes."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps: deque[Step] = deque(maxlen=_STEPS_MAX)

    def note(self, first: int, last: int, place: Place, needs: tuple[Place, ...] = ()) -> None:
        steps = self._steps
        if steps and not needs and not steps[-1].needs:
            newest = steps[-1]
            at = newest.place
            is_next = newest.last + 1 == first and at.end == place.start
            if is_next and (at.group, at.file_index) == (place.group, place.file_index):
                newest.last = last
                newest.place = Place(at.group, at.file_index, at.start, place.end)
                return
        steps.append(Step(first, last, place, needs))

    def between(self, first: int, last: int) -> Step | None:
        """One step that has every record of first..last which was noted, if they all lie in one
        file; it tells from which seq to which it goes."""
        chosen = [step for step in self._steps if step.last >= first and step.first <= last]
        if not chosen:
            return None
        front = chosen[0].place
        if any(
            (step.place.group, step.place.file_index) != (front.group, front.file_index)
            for step in chosen
        ):
            return None
        place = Place(front.group, front.file_index, front.start, chosen[-1].place.end)
        needs = dict.fromkeys(one for step in chosen for one in step.needs)
        return Step(chosen[0].first, chosen[-1].last, place, (place, *needs))

    def prune(self, seq: int) -> None:
        """Nobody asks for anything up to `seq` any more."""
        while self._steps and self._steps[0].last <= seq:
            self._steps.popleft()

    def clear(self) -> None:
        self._steps.clear()


class References:
    """Those on their way to disk, and how far back new ones may reach. Safe from several
    threads; its lock is held for moments and nothing else is taken under it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[object, tuple[Place, ...]] = {}
        self._barrier: Positions = {}

    def admit(self, needs: tuple[Place, ...]) -> object | None:
        """A token to give back when the reference is published, or None when what it needs may
        not be there for long."""
        with self._lock:
            for place in needs:
                if (place.file_index, place.start) < self._barrier.get(place.group, (0, 0)):
                    return None
            token = object()
            self._under_way[token] = needs
            return token

    def settle(self, token: object) -> None:
        """The reference is published, or will never be. No token is none."""
        with self._lock:
            self._under_way.pop(token, None)

    def bound(self, take_positions: Callable[[], Positions]) -> Positions:
        """The positions of a checkpoint, moved back to what references under way refer to. From
        here on none may reach further back. One that is published meanwhile is of no concern: its
        topic is captured after this, and so past it."""
        positions = take_positions()
        with self._lock:
            for needs in self._under_way.values():
                for place in needs:
                    known = positions.get(place.group, (0, 0))
                    positions[place.group] = min(known, (place.file_index, place.start))
            self._barrier = dict(positions)
            return positions
