"""`GET /api/v4/write` and `/write/v4`: the handshake of QWP clients."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from penstock.compat.qwp.codec import MESSAGE_BYTES_MAX, VERSION
from penstock.compat.qwp.ingest import Ingest
from penstock.compat.qwp.resend_detection import Receipts
from penstock.server.adapters import (
    ApiError,
    Request,
    Route,
    Scope,
    Site,
    WebSocket,
    accept,
    exchange_of,
    invalid,
)

PATHS: Final = ("/api/v4/write", "/write/v4")
# The official client answers a ping no sooner than it has something to send.
_SILENCE_S: Final = 300.0


def routes(site: Site) -> Iterable[Route]:
    """For `Server(adapters=…)`."""
    handler = partial(_open, site, Receipts())
    return [Route("GET", path, handler, Scope.WRITE, is_stream=True) for path in PATHS]


def _open(site: Site, receipts: Receipts, request: Request) -> None:
    _check(request)
    wants_syncs = request.headers.get(b"x-qwp-request-durable-ack", b"").lower() == b"true"
    message_bytes_max = min(MESSAGE_BYTES_MAX, site.connection_limits.body_bytes_max)
    extra = b"x-qwp-version: %d\r\nx-questdb-role: STANDALONE\r\nx-qwp-max-batch-size: %d\r\n%b" % (
        VERSION,
        message_bytes_max,
        b"x-qwp-durable-ack: enabled\r\n" if wants_syncs else b"",
    )
    head = accept(request, extra)
    exchange = exchange_of(request)
    key = request.key
    site.open_streams.enter(key)
    socket = WebSocket(
        site.connection_limits, request.peer, bytes_max=message_bytes_max, ping_s=_SILENCE_S / 2
    )
    leave = partial(site.open_streams.leave, key)
    Ingest(site.service, socket, key, leave, receipts, is_durable=wants_syncs)
    exchange.upgrade(head, socket.start)


def _check(request: Request) -> None:
    """Checks for these clients beyond an ordinary handshake."""
    headers = request.headers
    if b"origin" in headers:
        raise invalid("web pages may not use this endpoint: expected no Origin header")
    if b"upgrade" in headers and headers.get(b"sec-websocket-version") != b"13":
        error = ApiError(426, "upgrade_required", "unsupported WebSocket version: expected 13")
        error.headers = ((b"sec-websocket-version", b"13"),)
        raise error
    newest = headers.get(b"x-qwp-max-version", b"%d" % VERSION)
    if not newest.isdigit() or int(newest[:9]) < VERSION:
        raise invalid(f"unsupported QWP version: expected {VERSION} or later")
