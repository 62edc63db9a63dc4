"""`GET /v0/ws`: the WebSocket handshake, and the connected clients."""

from __future__ import annotations

from penstock.server.auth import ANYONE
from penstock.server.http.connection_limits import ConnectionLimits
from penstock.server.http.message import Request
from penstock.server.key_limits import OpenStreams
from penstock.server.service import Service
from penstock.server.websocket import WebSocket, accept, exchange_of
from penstock.server.websocket_commands import WebSocketCommands


class WebSocketHandlers:
    """Event loop only."""

    def __init__(
        self, service: Service, open_streams: OpenStreams, connection_limits: ConnectionLimits
    ) -> None:
        self._service = service
        self._open_streams = open_streams
        self._connection_limits = connection_limits
        self.peers: set[WebSocketCommands] = set()

    def open(self, request: Request) -> None:
        head = accept(request)
        exchange = exchange_of(request)
        self._open_streams.enter(request.key)
        most = (
            self._connection_limits.settings.max_inflight_per_key
            if request.key is not ANYONE
            else 0
        )
        socket = WebSocket(self._connection_limits, request.peer)
        self.peers.add(WebSocketCommands(self._service, socket, request, self._ended, most))
        exchange.upgrade(head, socket.start)

    def _ended(self, peer: WebSocketCommands) -> None:
        self.peers.discard(peer)
        self._open_streams.leave(peer.key)
