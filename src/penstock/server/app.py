"""The whole server: bind, recover while the socket is bound, serve, stop.

`readiness` says whether it accepts requests; `shutdown` has the steps of an orderly stop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Iterable

import msgspec

from penstock.clock import Clock, SystemClock
from penstock.config import Settings
from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.errors import InvalidArgument
from penstock.server import descriptor_limit, metrics, tls
from penstock.server.adapters import Adapter, Listener, Site
from penstock.server.auth import Keyring
from penstock.server.auth_tickets import AuthTickets
from penstock.server.claims import Claims
from penstock.server.features import FeatureService
from penstock.server.http.access import AccessControl
from penstock.server.http.admin import AdminHandlers
from penstock.server.http.audit import AuditHandlers
from penstock.server.http.batches import BatchHandlers
from penstock.server.http.connection_limits import ConnectionLimits
from penstock.server.http.delayed import DelayedHandlers
from penstock.server.http.features import FeatureHandlers
from penstock.server.http.h1 import Http1Connection
from penstock.server.http.h2 import Http2Connection
from penstock.server.http.message import Request
from penstock.server.http.origins import Origins
from penstock.server.http.positions import PositionHandlers
from penstock.server.http.queues import QueueHandlers
from penstock.server.http.reads import ReadHandlers
from penstock.server.http.route_table import route_table
from penstock.server.http.routers import RouterHandlers
from penstock.server.http.senders import SenderHandlers
from penstock.server.http.sockets import WebSocketHandlers
from penstock.server.http.tables import TableHandlers
from penstock.server.http.topics import TopicHandlers
from penstock.server.http.watches import WatchHandlers
from penstock.server.http.writes import WriteHandlers
from penstock.server.key_limits import OpenStreams, RequestLimit
from penstock.server.readiness import Readiness
from penstock.server.service import Service
from penstock.server.settings import ServerSettings
from penstock.server.shutdown import Shutdown
from penstock.server.watch_sessions import WatchSessions

_log = logging.getLogger("penstock.server")


class Server:
    """The server of one process. Everything except recovery and closing runs on the event loop."""

    def __init__(
        self,
        data_dir: str,
        settings: ServerSettings,
        log_settings: Settings,
        *,
        version: str,
        clock: Clock | None = None,
        adapters: Iterable[Adapter] = (),
        listeners: Iterable[Listener] = (),
    ) -> None:
        self.version = version
        self.readiness = Readiness()
        self.address = ("", 0)
        self._data_dir = data_dir
        self._settings = settings
        self._log_settings = log_settings
        self._clock = clock or SystemClock()
        self._started = self._clock.monotonic()
        self._is_announced = False
        self._listener: asyncio.Server | None = None
        self._tls: ssl.SSLContext | None = None
        loop = asyncio.get_running_loop()
        keyring = Keyring(settings.api_keys)
        settings = msgspec.structs.replace(settings, api_keys="")  # digests are enough from here on
        self._settings = settings
        tickets = AuthTickets(self._clock)
        self.connection_limits = ConnectionLimits(settings, self._clock)
        self.service = Service(loop, self._clock, total_bytes_max=settings.max_total_bytes)
        self._open_streams = OpenStreams(settings)
        self._sessions = WatchSessions(self._clock, settings.max_watch_sessions)
        self._watches = WatchHandlers(
            self.service, self._sessions, self._open_streams, settings, is_open=keyring.is_open
        )
        self._claims = Claims(self.service)
        self._queues = QueueHandlers(self.service, self._claims, self._open_streams)
        self._sockets = WebSocketHandlers(self.service, self._open_streams, self.connection_limits)
        self._senders = SenderHandlers(self.service, self._open_streams, self.connection_limits)
        self._tables = TableHandlers(self.service, self._open_streams)
        features = FeatureService(self.service)
        self._features = FeatureHandlers(self.service, features, self._open_streams)
        origins = Origins(settings)
        self._site = site = Site(
            self.service, self._open_streams, self.connection_limits, features, origins
        )
        self._listeners = list(listeners)
        routes = route_table(
            TopicHandlers(self.service),
            WriteHandlers(self.service),
            BatchHandlers(self.service),
            ReadHandlers(self.service),
            self._watches,
            self._sockets,
            self._senders,
            PositionHandlers(self.service),
            self._queues,
            DelayedHandlers(self.service),
            RouterHandlers(self.service),
            self._tables,
            self._features,
            AuditHandlers(self.service),
            AdminHandlers(self.service, tickets, self.readiness, self),
            [route for adapter in adapters for route in adapter(site)],
        )
        self._gate = AccessControl(
            routes,
            keyring,
            origins,
            tickets,
            self.readiness,
            request_limit=RequestLimit(settings.max_inflight_per_key),
            body_bytes_max=settings.max_body_bytes,
            is_probe_open=not settings.probe_auth,
            audit=self.service.audit,
        )
        self._shutdown = Shutdown(
            self.service,
            self._gate,
            self.connection_limits,
            self._claims,
            watches=self._watches,
            queues=self._queues,
            tables=self._tables,
            features=self._features,
            sockets=self._sockets,
            senders=self._senders,
        )
        # Answers a complete request, now or later.
        self.handle: Callable[[Request], None] = self._gate.handle

    # Its life.

    async def start(self) -> None:
        """Bind first, so that callers can see the progress of recovery; then recover."""
        settings = self._settings
        self.connection_limits.connections_max = descriptor_limit.bounded(settings.max_connections)
        if settings.tls_cert:
            self._tls = tls.server_context(settings)
        self._listener = await asyncio.get_running_loop().create_server(
            lambda: Http1Connection(self),
            settings.host.strip("[]"),
            settings.port,
            ssl=self._tls,
            # Before the handshake is done no other code checks the time.
            ssl_handshake_timeout=self.connection_limits.header_timeout_s if self._tls else None,
            backlog=1024,
        )
        self.address = self._listener.sockets[0].getsockname()[:2]
        self.connection_limits.start()
        self.service.adopt((await asyncio.to_thread(self._open_log)).core)
        self._announce()
        self.readiness.finish_recovery()
        for listener in self._listeners:
            await listener.start(self._site)

    async def stop(self) -> None:
        """Accept no more requests, end every stream, finish requests in progress, close the log."""
        self.readiness.begin_stop()
        if self._listener is not None:
            self._listener.close()
        for listener in self._listeners:
            listener.close()
        await self._shutdown.run(self._settings.drain_timeout_ms)

    def reload_tls(self) -> None:
        """Read the certificate again; open connections keep the old one."""
        if self._tls is None:
            return
        try:
            tls.load(self._tls, self._settings)
        except InvalidArgument as error:
            _log.error("reloading the certificate failed, the old one stays in use: %s", error)
        else:
            _log.info("reloaded the certificate")

    def _open_log(self) -> Log:
        return open_log(
            self._data_dir,
            settings=self._log_settings,
            clock=self._clock,
            progress=self._record_progress,
        )

    def _record_progress(self, done: int, total: int) -> None:
        """On the thread of the recovery. At its first call the directory is locked, so the port
        file may be written."""
        self.readiness.record_progress(done, total)
        self._announce()

    def _announce(self) -> None:
        if self._settings.port_file and not self._is_announced:
            self._is_announced = True
            _write_port_file(self._settings.port_file, *self.address)

    # What connections and handlers ask.

    def screen(self, request: Request) -> int:
        return self._gate.screen(request)

    def take_over_h2(self, transport: asyncio.Transport, peer: str, data: bytes) -> None:
        Http2Connection(self, peer).start(transport, data)

    def uptime_ms(self) -> int:
        return round((self._clock.monotonic() - self._started) * 1000)

    def gauges(self) -> metrics.Gauges:
        return metrics.Gauges(
            connections=len(self.connection_limits),
            connections_refused=self.connection_limits.refused,
            sse_connections=self._open_streams.count,
            watch_sessions=len(self._sessions),
            uptime_ms=self.uptime_ms(),
            replay_progress=1.0,
            pressure=metrics.Pressure(
                ladder=self.service.delivery.ladder,
                latency_ms=self.service.delivery.latency_ms,
                depths=self.service.delivery.depths(),
                paused=self.service.delivery.paused,
                writes_throttled=self.service.writes_throttled,
                deliveries=self.service.delivery.deliveries_total,
            ),
        )


def _write_port_file(path: str, host: str, port: int) -> None:
    """Write the file atomically: a process that waits for it reads it as soon as it exists."""
    name = f"[{host}]" if ":" in host else host
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="ascii") as file:
            file.write(f"{name}:{port}")
        os.replace(temporary, path)
    except OSError as error:
        raise InvalidArgument(f"port_file: {error}") from None


async def serve(server: Server, until: asyncio.Event) -> None:
    """Start, run until a stop signal, stop."""
    try:
        await server.start()
        _log.info("ready on %s:%d", *server.address)
        await until.wait()
    finally:
        await server.stop()
