"""The seeds of every rig, in one place.

`make test` uses the fixed list below, so that two runs of one commit try the same thing.
`make crash` draws new ones. PENSTOCK_SEED repeats one seed, whichever size is run.
"""

from __future__ import annotations

import os

IS_FULL = os.environ.get("PENSTOCK_RIG") == "full"

# A rig that needs one seed takes the first. A rig that may try several takes them in order.
FIXED = (
    1426038049,
    2085912927,
    3290129588,
    1628280140,
    3269367002,
    1757989778,
    4057689665,
    994876576,
    3420052987,
    1515042091,
)
SCHEMATHESIS = 15  # chosen apart: its requests along links are counted by a test

# The seeds that the running test has taken; a failed test prints them.
TAKEN: list[int] = []


def new_seeds(count: int) -> list[int]:
    """`count` different seeds. With PENSTOCK_SEED: that one and the numbers that follow it."""
    given = os.environ.get("PENSTOCK_SEED")
    if given:
        seeds = [int(given) + step for step in range(count)]
    elif IS_FULL:
        seeds = [int.from_bytes(os.urandom(4), "little") for _ in range(count)]
    else:
        seeds = list(FIXED[:count])
    if len(seeds) < count:
        raise AssertionError(f"{count} seeds wanted, seeds.FIXED has {len(FIXED)}")
    TAKEN.extend(seeds)
    return seeds


def new_seed(*, fixed: int = FIXED[0]) -> int:
    """One seed: `fixed` in `make test`, random in `make crash`, or PENSTOCK_SEED."""
    (seed,) = new_seeds(1) if IS_FULL or os.environ.get("PENSTOCK_SEED") else [fixed]
    TAKEN.append(seed)
    return seed


def repeat_command(nodeid: str) -> str:
    """The command that runs a failed test again with the seed it took; empty if it took none."""
    if not TAKEN:
        return ""
    size = "PENSTOCK_RIG=full " if IS_FULL else ""
    return f"{size}PENSTOCK_SEED={TAKEN[-1]} .venv/bin/pytest '{nodeid}'"
