"""From a write to each of many SSE watchers, at a pace that does not saturate the server."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.load_job import Load, Watch
from benchmarks.load_requests import http, stamped
from benchmarks.server_own import calls, create, own_server
from benchmarks.server_process import Running, Server
from benchmarks.server_stand import Stand, better, shares, wait_figure
from penstock.cli.figure import Figure

_PAYLOAD_BYTES = 100
_SUBSCRIPTION = {"topics": {"bench": {"tail": True}}, "heartbeat_ms": 60_000}


def watch_figures(stand: Stand) -> Iterator[Figure]:
    with stand.folder() as here, own_server(here) as ours:
        if isinstance(ours, Running):
            create(ours, "bench", durability="disk")
        few = _best(stand, ours, 100, 50)
        yield _figure(few, 100, 50, None, median=True)
        yield _figure(few, 100, 50, 5.0, median=False)
        many = _best(stand, ours, 1_000, 5)
        yield _figure(many, 1_000, 5, 5.0, median=True)
        yield _figure(many, 1_000, 5, None, median=False)


def _figure(
    load: Load, watchers: int, per_second: int, goal: float | None, *, median: bool
) -> Figure:
    name = f"SSE, {watchers:,} watchers, write → delivered, {'p50' if median else 'p99'}"
    note = f"{per_second} writes/s, {load.answers:,} of {load.expected:,} deliveries"
    return wait_figure(name, load, goal, median=median, note=f"{note}; {shares(load)}")


def _best(stand: Stand, server: Server, watchers: int, per_second: int) -> Load:
    """Sessions remember where they were, so every round gets new ones."""
    body = b'{"records":[{"data":%b}]}' % stamped(_PAYLOAD_BYTES)
    best = Load(failure="not tried")
    for _ in range(stand.rounds):
        job = Watch(
            _streams(server, watchers) if isinstance(server, Running) else [],
            http("POST", "/v0/topics/bench", body),
            per_second,
            stand.seconds,
        )
        best = better(best, stand.run(server, job))
    return best


def _streams(server: Running, watchers: int) -> list[bytes]:
    with calls(server.port) as call:
        places = [
            call.json("POST", "/v0/watch", _SUBSCRIPTION)["stream_url"] for _ in range(watchers)
        ]
    return [http("GET", str(place), accept="text/event-stream") for place in places]
