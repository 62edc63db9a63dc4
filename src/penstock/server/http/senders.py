"""`GET /v0/sender`: the handshake of senders, and who is connected."""

from __future__ import annotations

import re

from penstock.server.errors import invalid
from penstock.server.http.limits import Watchman
from penstock.server.http.message import Request
from penstock.server.http.watches import Connections
from penstock.server.intake import Intake
from penstock.server.service import Service
from penstock.server.websocket import WebSocket, accept, exchange_of
from penstock.wire import sending

_ID = re.compile(rb"[A-Za-z0-9_-]{1,128}")
_NUMBER = re.compile(rb"[0-9]{1,19}")


class Senders:
    """Event loop only."""

    def __init__(self, service: Service, connections: Connections, watchman: Watchman) -> None:
        self._service = service
        self._connections = connections
        self._watchman = watchman
        self.peers: set[Intake] = set()

    def open(self, request: Request) -> None:
        """Names are checked here; what the key may write to is checked with each frame."""
        headers = request.headers
        if not _ID.fullmatch(headers.get(sending.SENDER.encode(), b"")):
            raise invalid(f"{sending.SENDER} names the sender: letters, digits, _ and -")
        first = headers.get(sending.FSN.encode(), b"")
        if not _NUMBER.fullmatch(first):
            raise invalid(f"{sending.FSN} is the number of the first frame")
        is_durable = headers.get(sending.DURABLE_ACK.encode(), b"").lower() == b"on"
        extra = f"{sending.FRAME_BYTES_MAX}: {self._watchman.body_bytes_max}\r\n"
        if is_durable:
            extra += f"{sending.DURABLE_ACK}: enabled\r\n"
        head = accept(request, extra.encode())
        exchange = exchange_of(request)
        self._connections.enter(request.key)
        socket = WebSocket(self._watchman, request.peer)
        intake = Intake(
            self._service, socket, request.key, int(first), self._ended, is_durable=is_durable
        )
        self.peers.add(intake)
        exchange.upgrade(head, socket.start)

    def _ended(self, peer: Intake) -> None:
        if peer in self.peers:
            self.peers.discard(peer)
            self._connections.leave(peer.key)
