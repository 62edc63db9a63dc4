"""The orderly stop of a server whose listener is closed.

Every stream gets a last message and ends. The requests in progress have a limited time to finish.
Then the log gets a checkpoint and is closed. New requests are refused by `readiness`.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from penstock.server.claims import Claims
from penstock.server.http.access import AccessControl
from penstock.server.http.connection_limits import ConnectionLimits
from penstock.server.http.features import FeatureHandlers
from penstock.server.http.queues import QueueHandlers
from penstock.server.http.senders import SenderHandlers
from penstock.server.http.sockets import WebSocketHandlers
from penstock.server.http.tables import TableHandlers
from penstock.server.http.watches import WatchHandlers
from penstock.server.service import Service

_GOODBYE: Final = "server_shutting_down", "the server is shutting down"


class Shutdown:
    """Event loop only; the log is closed on another thread."""

    def __init__(
        self,
        service: Service,
        access: AccessControl,
        connection_limits: ConnectionLimits,
        claims: Claims,
        *,
        watches: WatchHandlers,
        queues: QueueHandlers,
        tables: TableHandlers,
        features: FeatureHandlers,
        sockets: WebSocketHandlers,
        senders: SenderHandlers,
    ) -> None:
        self._service = service
        self._access = access
        self._connection_limits = connection_limits
        self._claims = claims
        self._watches = watches
        self._queues = queues
        self._tables = tables
        self._features = features
        self._sockets = sockets
        self._senders = senders

    async def run(self, drain_timeout_ms: int) -> None:
        """End the streams, finish the requests in progress, close the log."""
        self._end_streams()
        await self._drain(drain_timeout_ms / 1000)
        self._service.delivery.close()
        await asyncio.to_thread(self._close_log)

    def _end_streams(self) -> None:
        for stream in list(self._watches.streams):
            stream.finish(*_GOODBYE)
        self._service.is_stopping = True
        for work in list(self._queues.streams):
            work.finish(*_GOODBYE)
        for table in list(self._tables.streams):
            table.finish(*_GOODBYE)
        for row in list(self._features.streams):
            row.finish(*_GOODBYE)
        self._claims.wake_all()
        for peer in list(self._sockets.peers):
            peer.finish(*_GOODBYE)
        for sender in list(self._senders.peers):
            sender.finish(*_GOODBYE)
        self._service.feeds.wake_all()  # long polls answer with what they have

    async def _drain(self, timeout_s: float) -> None:
        """Close each connection after its last answer, or at once when the time is over."""
        limits = self._connection_limits
        for connection in limits.connections:
            connection.shut()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._access.drain()
                await limits.empty()
        for connection in limits.connections:
            connection.abort()
        limits.stop()

    def _close_log(self) -> None:
        if self._service.is_open and self._service.core.failed is None:
            self._service.core.checkpoint()  # the next start has less to replay
        self._service.close()
