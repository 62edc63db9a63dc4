"""Reads of 1,000 records from a warm topic, as JSON and as frames, beside XRANGE of Redis."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec

from benchmarks.load_job import Drive
from benchmarks.load_requests import (
    BATCH_TYPE,
    http,
    json_batch,
    xrange,
    xrange_bytes,
)
from benchmarks.peers import redis
from benchmarks.peers_sockets import fill_stream
from benchmarks.server_own import calls, own_server
from benchmarks.server_process import DidNotStart, Running
from benchmarks.server_stand import Stand, rate_figure, ratio_figure
from penstock.cli.figure import PAYLOAD, Figure

_CONNECTIONS = 8
_PAGE = 1_000
_PAGES = 100
_DIFF = "/v0/topics/bench/diff"


def diff_figures(stand: Stand) -> Iterator[Figure]:
    as_json = Drive(
        [http("POST", _DIFF, _body(page)) for page in range(_PAGES)], _CONNECTIONS, stand.seconds
    )
    as_frames = Drive(
        [http("POST", _DIFF, _body(page), accept=BATCH_TYPE) for page in range(_PAGES)],
        _CONNECTIONS,
        stand.seconds,
    )
    ranges = Drive(
        [xrange(page * _PAGE, _PAGE) for page in range(_PAGES)],
        _CONNECTIONS,
        stand.seconds,
        dialect="sized",
        size=xrange_bytes(PAYLOAD, _PAGE),
    )
    with (
        stand.folder() as here,
        stand.folder() as there,
        own_server(here) as ours,
        redis(there, "everysec") as theirs,
    ):
        if isinstance(ours, Running):
            _fill(ours)
        if isinstance(theirs, Running):
            fill_stream(theirs.port, PAYLOAD, _PAGE * _PAGES)
        text, frames, peer = stand.compare([(ours, as_json), (ours, as_frames), (theirs, ranges)])
        warm = f"{_PAGE * _PAGES:,} records, 8 connections"
        yield rate_figure("diff of 1,000 as JSON", text, _PAGE, warm, 1_000_000)
        yield rate_figure("diff of 1,000 as frames", frames, _PAGE, warm, 3_000_000)
        yield rate_figure("  … Redis XRANGE COUNT 1000", peer, _PAGE, warm)
        yield ratio_figure("  … JSON against Redis", (text, _PAGE), (peer, _PAGE), None)
        yield ratio_figure("  … frames against Redis", (frames, _PAGE), (peer, _PAGE), None)


def _body(page: int) -> bytes:
    return msgspec.json.encode({"from_seq": page * _PAGE, "limit": _PAGE})


def _fill(server: Running) -> None:
    """Write the records, and look once at what the measured reads bring."""
    with calls(server.port) as call:
        for _ in range(_PAGES):
            call.raw("POST", "/v0/topics/bench?return_seqs=false", json_batch(PAYLOAD, _PAGE))
        page = call.json("POST", _DIFF, {"from_seq": 0, "limit": _PAGE})
        if len(page["records"]) != _PAGE:
            raise DidNotStart(f"diff brought {len(page['records'])} records, not {_PAGE}")
        found = frames_in(call.raw("POST", _DIFF, _body(0), Accept=BATCH_TYPE))
        if found != _PAGE:
            raise DidNotStart(f"the binary diff brought {found} frames, not {_PAGE}")


def frames_in(body: bytes) -> int:
    """How many frames a binary answer says it has."""
    if body[:4] != b"PSB1":
        raise DidNotStart(f"not a binary answer: {body[:60]!r}")
    (head,) = struct.unpack_from("<I", body, 4)
    (count,) = struct.unpack_from("<I", body, 8 + head)
    return int(count)
