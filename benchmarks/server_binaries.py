"""The binary batch body beside the JSON one: the same records, the same server, the same run."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.load_job import Drive
from benchmarks.load_requests import BATCH_TYPE, binary_batch, http, json_batch
from benchmarks.server_own import create, own_server
from benchmarks.server_process import Running
from benchmarks.server_stand import Stand, rate_figure, ratio_figure
from penstock.cli.figure import PAYLOAD, Figure

_CONNECTIONS = 16
_GOAL = 2.5


def binary_figures(stand: Stand) -> Iterator[Figure]:
    with stand.folder() as here, own_server(here) as ours:
        if isinstance(ours, Running):
            create(ours, "bench", durability="disk")
        for batch, goal in ((100, _GOAL), (1_000, None)):
            text, binary = stand.compare(
                [(ours, _json(stand, batch)), (ours, _binary(stand, batch))]
            )
            name = f"batches of {batch:,}, disk, 16 connections"
            yield rate_figure(f"JSON {name}", text, batch)
            yield rate_figure(f"binary {name}", binary, batch)
            yield ratio_figure("  … binary against JSON", (binary, batch), (text, batch), goal)


def _json(stand: Stand, batch: int) -> Drive:
    body = json_batch(PAYLOAD, batch)
    request = http("POST", "/v0/topics/bench?return_seqs=false", body)
    return Drive([request], _CONNECTIONS, stand.seconds)


def _binary(stand: Stand, batch: int) -> Drive:
    body = binary_batch(PAYLOAD, batch)
    request = http("POST", "/v0/topics/bench?return_seqs=false", body, content=BATCH_TYPE)
    return Drive([request], _CONNECTIONS, stand.seconds)
