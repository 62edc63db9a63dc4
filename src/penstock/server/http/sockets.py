"""`GET /v0/ws`: the handshake, and who is connected."""

from __future__ import annotations

from penstock.server.auth import ANYONE
from penstock.server.commands import Commands
from penstock.server.http.limits import Watchman
from penstock.server.http.message import Request
from penstock.server.http.watches import Connections
from penstock.server.service import Service
from penstock.server.websocket import WebSocket, accept, exchange_of


class Sockets:
    """Event loop only."""

    def __init__(self, service: Service, connections: Connections, watchman: Watchman) -> None:
        self._service = service
        self._connections = connections
        self._watchman = watchman
        self.peers: set[Commands] = set()

    def open(self, request: Request) -> None:
        head = accept(request)
        exchange = exchange_of(request)
        self._connections.enter(request.key)
        most = self._watchman.settings.max_inflight_per_key if request.key is not ANYONE else 0
        socket = WebSocket(self._watchman, request.peer)
        self.peers.add(Commands(self._service, socket, request, self._ended, most))
        exchange.upgrade(head, socket.start)

    def _ended(self, peer: Commands) -> None:
        self.peers.discard(peer)
        self._connections.leave(peer.key)
