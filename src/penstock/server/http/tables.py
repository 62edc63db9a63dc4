"""`/v0/tables`: keyed tables, the newest record of each key of a topic."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET

from penstock import limits
from penstock.errors import TableNotFound
from penstock.projection_types import TableInfo, TableKey
from penstock.projections import table_keys
from penstock.projections.keyed_table import KeyedTable, KeyedTables, StoredRows
from penstock.projections.tables import StoredValue
from penstock.server.auth import ApiKey
from penstock.server.errors import ApiError, invalid, name_forbidden, not_acceptable
from penstock.server.http import bodies
from penstock.server.http.message import EVENTS, Request, Response
from penstock.server.http.paging import after_of, cursor_of, page_size
from penstock.server.http.topics import performance
from penstock.server.http.watches import HEADERS
from penstock.server.key_limits import OpenStreams
from penstock.server.service import Service
from penstock.server.table_stream import TableStream
from penstock.topics import validation
from penstock.types import Offset
from penstock.wire.tables import (
    TableAnswer,
    TableBody,
    TableDeletedAnswer,
    TableListAnswer,
    TablePutAnswer,
    TableRowAnswer,
    TableRowsAnswer,
    TableRowView,
    TableView,
)

_BODY = msgspec.json.Decoder(TableBody)
_encode = msgspec.json.Encoder().encode
_U64_MAX: Final = (1 << 64) - 1


class TableHandlers:
    """Handlers of keyed tables. Event loop only."""

    def __init__(self, service: Service, open_streams: OpenStreams) -> None:
        self._service = service
        self._open_streams = open_streams
        self.streams: set[TableStream] = set()

    @property
    def _tables(self) -> KeyedTables:
        """Calls may wait for a disk the first time: not on the loop."""
        return self._service.core.projections.tables

    async def put(self, request: Request) -> Response:
        name = validation.topic_name(request.params[0], "table")
        body = bodies.decoded(request, _BODY)
        topic = validation.topic_name(name if body.topic is None else body.topic)
        _check(request.key, topic)

        def put() -> tuple[TableInfo, bool]:
            table, is_new = self._tables.create(
                name, topic, body.key, on_gap=body.on_gap, bytes_max=body.bytes_max
            )
            return table.info(), is_new

        info, is_new = await self._service.run(put)
        answer = TablePutAnswer(
            created=is_new, performance=performance(self._service, request), **_fields(info)
        )
        return Response(201 if is_new else 200, _encode(answer))

    async def get(self, request: Request) -> Response:
        info = await self._service.run(lambda: self._allowed(request).info())
        answer = TableAnswer(performance=performance(self._service, request), **_fields(info))
        return Response(200, _encode(answer))

    async def list(self, request: Request) -> Response:
        size, after, key = page_size(request), after_of(request), request.key
        prefix = request.query("prefix") or ""

        def infos() -> list[TableInfo]:
            found = []
            for table in self._tables.all(prefix):
                if table.name > after and key.may_name(table.name):
                    info = _info(table)
                    if info is not None and key.may_name(info.topic):
                        found.append(info)
            return found

        chosen = await self._service.run(infos)
        answer = TableListAnswer(
            tables=[TableView(**_fields(info)) for info in chosen[:size]],
            next_cursor=cursor_of(chosen[size - 1].name) if len(chosen) > size else UNSET,
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    async def drop(self, request: Request) -> Response:
        name = request.params[0]

        def drop() -> bool:
            try:
                self._allowed(request)
            except TableNotFound:
                return False
            return self._tables.drop(name)

        deleted = await self._service.run(drop)
        answer = TableDeletedAnswer(
            table=name, deleted=deleted, performance=performance(self._service, request)
        )
        return Response(200, _encode(answer))

    async def rebuild(self, request: Request) -> Response:
        def rebuild() -> TableInfo:
            table = self._allowed(request)
            table.rebuild()
            return table.info()

        info = await self._service.run(rebuild)
        answer = TableAnswer(performance=performance(self._service, request), **_fields(info))
        return Response(200, _encode(answer))

    async def rows(self, request: Request) -> Response:
        prefix = request.query("prefix") or ""
        after = _key(request.query("after"), request.query("after_type"))
        limit = max(1, min(limits.READ_RECORDS_MAX, request.number("limit", 256)))
        eventual = request.flag("eventual", False)

        def scan() -> StoredRows:
            return self._allowed(request).stored_rows(prefix, after, limit, eventual=eventual)

        found = await self._service.run(scan)
        answer = TableRowsAnswer(
            rows=[TableRowView(**_row(stored)) for stored in found.rows],
            count=found.total,
            next_after=table_keys.unpacked(found.rows[-1].key) if found.is_more else UNSET,
            offset=found.offset,
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    async def row(self, request: Request) -> Response:
        key = _key(request.params[1], request.query("key_type"))
        eventual = request.flag("eventual", False)
        if key is None:
            raise _no_row()
        found = await self._service.run(
            lambda: self._allowed(request).stored(key, eventual=eventual)
        )
        if found is None:
            raise _no_row()
        answer = TableRowAnswer(performance=performance(self._service, request), **_row(found))
        return Response(200, _encode(answer))

    async def watch(self, request: Request) -> None:
        accept = request.headers.get(b"accept", b"")
        if accept and EVENTS not in accept and b"*/*" not in accept:
            raise not_acceptable(accept)
        given = _offset(request)

        def start() -> tuple[KeyedTable, Offset]:
            table = self._allowed(request)
            return table, table.start_of(given)

        table, after = await self._service.run(start)
        self._open_streams.enter(request.key)
        key = request.key

        def ended(one: TableStream) -> None:
            self.streams.discard(one)
            self._open_streams.leave(key)

        stream = request.exchange.start_stream(HEADERS)
        watching = TableStream(self._service, table, after, stream, ended)
        if not watching.is_over:
            self.streams.add(watching)

    def _allowed(self, request: Request) -> KeyedTable:
        """A key that may not use the topic of a table may not use the table."""
        table = self._tables.get(request.params[0])
        _check(request.key, table.topic)
        return table


def _check(key: ApiKey, topic: str) -> None:
    if not key.may_name(topic):
        raise name_forbidden(topic)


def _info(table: KeyedTable) -> TableInfo | None:
    try:
        return table.info()
    except TableNotFound:  # deleted meanwhile
        return None


def _fields(info: TableInfo) -> dict[str, Any]:
    return {
        "table": info.name,
        "topic": info.topic,
        "key": info.key,
        "on_gap": info.on_gap,
        "bytes_max": info.bytes_max,
        "rows": info.rows,
        "skipped": info.skipped,
        "progress": info.status,
    }


def _row(stored: StoredValue) -> dict[str, Any]:
    return {
        "key": table_keys.unpacked(stored.key),
        "value": msgspec.Raw(stored.value),  # as it was appended
        "seq": stored.seq,
        "ts": stored.ts,
    }


def _key(text: str | None, given_type: str | None) -> TableKey | None:
    """A key in a URL is text, unless its type is given."""
    kind = given_type or "text"
    if text is None or kind == "text":
        return text
    if kind == "bool" and text in ("true", "false"):
        return text == "true"
    digits = text.removeprefix("-")
    if kind == "int" and digits.isascii() and digits.isdigit() and len(digits) < 20:
        return int(text)
    if kind in ("bool", "int"):
        raise invalid(f"invalid key {table_keys.shown(text)}: it is not of the type {kind}")
    raise invalid(f"invalid type of a key {table_keys.shown(kind)}: expected text, int or bool")


def _offset(request: Request) -> Offset | None:
    """Where a watch begins: after the last event that its client has seen, or as it asks."""
    text = request.headers.get(b"last-event-id", b"").decode("latin-1")
    epoch, dot, seq = text.partition(".")
    if not (dot and epoch.isdigit() and seq.isdigit() and len(text) < 42):
        epoch, seq = request.query("epoch") or "", request.query("seq") or ""
        if not epoch and not seq:
            return None
    if not (epoch.isascii() and epoch.isdigit() and seq.isascii() and seq.isdigit()):
        raise invalid("epoch and seq belong together: specify both numbers of an offset")
    if len(epoch) > 20 or len(seq) > 20 or max(int(epoch), int(seq)) > _U64_MAX:
        raise invalid("epoch or seq is too large: expected the numbers of an offset")
    return Offset(int(epoch), int(seq))


def _no_row() -> ApiError:
    return ApiError(404, "row_not_found", "the table has no row of this key")
