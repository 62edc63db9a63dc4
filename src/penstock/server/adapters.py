"""The interface for foreign protocols: what an adapter gets, what it provides, and every name of
the server that it may use.

The server itself knows no adapter; its creator passes them in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.server.appends import CREATE_AND_WAIT, Answer, Batch, TopicWrite, batch_of_texts
from penstock.server.auth import ApiKey, Scope
from penstock.server.errors import ApiError, api_error, invalid
from penstock.server.http.connection_limits import ConnectionLimits
from penstock.server.http.message import Request
from penstock.server.http.routes import Route
from penstock.server.key_limits import OpenStreams
from penstock.server.service import Service
from penstock.server.websocket import WebSocket, WebSocketCallbacks, accept, exchange_of
from penstock.topics.validation import topic_name

__all__ = [
    "CREATE_AND_WAIT",
    "Adapter",
    "Answer",
    "ApiError",
    "ApiKey",
    "Batch",
    "Request",
    "Route",
    "Scope",
    "Service",
    "Site",
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


Adapter = Callable[[Site], Iterable[Route]]
"""The routes of the adapter, with the same checks as all others: Host, Origin, key, scope."""
