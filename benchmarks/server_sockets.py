"""Publishing over WebSocket with several messages under way on each connection."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.load_job import Drive
from benchmarks.load_requests import text_frame, upgrade
from benchmarks.server_own import create, own_server
from benchmarks.server_process import Running
from benchmarks.server_stand import Stand, nothing, rate_figure
from penstock.cli.figure import PAYLOAD, Figure

_CONNECTIONS = 8
_IN_FLIGHT = 32


def socket_figures(stand: Stand) -> Iterator[Figure]:
    message = (
        b'{"op":"publish","request_id":1,"topic":"bench","records":[{"data":%b}],'
        b'"return_seqs":false}' % PAYLOAD
    )
    name = f"WebSocket publish of 1 record, {_CONNECTIONS} connections × {_IN_FLIGHT}"
    with stand.folder() as here, own_server(here) as ours:
        if isinstance(ours, Running):
            create(ours, "bench", durability="disk")
        lone, deep = stand.compare([(ours, _drive(stand, message, n)) for n in (1, _IN_FLIGHT)])
        yield rate_figure(f"WebSocket publish of 1 record, {_CONNECTIONS} connections × 1", lone, 1)
        yield rate_figure(name, deep, 1)
        title = "  … acknowledgements that arrive together"
        if deep.failure:
            yield nothing(title, "acks", deep.failure)
            return
        yield Figure(title, deep.answers / max(1, deep.reads), "acks", "in one read of the client")


def _drive(stand: Stand, message: bytes, in_flight: int) -> Drive:
    return Drive(
        [text_frame(message)],
        _CONNECTIONS,
        stand.seconds,
        in_flight=in_flight,
        dialect="frames",
        hello=upgrade("/v0/ws"),
        hello_ends=b"\r\n\r\n",
    )
