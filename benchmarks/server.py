"""The server over loopback: the parts of the benchmark, and how they are run."""

from __future__ import annotations

import resource
from collections.abc import Callable, Generator, Iterator

from benchmarks.load_cpu import Cores, available
from benchmarks.server_batches import batch_figures
from benchmarks.server_binaries import binary_figures
from benchmarks.server_diffs import diff_figures
from benchmarks.server_posts import post_figures
from benchmarks.server_process import DidNotStart
from benchmarks.server_sockets import socket_figures
from benchmarks.server_stand import Stand, nothing
from benchmarks.server_watches import watch_figures
from penstock.cli.figure import Figure
from penstock.errors import InvalidArgument

PARTS: dict[str, Callable[[Stand], Iterator[Figure]]] = {
    "post": post_figures,
    "batch": batch_figures,
    "binary": binary_figures,
    "diff": diff_figures,
    "watch": watch_figures,
    "socket": socket_figures,
}
_SHORT_S = 1.0  # a shorter run is only a check that everything works: one round is enough


def server_figures(stand: Stand, only: str) -> Generator[Figure]:
    """The figures of each part. A part that cannot be prepared gives the reason."""
    for name in chosen(only):
        try:
            yield from PARTS[name](stand)
        except (DidNotStart, OSError) as error:
            yield nothing(name, "", str(error))


def chosen(only: str) -> list[str]:
    """The parts whose name starts with `only`."""
    names = [name for name in PARTS if name.startswith(only)]
    if not names:
        raise InvalidArgument(
            f"unknown part {only!r}: expected the beginning of {', '.join(PARTS)}"
        )
    return names


def stand_in(root: str, seconds: float, *, pinned: bool, rounds: int | None = None) -> Stand:
    """A stand that writes below `root`, with room for many connections."""
    _allow_many_files()
    cores = Cores(available() if pinned else set())
    if rounds is None:
        rounds = 1 if seconds < _SHORT_S else 3
    return Stand(root, seconds, cores, rounds)


def _allow_many_files() -> None:
    """1,000 watchers are 1,000 descriptors on either side."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
