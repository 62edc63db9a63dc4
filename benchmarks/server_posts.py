"""One record a POST, beside an nginx that answers the same bytes and keeps nothing."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.load_job import Drive, Load
from benchmarks.load_requests import http, json_batch
from benchmarks.peers import nginx
from benchmarks.server_own import create, own_server
from benchmarks.server_process import Running
from benchmarks.server_stand import (
    Stand,
    nothing,
    rate_figure,
    ratio_figure,
    wait_figure,
)
from penstock.cli.figure import PAYLOAD, Figure

_CONNECTIONS = 32
_RATE_GOAL = 0.5
_WAIT_GOAL = 3.0


def post_figures(stand: Stand) -> Iterator[Figure]:
    request = http("POST", "/v0/topics/bench", json_batch(PAYLOAD, 1))
    many = Drive([request], _CONNECTIONS, stand.seconds)
    one = Drive([request], 1, stand.seconds)
    with (
        stand.folder() as here,
        stand.folder() as there,
        own_server(here) as ours,
        nginx(there) as theirs,
    ):
        if isinstance(ours, Running):
            create(ours, "bench", durability="disk")
        # The generator needs all of its core here, and a server that strays there loses by it.
        fast, bare = stand.compare([(ours, many), (theirs, many)], stand.cores.apart)
        yield rate_figure("POST of 1 record, disk, 32 connections", fast, 1)
        yield rate_figure("  … nginx `return 200`, the same bytes", bare, 1, "one worker")
        yield ratio_figure("  … against nginx", (fast, 1), (bare, 1), _RATE_GOAL)
        pair = [(ours, one), (theirs, one)]
        yield from _waits("a core each", *stand.compare(pair, stand.cores.apart))
        if stand.cores.are_several:
            yield from _waits("on one core", *stand.compare(pair, stand.cores.together))


def _waits(where: str, ours: Load, bare: Load) -> Iterator[Figure]:
    name = f"POST of 1 record, disk, 1 connection, {where}"
    for title, load in ((f"{name}, p50", ours), (f"  … nginx, {where}, p50", bare)):
        yield wait_figure(title, load, None, median=True, note=f"p99 {load.p99_ms:.2f} ms")
    title = f"  … against nginx, {where}"
    failure = ours.failure or bare.failure
    if failure:
        yield nothing(title, "times", failure, _WAIT_GOAL, at_most=True)
        return
    ratio = ours.p50_ms / max(bare.p50_ms, 1e-9)
    yield Figure(title, ratio, "times", "p50 over p50", _WAIT_GOAL, at_most=True)
