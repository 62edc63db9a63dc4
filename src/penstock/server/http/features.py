"""`/v0/features/…`: register, push, get, watch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from penstock.feature_types import FeatureError, FeatureRead, Pushed, PushSync
from penstock.server.auth import ApiKey
from penstock.server.errors import ApiError, forbidden, invalid, not_acceptable
from penstock.server.feature_feed import FeatureFeed
from penstock.server.feature_stream import FeatureStream
from penstock.server.features import FeatureService
from penstock.server.http import bodies
from penstock.server.http.message import EVENTS, Request, Response
from penstock.server.http.topics import performance
from penstock.server.http.watches import HEADERS
from penstock.server.key_limits import OpenStreams
from penstock.server.service import Service
from penstock.wire.features import (
    READS_MAX,
    WAIT_MS_MAX,
    FeatureBatchAnswer,
    FeatureBatchGetBody,
    FeatureDefinitionAnswer,
    FeatureDefinitionBody,
    FeatureGetBody,
    FeatureLoadAnswer,
    FeatureLoadBody,
    FeaturePushAnswer,
    FeaturePushGetAnswer,
    FeaturePushGetBody,
    FeatureReadBody,
    FeatureRegisterAnswer,
    FeatureResult,
    FeatureRowAnswer,
    FeatureScanAnswer,
    FeatureScanBody,
    FeatureTableAnswer,
    FeatureTablesAnswer,
)

_DEFINITION: Final = msgspec.json.Decoder(FeatureDefinitionBody)
_GET: Final = msgspec.json.Decoder(FeatureGetBody)
_BATCH_GET: Final = msgspec.json.Decoder(FeatureBatchGetBody)
_PUSH_GET: Final = msgspec.json.Decoder(FeaturePushGetBody)
_SCAN: Final = msgspec.json.Decoder(FeatureScanBody)
_LOAD: Final = msgspec.json.Decoder(FeatureLoadBody)
_EVENTS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_KEY: Final = msgspec.json.Decoder(str | int | bool | list[str | int | bool] | None)
_SYNC: Final = msgspec.json.Decoder(PushSync)
_encode = msgspec.json.Encoder().encode


class FeatureHandlers:
    """Handlers of features. A key with prefixes may use the tables and events of its topics. Event
    loop only."""

    def __init__(
        self, service: Service, features: FeatureService, open_streams: OpenStreams
    ) -> None:
        self._service = service
        self._features = features
        self._open_streams = open_streams
        self.streams: set[FeatureStream] = set()
        self._feeds: dict[str, FeatureFeed] = {}  # of tables that somebody watches

    # What is registered.

    async def register(self, request: Request) -> Response:
        body = bodies.decoded(request, _DEFINITION)
        if request.key.prefixes:
            raise forbidden("a key with prefixes may not register features")
        store = self._features.store
        registered = await self._features.run(
            store.register,
            body.document,
            dry_run=body.dry_run,
            force=body.force,
            whole=body.whole,
            wait_s=min(body.wait_ms, WAIT_MS_MAX) / 1000,
        )
        answer = FeatureRegisterAnswer(
            version=registered.version,
            changed=registered.is_changed,
            dry_run=registered.is_dry_run,
            changes=registered.changes,
            tables=registered.tables,
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    def definition(self, request: Request) -> Response:
        store = self._features.store
        document = self._visible(request.key)
        answer = FeatureDefinitionAnswer(
            version=store.version,
            events=document["events"],
            derived=document["derived"],
            tables=document["tables"],
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    async def tables(self, request: Request) -> Response:
        store = self._features.store
        tables = await self._features.run(store.tables)
        answer = FeatureTablesAnswer(
            version=store.version,
            tables=[table for table in tables if request.key.may_name(table.topic)],
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    async def table(self, request: Request) -> Response:
        self._check_table(request.key, request.params[0])
        table = await self._features.run(self._features.store.table, request.params[0])
        answer = FeatureTableAnswer(table=table, performance=performance(self._service, request))
        return Response(200, _encode(answer))

    # Events.

    async def push(self, request: Request) -> Response:
        event = request.params[0]
        given = request.query("sync")
        sync = None if given is None else bodies.parsed(_encode(given), _SYNC)
        if not bodies.is_json(request):
            raise bodies.unsupported()
        pushed = await self._push(request.key, event, request.body, sync)
        return Response(200, _encode(self._pushed(request, pushed)))

    async def push_get(self, request: Request) -> Response:
        body = bodies.decoded(request, _PUSH_GET)
        reads = self._reads(request.key, body.reads)
        pushed = await self._push(request.key, body.event, bytes(body.data), body.sync)
        answer = FeaturePushGetAnswer(
            pushed=self._pushed(request, pushed),
            results=_results(await self._features.batch_get(reads)),
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    async def _push(self, key: ApiKey, event: str, body: bytes, sync: PushSync | None) -> Pushed:
        known = self._features.store.definition.events.get(event)
        if key.prefixes and (known is None or not key.may_name(known.topic)):
            raise _out_of_reach("event", event)
        texts = [body]
        if body.lstrip()[:1] == b"[":
            pushed = await self._features.push_array(event, body, sync)
            if pushed is not None:
                return pushed
            bodies.check_count(body, READS_MAX)
            texts = [bytes(one) for one in bodies.parsed(body, _EVENTS)]
        return await self._features.push(event, texts, sync)

    def _pushed(self, request: Request, pushed: Pushed) -> FeaturePushAnswer:
        return FeaturePushAnswer(
            **msgspec.structs.asdict(pushed), performance=performance(self._service, request)
        )

    # Rows.

    async def get(self, request: Request) -> Response:
        body = bodies.decoded(request, _GET)
        self._check_table(request.key, body.table)
        row = await self._features.get(
            body.table,
            body.key,
            body.features,
            as_of_seq=body.as_of_seq,
            as_of_ts=body.as_of_ts,
            eventual=body.eventual,
        )
        answer = FeatureRowAnswer(
            table=body.table, row=row, performance=performance(self._service, request)
        )
        return Response(200, _encode(answer))

    async def batch_get(self, request: Request) -> Response:
        body = bodies.decoded(request, _BATCH_GET)
        reads = self._reads(request.key, body.requests)
        found = await self._features.batch_get(reads, eventual=body.eventual)
        answer = FeatureBatchAnswer(
            results=_results(found), performance=performance(self._service, request)
        )
        return Response(200, _encode(answer))

    async def scan(self, request: Request) -> Response:
        body = bodies.decoded(request, _SCAN)
        self._check_table(request.key, body.table)
        page = await self._features.run(
            self._features.store.scan,
            body.table,
            body.after,
            body.limit,
            features=body.features,
            now_ms=body.now_ms,
        )
        answer = FeatureScanAnswer(
            table=body.table,
            rows=page.rows,
            places=page.places,
            now_ms=page.now_ms,
            next_after=page.next_after,
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    async def load(self, request: Request) -> Response:
        body = bodies.decoded(request, _LOAD)
        if request.key.prefixes:
            raise forbidden("a key with prefixes may not load snapshots")
        if not body.folder.startswith("/"):
            raise invalid(f"folder {body.folder[:200]!r} is relative: expected an absolute path")
        loaded = await self._features.run(self._features.store.load, body.table, body.folder)
        answer = FeatureLoadAnswer(
            table=loaded.table,
            parts=loaded.parts,
            snapshot=loaded.snapshot,
            applied=loaded.applied,
            keys=loaded.keys,
            saved=loaded.is_saved,
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    def watch(self, request: Request) -> None:
        accept = request.headers.get(b"accept", b"")
        if accept and EVENTS not in accept and b"*/*" not in accept:
            raise not_acceptable(accept)
        table = request.params[0]
        self._check_table(request.key, table)
        features = request.query("features")
        names = features.split(",") if features else None
        view = self._features.store.view(table)
        key = _key_of(request.query("key"), view.plan.key_types)
        view.key_values(key)  # a wrong key is refused before the stream begins
        view.names(names)
        self._open_streams.enter(request.key)
        stream = request.exchange.start_stream(HEADERS)

        def ended(one: FeatureStream) -> None:
            self.streams.discard(one)
            self._open_streams.leave(request.key)

        watching = FeatureStream(self._feed(table), key, names, stream, ended)
        if not watching.is_over:
            self.streams.add(watching)

    def _feed(self, table: str) -> FeatureFeed:
        """What all streams of a table share."""
        feed = self._feeds.get(table)
        if feed is None:
            feed = self._feeds[table] = FeatureFeed(
                self._features, self._service.bridge, table, self._drop_feed
            )
        return feed

    def _drop_feed(self, table: str) -> None:
        del self._feeds[table]

    def _reads(self, key: ApiKey, reads: Sequence[FeatureReadBody]) -> list[FeatureRead]:
        if len(reads) > READS_MAX:
            raise invalid(f"{len(reads)} reads in one request: expected at most {READS_MAX}")
        for table in {read.table for read in reads}:
            self._check_table(key, table)
        return [FeatureRead(read.table, read.key, read.features) for read in reads]

    def _check_table(self, key: ApiKey, table: str) -> None:
        """A key with prefixes does not learn which other tables there are."""
        if key.prefixes and not self._may_read(key, table):
            raise _out_of_reach("table", table)

    def _may_read(self, key: ApiKey, table: str) -> bool:
        definition = self._features.store.definition
        return table in definition.tables and key.may_name(definition.plan(table).event.topic)

    def _visible(self, key: ApiKey) -> dict[str, list[dict[str, Any]]]:
        """What is registered on the topics that the key may use."""
        definition = self._features.store.definition
        document = definition.to_json()
        if not key.prefixes:
            return document
        nodes = definition.nodes
        mine = {name for name, event in nodes.events.items() if key.may_name(event.topic)}
        return {
            "events": [one for one in document["events"] if one["name"] in mine],
            "derived": [one for one in document["derived"] if nodes.root(one["from"]) in mine],
            "tables": [one for one in document["tables"] if nodes.root(one["from"]) in mine],
        }


def _results(rows: Sequence[dict[str, Any] | FeatureError]) -> list[FeatureResult]:
    return [
        FeatureResult(error=row) if isinstance(row, FeatureError) else FeatureResult(row=row)
        for row in rows
    ]


def _out_of_reach(what: str, name: str) -> ApiError:
    return forbidden(f"the key may use no {what} named {name[:100]!r}")


def _key_of(given: str | None, types: Sequence[str]) -> Any:
    """A key in a query: JSON; or a text, which also may look like JSON if the key is one text."""
    if given is None:
        return None
    try:
        key = _KEY.decode(given)
    except msgspec.MsgspecError:
        return given
    return key if isinstance(key, (str, list)) or tuple(types) != ("str",) else given
