"""Writes of 100 records as JSON, beside Redis Streams and NATS JetStream with the same payloads."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.load_job import Drive
from benchmarks.load_requests import (
    NATS_HELLO,
    http,
    json_batch,
    nats_publish,
    xadd,
)
from benchmarks.peers import nats, redis
from benchmarks.server_own import create, own_server
from benchmarks.server_process import Running
from benchmarks.server_stand import Stand, rate_figure, ratio_figure
from penstock.cli.figure import PAYLOAD, Figure

_CONNECTIONS = 16
_BATCH = 100


def batch_figures(stand: Stand) -> Iterator[Figure]:
    yield from _disk(stand)
    yield from _fsync(stand)


def _disk(stand: Stand) -> Iterator[Figure]:
    with (
        stand.folder() as here,
        stand.folder() as there,
        own_server(here) as ours,
        redis(there, "everysec") as theirs,
    ):
        if isinstance(ours, Running):
            create(ours, "bench", durability="disk")
        plain, brief, peer = stand.compare(
            [
                (ours, _posts(stand, "bench")),
                (ours, _posts(stand, "bench?return_seqs=false")),
                (theirs, _pipelines(stand)),
            ]
        )
        yield rate_figure("JSON batches of 100, disk, 16 connections", plain, _BATCH, "", 600_000)
        yield rate_figure("  … return_seqs=false", brief, _BATCH)
        yield rate_figure("  … Redis XADD, everysec", peer, _BATCH, "pipelines of 100")
        yield ratio_figure("  … against Redis, everysec", (plain, _BATCH), (peer, _BATCH), 2)


def _fsync(stand: Stand) -> Iterator[Figure]:
    publish = Drive(
        [nats_publish(PAYLOAD)],
        _CONNECTIONS,
        stand.seconds,
        dialect="lines",
        lines=2,
        error=b'"error"',
        hello=NATS_HELLO,
        hello_ends=b"PONG\r\n",
    )
    with (
        stand.folder() as here,
        stand.folder() as there,
        stand.folder() as elsewhere,
        own_server(here) as ours,
        redis(there, "always") as redis_server,
        nats(elsewhere) as nats_server,
    ):
        if isinstance(ours, Running):
            create(ours, "bench", durability="fsync")
        safe, always, published = stand.compare(
            [
                (ours, _posts(stand, "bench")),
                (redis_server, _pipelines(stand)),
                (nats_server, publish),
            ]
        )
        yield rate_figure("JSON batches of 100, fsync, 16 connections", safe, _BATCH)
        yield rate_figure("  … Redis XADD, always", always, _BATCH, "pipelines of 100")
        yield ratio_figure("  … against Redis, always", (safe, _BATCH), (always, _BATCH), 2)
        note = "one in flight a connection; acknowledged before a sync"
        yield rate_figure("  … NATS JetStream, file, sync publish", published, 1, note)
        yield ratio_figure("  … against NATS", (safe, _BATCH), (published, 1), 5)


def _posts(stand: Stand, topic: str) -> Drive:
    request = http("POST", f"/v0/topics/{topic}", json_batch(PAYLOAD, _BATCH))
    return Drive([request], _CONNECTIONS, stand.seconds)


def _pipelines(stand: Stand) -> Drive:
    """XADD is answered with the id's length and the id, on a line each."""
    return Drive(
        [xadd(PAYLOAD, _BATCH)], _CONNECTIONS, stand.seconds, dialect="lines", lines=2 * _BATCH
    )
