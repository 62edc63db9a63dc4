"""What a power cut may do to changes that were not yet durable, and which cuts to try.

The disk assumed here is the weakest we promise to survive: changes land in any order or not at
all, a write may land by whole sectors only, and an unfinished sector may hold anything. Bytes
synced earlier are never harmed, and a rename happens wholly or not at all. Here are the
fates and the plans; `testing.disk` is the disk that suffers them.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

SECTOR_BYTES: Final = 512
TEARS_MAX: Final = 8  # tears tried per write; more boundaries than this are sampled evenly
PRODUCT_MAX: Final = 1024  # up to this many combinations are all tried

FateKind = Literal["land", "vanish", "torn", "holed", "garbage", "zero"]


class PowerLost(BaseException):
    """Raised out of a file system call to stop an engine dead, past its `except Exception`."""


class Fate(NamedTuple):
    """What became of one pending change. Only writes know more than `land` and `vanish`."""

    kind: FateKind
    sectors: int = 0  # torn: how many landed; holed: how many did not
    seed: int = 0  # garbage: which bytes


LAND: Final = Fate("land")
VANISH: Final = Fate("vanish")
ZERO: Final = Fate("zero")

# `holed` (the first sectors are missing, the later ones landed) is true of real drives too, but
# tried only where it is asked for.
FATES: Final[tuple[FateKind, ...]] = ("land", "vanish", "torn", "garbage", "zero")


class Pending(NamedTuple):
    """One change a power cut could take back."""

    operation: int  # index of the operation that made it
    kind: str  # write, truncate, allocate, create, rename, unlink, mkdir or rmdir
    path: str
    offset: int = 0  # write
    size: int = 0  # write: bytes written; truncate, allocate: the size asked for

    @property
    def is_write(self) -> bool:
        return self.kind == "write"

    @property
    def is_name(self) -> bool:
        """A change to a directory, made durable by `sync_dir`."""
        return self.kind not in ("write", "truncate", "allocate")

    @property
    def sectors(self) -> int:
        """How many sectors a write touches, whole or in part."""
        first = self.offset // SECTOR_BYTES
        return -(-(self.offset + self.size) // SECTOR_BYTES) - first


Choose = Callable[[Pending], Fate]
Plan = tuple[Fate, ...]  # one fate for each pending change, in order
Cut = Sequence[tuple[Pending, Fate]]  # a plan beside what it is about


class CrashChoices:
    """Fates from a seed, for one power cut. The same seed makes the same choices."""

    def __init__(self, seed: int, *, fates: Sequence[FateKind] = FATES) -> None:
        self._random = random.Random(seed)
        self._harms = [kind for kind in fates if kind != "land"]
        # With one fixed chance a long list of changes would never nearly land or nearly vanish.
        self._land_chance = self._random.choice((0.05, 0.3, 0.6, 0.9))

    def __call__(self, change: Pending) -> Fate:
        if self._random.random() < self._land_chance:
            return LAND
        if not change.is_write:
            return VANISH
        kind = self._random.choice(self._harms)
        if kind in ("torn", "holed"):
            if change.sectors < 2:
                return VANISH
            return Fate(kind, sectors=self._random.randrange(1, change.sectors))
        return Fate(kind, seed=self._random.getrandbits(32) if kind == "garbage" else 0)


def harms(change: Pending, *, fates: Sequence[FateKind] = FATES) -> list[Fate]:
    """Every fate worth trying for one change, but landing."""
    found = [VANISH] if "vanish" in fates else []
    if not change.is_write or change.size == 0:
        return found
    found += [Fate("torn", sectors=n) for n in _tears(change)] if "torn" in fates else []
    found += [Fate("holed", sectors=n) for n in _tears(change)] if "holed" in fates else []
    found += [Fate("garbage", seed=change.operation)] if "garbage" in fates else []
    found += [ZERO] if "zero" in fates else []
    return found


def plans(pending: Sequence[Pending], *, fates: Sequence[FateKind] = FATES) -> Iterator[Plan]:
    """Different plans for one cut, the most telling first.

    Nothing and everything landed; all names without the data and all data without the names;
    every change harmed in every way, with the later changes landed (they overtook it) or
    vanished (it was the last to leave); every prefix; every change alone. Where all
    combinations are few, those too.
    """
    seen: set[Plan] = set()
    for plan in _candidates(pending, [harms(change, fates=fates) for change in pending]):
        if plan not in seen:
            seen.add(plan)
            yield plan


def _candidates(pending: Sequence[Pending], options: Sequence[Sequence[Fate]]) -> Iterator[Plan]:
    count = len(pending)
    landed, lost = (LAND,) * count, (VANISH,) * count
    yield lost
    yield landed
    yield tuple(LAND if change.is_name else VANISH for change in pending)
    yield tuple(VANISH if change.is_name else LAND for change in pending)
    for at in reversed(range(count)):  # the newest change is the likeliest to be caught
        for fate in options[at]:
            yield (*landed[:at], fate, *landed[at + 1 :])
            yield (*landed[:at], fate, *lost[at + 1 :])
        yield (*lost[:at], LAND, *lost[at + 1 :])
    if math.prod(len(fates) + 1 for fates in options) <= PRODUCT_MAX:
        yield from itertools.product(*((LAND, *fates) for fates in options))
    elif 2**count <= PRODUCT_MAX:
        yield from itertools.product((LAND, VANISH), repeat=count)


def _tears(change: Pending) -> list[int]:
    boundaries = change.sectors - 1
    if boundaries <= TEARS_MAX:
        return list(range(1, boundaries + 1))
    return [1 + (boundaries - 1) * step // (TEARS_MAX - 1) for step in range(TEARS_MAX)]
