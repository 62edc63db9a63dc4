"""`GET /v0/sender`: the handshake of senders, and the connected senders."""

from __future__ import annotations

import re

from penstock.server.errors import invalid
from penstock.server.http.connection_limits import ConnectionLimits
from penstock.server.http.message import Request
from penstock.server.key_limits import OpenStreams
from penstock.server.sender_session import SenderSession
from penstock.server.service import Service
from penstock.server.websocket import WebSocket, accept, exchange_of
from penstock.wire import sender_protocol

_ID = re.compile(rb"[A-Za-z0-9_-]{1,128}")
_NUMBER = re.compile(rb"[0-9]{1,19}")


class SenderHandlers:
    """Event loop only."""

    def __init__(
        self, service: Service, open_streams: OpenStreams, connection_limits: ConnectionLimits
    ) -> None:
        self._service = service
        self._open_streams = open_streams
        self._connection_limits = connection_limits
        self.peers: set[SenderSession] = set()

    def open(self, request: Request) -> None:
        """Names are checked here; what the key may write to is checked with each frame."""
        headers = request.headers
        if not _ID.fullmatch(headers.get(sender_protocol.SENDER.encode(), b"")):
            raise invalid(
                f"invalid {sender_protocol.SENDER} header: expected 1 to 128 of A-Z, a-z, 0-9, _, -"
            )
        first = headers.get(sender_protocol.FSN.encode(), b"")
        if not _NUMBER.fullmatch(first):
            raise invalid(
                f"invalid {sender_protocol.FSN} header: expected the number of the first frame"
            )
        is_durable = headers.get(sender_protocol.DURABLE_ACK.encode(), b"").lower() == b"on"
        extra = f"{sender_protocol.FRAME_BYTES_MAX}: {self._connection_limits.body_bytes_max}\r\n"
        if is_durable:
            extra += f"{sender_protocol.DURABLE_ACK}: enabled\r\n"
        head = accept(request, extra.encode())
        exchange = exchange_of(request)
        self._open_streams.enter(request.key)
        socket = WebSocket(self._connection_limits, request.peer)
        intake = SenderSession(
            self._service, socket, request.key, int(first), self._ended, is_durable=is_durable
        )
        self.peers.add(intake)
        exchange.upgrade(head, socket.start)

    def _ended(self, peer: SenderSession) -> None:
        if peer in self.peers:
            self.peers.discard(peer)
            self._open_streams.leave(peer.key)
