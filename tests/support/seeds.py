"""The seeds of every rig, in one place.

`make test` uses the fixed ones below, so that two runs of one commit try the same thing.
`make crash` draws new ones. PENSTOCK_SEED repeats one seed, whichever size is run.
"""

from __future__ import annotations

import os

IS_FULL = os.environ.get("PENSTOCK_RIG") == "full"
IS_BRIEF = os.environ.get("PENSTOCK_RIG") == "brief"

RIGS = 1426038049
SCHEMATHESIS = 15  # apart: with it every route succeeds at least once
# The first seed to try for a mutant: one that finds it soon. Others begin with 0.
PROJECTION_MUTANTS = {"old one first": 1, "parts of now": 3, "any definition": 1}
FEATURE_MUTANTS = {"evicted left out": 1, "registry after its parts": 1}
ROUTER_MUTANTS = {"no barrier": 10, "applied twice": 4, "soft source": 4, "class on credit": 4}

# The seeds that the running test has taken; a failed test prints the first.
TAKEN: list[int] = []


def new_seed(*, fixed: int = RIGS) -> int:
    """One seed: `fixed` in `make test`, random in `make crash`, or PENSTOCK_SEED."""
    given = os.environ.get("PENSTOCK_SEED")
    drawn = int.from_bytes(os.urandom(4), "little") if IS_FULL else fixed
    seed = int(given) if given else drawn
    TAKEN.append(seed)
    return seed


def new_seeds(count: int) -> list[int]:
    """For a rig that tries several: a seed and the numbers that follow it, so that PENSTOCK_SEED
    repeats all of them."""
    first = new_seed()
    return list(range(first, first + count))


def repeat_command(nodeid: str) -> str:
    """The command that runs a failed test again with the seed it took; empty if it took none."""
    if not TAKEN:
        return ""
    size = "PENSTOCK_RIG=full " if IS_FULL else ""
    return f"{size}PENSTOCK_SEED={TAKEN[0]} .venv/bin/pytest '{nodeid}'"
