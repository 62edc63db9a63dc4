"""The server over loopback: which parts there are, and what each of them is run with."""

from __future__ import annotations

import resource
from collections.abc import Callable, Generator, Iterator

from penstock.cli.benchmarks.figure import Figure
from penstock.cli.benchmarks.load_cpu import Cores, available
from penstock.cli.benchmarks.server_batches import batch_figures
from penstock.cli.benchmarks.server_binaries import binary_figures
from penstock.cli.benchmarks.server_diffs import diff_figures
from penstock.cli.benchmarks.server_posts import post_figures
from penstock.cli.benchmarks.server_process import DidNotStart
from penstock.cli.benchmarks.server_sockets import socket_figures
from penstock.cli.benchmarks.server_stand import Stand, nothing
from penstock.cli.benchmarks.server_watches import watch_figures
from penstock.errors import InvalidArgument

PARTS: dict[str, Callable[[Stand], Iterator[Figure]]] = {
    "post": post_figures,
    "batch": batch_figures,
    "binary": binary_figures,
    "diff": diff_figures,
    "watch": watch_figures,
    "socket": socket_figures,
}
_SHORT_S = 1.0  # a run of less is a look, not a measurement: one round will do


def server_figures(stand: Stand, only: str) -> Generator[Figure]:
    """Part by part, as they are taken. A part that cannot be prepared says why."""
    for name in chosen(only):
        try:
            yield from PARTS[name](stand)
        except (DidNotStart, OSError) as error:
            yield nothing(name, "", str(error))


def chosen(only: str) -> list[str]:
    """The parts whose name starts so."""
    names = [name for name in PARTS if name.startswith(only)]
    if not names:
        raise InvalidArgument(f"no part begins with {only!r}; there are {', '.join(PARTS)}")
    return names


def stand_in(root: str, seconds: float, *, pinned: bool) -> Stand:
    """A stand that writes below `root`, with room for many connections."""
    _allow_many_files()
    cores = Cores(available() if pinned else set())
    rounds = 1 if seconds < _SHORT_S else 3
    return Stand(root, seconds, cores, rounds)


def _allow_many_files() -> None:
    """1,000 watchers are 1,000 descriptors on either side."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
