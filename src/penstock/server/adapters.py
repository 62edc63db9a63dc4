"""The interface for foreign protocols: what an adapter gets, what it provides, and every name of
the server that it may use.

The server itself knows no adapter; its creator passes them in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from penstock.server.appends import CREATE_AND_WAIT, Answer, Batch, TopicWrite, batch_of_texts
from penstock.server.auth import ApiKey, Scope
from penstock.server.errors import ApiError, api_error, invalid
from penstock.server.features import FeatureService
from penstock.server.http.connection_limits import ConnectionLimits, PeerConnection
from penstock.server.http.h1 import Http1Connection
from penstock.server.http.h2 import Http2Connection
from penstock.server.http.message import JSON, Request, Response
from penstock.server.http.origins import Origins
from penstock.server.http.routes import Route
from penstock.server.http.stalled_peers import Stall
from penstock.server.key_limits import OpenStreams
from penstock.server.service import Service
from penstock.server.websocket import WebSocket, WebSocketCallbacks, accept, exchange_of
from penstock.topics.validation import topic_name

__all__ = [
    "CREATE_AND_WAIT",
    "JSON",
    "Adapter",
    "Answer",
    "ApiError",
    "ApiKey",
    "Batch",
    "ConnectionLimits",
    "FeatureService",
    "Http1Connection",
    "Http2Connection",
    "Listener",
    "Origins",
    "PeerConnection",
    "Request",
    "Response",
    "Route",
    "Scope",
    "Service",
    "Site",
    "Stall",
    "TopicWrite",
    "WebSocket",
    "WebSocketCallbacks",
    "accept",
    "api_error",
    "batch_of_texts",
    "exchange_of",
    "invalid",
    "topic_name",
]


@dataclass(frozen=True, slots=True)
class Site:
    """The objects that an adapter gets. Event loop only."""

    service: Service
    open_streams: OpenStreams  # counts them, and limits their number
    connection_limits: ConnectionLimits
    features: FeatureService
    origins: Origins


Adapter = Callable[[Site], Iterable[Route]]
"""The routes of the adapter, with the same checks as all others: Host, Origin, key, scope."""


class Listener(Protocol):
    """A protocol with a port of its own. Event loop only. Its connections are known to
    `connection_limits`, which ends them when the server stops."""

    async def start(self, site: Site) -> None:
        """Accept connections: the log is open."""

    def close(self) -> None:
        """Accept no more connections. Also if it was never started."""
