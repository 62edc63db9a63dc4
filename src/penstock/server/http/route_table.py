"""Every route of the API, as data."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.server.auth import Scope
from penstock.server.http.admin import AdminHandlers
from penstock.server.http.audit import AuditHandlers
from penstock.server.http.batches import BatchHandlers
from penstock.server.http.delayed import DelayedHandlers
from penstock.server.http.features import FeatureHandlers
from penstock.server.http.positions import PositionHandlers
from penstock.server.http.queues import QueueHandlers
from penstock.server.http.reads import ReadHandlers
from penstock.server.http.routers import RouterHandlers
from penstock.server.http.routes import Route, Routes
from penstock.server.http.senders import SenderHandlers
from penstock.server.http.sockets import WebSocketHandlers
from penstock.server.http.tables import TableHandlers
from penstock.server.http.topics import TopicHandlers
from penstock.server.http.watches import WatchHandlers
from penstock.server.http.writes import WriteHandlers
from penstock.wire import sender_protocol

_READ, _WRITE, _DELETE, _ADMIN = Scope.READ, Scope.WRITE, Scope.DELETE, Scope.ADMIN


def route_table(
    topics: TopicHandlers,
    writes: WriteHandlers,
    batches: BatchHandlers,
    diffs: ReadHandlers,
    watches: WatchHandlers,
    sockets: WebSocketHandlers,
    senders: SenderHandlers,
    positions: PositionHandlers,
    queues: QueueHandlers,
    delayed: DelayedHandlers,
    routers: RouterHandlers,
    tables: TableHandlers,
    features: FeatureHandlers,
    audits: AuditHandlers,
    admin: AdminHandlers,
    more: Iterable[Route] = (),
) -> Routes:
    """The table, which `docs/api/http.md` and `/v0/openapi.json` describe. `more` are routes of
    adapters for foreign protocols."""
    topic = "/v0/topics/:topic"
    position = f"{topic}/positions/:name"
    one_table = "/v0/tables/:table"
    table = Routes(
        [
            Route("GET", "/v0/topics", topics.list, _READ),
            Route("PUT", topic, topics.put, _ADMIN, act="topic.put"),
            Route("GET", topic, topics.get, _READ),
            Route("DELETE", topic, topics.drop, _DELETE, act="topic.delete"),
            Route("POST", topic, writes.append, _WRITE, has_records=True),
            Route("POST", f"{topic}/diff", diffs.diff, _READ),
            Route("POST", f"{topic}/delete", topics.delete, _DELETE, act="records.delete"),
            Route("POST", f"{topic}/claim", queues.claim, _READ | _WRITE),
            Route("POST", f"{topic}/ack", queues.ack, _WRITE),
            Route("POST", f"{topic}/nack", queues.nack, _WRITE),
            Route("POST", f"{topic}/extend", queues.extend, _WRITE),
            Route(
                "POST", f"{topic}/redrive", queues.redrive, _WRITE | _DELETE, act="queue.redrive"
            ),
            Route("GET", f"{topic}/schedules", queues.schedules, _READ),
            Route("GET", f"{topic}/work", queues.work, _READ | _WRITE, is_stream=True),
            Route("GET", f"{topic}/delayed", delayed.list, _READ),
            Route(
                "DELETE",
                f"{topic}/delayed/:delayed_id",
                delayed.cancel,
                _DELETE,
                act="delayed.cancel",
            ),
            Route("GET", f"{topic}/positions", positions.list, _READ),
            Route("PUT", position, positions.put, _READ),
            Route("GET", position, positions.get, _READ),
            Route("DELETE", position, positions.drop, _READ),
            Route("GET", "/v0/routers", routers.list, _READ),
            Route("PUT", "/v0/routers/:router", routers.put, _ADMIN, act="router.put"),
            Route("GET", "/v0/routers/:router", routers.get, _READ),
            Route("DELETE", "/v0/routers/:router", routers.drop, _DELETE, act="router.delete"),
            Route("GET", "/v0/tables", tables.list, _READ),
            Route("PUT", one_table, tables.put, _ADMIN, act="table.put"),
            Route("GET", one_table, tables.get, _READ),
            Route("DELETE", one_table, tables.drop, _DELETE, act="table.delete"),
            Route("POST", f"{one_table}/rebuild", tables.rebuild, _ADMIN, act="table.rebuild"),
            Route("GET", f"{one_table}/rows", tables.rows, _READ),
            Route("GET", f"{one_table}/rows/:key", tables.row, _READ),
            Route("GET", f"{one_table}/watch", tables.watch, _READ, is_stream=True),
            Route(
                "POST",
                "/v0/features/definition",
                features.register,
                _ADMIN,
                act="features.register",
            ),
            Route("GET", "/v0/features/definition", features.definition, _READ),
            Route("GET", "/v0/features/tables", features.tables, _READ),
            Route(
                "GET", "/v0/features/tables/:feature_table", features.table, _READ, is_named=False
            ),
            Route(
                "POST",
                "/v0/features/push/:event",
                features.push,
                _WRITE,
                is_named=False,
                has_records=True,
            ),
            Route(
                "POST", "/v0/features/push_get", features.push_get, _READ | _WRITE, has_records=True
            ),
            Route("POST", "/v0/features/get", features.get, _READ),
            Route("POST", "/v0/features/batch_get", features.batch_get, _READ),
            Route("POST", "/v0/features/scan", features.scan, _READ),
            Route("POST", "/v0/features/load", features.load, _ADMIN, act="features.load"),
            Route(
                "GET",
                "/v0/features/watch/:feature_table",
                features.watch,
                _READ,
                is_named=False,
                is_stream=True,
            ),
            Route("POST", "/v0/batch", batches.append, _WRITE, has_records=True),
            Route("POST", "/v0/watch", watches.create, _READ),
            Route(
                "GET",
                "/v0/watch/:wid",
                watches.stream,
                is_open=True,
                is_named=False,
                is_stream=True,
            ),
            Route("GET", "/v0/ws", sockets.open, is_stream=True),
            Route("GET", sender_protocol.PATH, senders.open, _WRITE, is_stream=True),
            Route("GET", "/v0/audit", audits.get, _ADMIN),
            Route("POST", "/v0/tickets", admin.ticket),
            Route("GET", "/v0/metrics", admin.metrics, _READ),
            Route("GET", "/v0/openapi.json", admin.openapi, is_open=True, is_early=True),
            Route("GET", "/v0/health", admin.health, is_open=True, is_early=True),
            Route("GET", "/healthz", admin.health, is_open=True, is_early=True),
            Route("GET", "/v0/ready", admin.ready, is_open=True, is_early=True),
            Route("GET", "/readyz", admin.ready, is_open=True, is_early=True),
            *more,
        ]
    )
    admin.describe(table.all)
    return table
