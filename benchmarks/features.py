"""Features beside beava: the parts of the benchmark, and how they are run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from benchmarks.features_pushes import push_figures, scale_figures
from benchmarks.features_reads import get_figures, idle_figures
from benchmarks.features_recoveries import recovery_figures
from benchmarks.features_replays import replay_figures
from benchmarks.features_restarts import restart_figures
from benchmarks.features_sizes import size_figures
from benchmarks.features_snapshots import snapshot_figures
from benchmarks.server_process import DidNotStart
from benchmarks.server_stand import Stand, nothing
from penstock.cli.figure import Figure
from penstock.errors import InvalidArgument

PARTS: dict[str, Callable[[Stand], Iterator[Figure]]] = {
    "push": push_figures,
    "get": get_figures,
    "idle": idle_figures,
    "recovery": recovery_figures,
    "restart": restart_figures,
    "replay": replay_figures,
    "scale": scale_figures,
    "snapshot": snapshot_figures,
}


def feature_figures(stand: Stand, only: str, state_bytes: int = 0) -> Generator[Figure]:
    """The figures of each part, and those of a snapshot of this size, if one is given. A part that
    cannot be prepared gives the reason."""
    for name in chosen(only):
        try:
            yield from PARTS[name](stand)
        except (DidNotStart, OSError) as error:
            yield nothing(name, "", str(error))
    if state_bytes:
        yield from size_figures(stand, state_bytes)


def chosen(only: str) -> list[str]:
    """The parts whose name starts with `only`."""
    names = [name for name in PARTS if name.startswith(only)]
    if not names:
        raise InvalidArgument(
            f"unknown part {only!r}: expected the beginning of {', '.join(PARTS)}"
        )
    return names
