"""Reading one row, and what a server costs that nobody talks to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from benchmarks import features_events as made
from benchmarks.features_rounds import alternate, ratio_figure, spread_figure, wait_figure
from benchmarks.features_servers import Start, ask, ours, push_all, theirs
from benchmarks.load_cpu import cpu_seconds
from benchmarks.load_job import Drive, Load
from benchmarks.load_requests import http
from benchmarks.server_process import Running, Server, free_port
from benchmarks.server_stand import Stand, nothing
from penstock.cli.figure import Figure

_KEYS: Final = 1_000
_WAIT_GOAL: Final = 1.5
_IDLE_GOAL: Final = 1.0  # percent of a core
_SETTLE_S: Final = 1.0  # until what the pushes began is done


def get_figures(stand: Stand) -> Iterator[Figure]:
    own, by_frame, by_http = alternate(
        stand, [_own(stand), _their_frames(stand), _their_http(stand)]
    )
    yield wait_figure("get a row of 10 features, HTTP, p50", own)
    yield wait_figure("  … beava, frames, p50", by_frame)
    yield wait_figure("  … beava, HTTP, p50", by_http)
    for name, peer in (("frames", by_frame), ("HTTP", by_http)):
        title = f"  … against beava, {name}"
        yield ratio_figure(title, own, peer, _WAIT_GOAL, lambda load: load.p50_ms, at_most=True)


def _own(stand: Stand) -> Callable[[int], Load]:
    def measure(number: int) -> Load:
        with stand.folder() as folder, ours(folder, made.PLAIN) as server:
            return _driven(stand, server, Drive([made.get_request()], 1, stand.seconds))

    return measure


def _their_frames(stand: Stand) -> Callable[[int], Load]:
    def measure(number: int) -> Load:
        with stand.folder() as folder, theirs(folder, made.PLAIN) as server:
            _fill(server)
            frame, size = made.get_frame(), 0
            if isinstance(server, Running):
                size = made.FRAME_HEAD_BYTES + len(ask(server.port, frame))
            job = Drive([frame], 1, stand.seconds, dialect="sized", size=size)
            return stand.run(server, job)

    return measure


def _their_http(stand: Stand) -> Callable[[int], Load]:
    def measure(number: int) -> Load:
        port = free_port()
        with stand.folder() as folder, theirs(folder, made.PLAIN, port) as server:
            _fill(server)
            if isinstance(server, Running):
                server = msgspec.structs.replace(server, port=port)
            body = msgspec.json.encode({"table": made.TABLE, "key": made.MARKED})
            return stand.run(server, Drive([http("POST", "/get", body)], 1, stand.seconds))

    return measure


def _driven(stand: Stand, server: Server, job: Drive) -> Load:
    _fill(server)
    return stand.run(server, job)


def _fill(server: Server) -> None:
    if isinstance(server, Running):
        push_all(server, made.batches(5, _KEYS))


def idle_figures(stand: Stand) -> Iterator[Figure]:
    for title, start, goal in (
        ("idle with 10 features", ours, _IDLE_GOAL),
        ("  … beava", theirs, None),
    ):
        yield _idle(stand, title, start, goal)


def _idle(stand: Stand, title: str, start: Start, goal: float | None) -> Figure:
    with stand.folder() as folder, start(folder, made.PLAIN) as server:
        if not isinstance(server, Running):
            return nothing(title, "% of a core", server.reason, goal, at_most=True)
        _fill(server)
        rest = threading.Event()
        rest.wait(_SETTLE_S)
        used = []
        for _ in range(stand.rounds):
            before = cpu_seconds(server.pid)
            rest.wait(2 * stand.seconds)
            used.append(100 * (cpu_seconds(server.pid) - before) / (2 * stand.seconds))
        return spread_figure(title, used, "% of a core", "", goal, at_most=True)
