"""The client for asyncio: each verb is a coroutine.

A verb is declared once, in `async_client`: its signature, its docstring and the call that it makes.
`scripts/generate_sync_client.py` writes the sync client from it. The calls are in `calls`,
`queue_calls` and `router_calls`; both clients use them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Never, TypeVar, Unpack

from penstock.append_options import AppendKeywords, refuse_in_batch
from penstock.client import (
    calls,
    client_options,
    queue_calls,
    router_calls,
    table_calls,
    watching,
)
from penstock.client.async_delayed import AsyncDelayed
from penstock.client.async_features import AsyncFeatures
from penstock.client.async_response_stream import AsyncResponseStream
from penstock.client.async_table import AsyncTable
from penstock.client.async_transport import AsyncTransport
from penstock.client.attempt_failed import AttemptFailed
from penstock.client.calls import Call, ReadRequest, Steps
from penstock.client.client_options import Roll
from penstock.client.close_signal import AsyncCloseSignal
from penstock.client.feature_watching import FeatureWatchState
from penstock.client.following import Follower
from penstock.client.table_watching import TableWatchState
from penstock.client.watching import SessionForgotten, WatchState
from penstock.clock import Clock
from penstock.codec.columns import ColumnsPage
from penstock.errors import Closed, Overloaded, PositionNotFound, TopicNotFound
from penstock.projection_types import GapPolicy, TableInfo
from penstock.types import (
    Appended,
    CaughtUp,
    Claimed,
    Dropped,
    Gap,
    Job,
    JsonPage,
    Page,
    Position,
    QueueCounts,
    Record,
    Redriven,
    Removed,
    RouterInfo,
    Schedule,
    Settled,
    TopicInfo,
)
from penstock.verb_keywords import RedriveKeywords, RouterKeywords
from penstock.wire import binary_batch

T = TypeVar("T")
Consistency = Literal["eventual", "strong"]


class AsyncClient:
    """The verbs of `Log`, over HTTP. Safe from several tasks of one event loop. A context manager:
    leaving it closes the client, and calls in progress in other tasks raise `Closed`."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        attempts_max: int = 8,
        idempotency: bool = True,
        tls: ssl.SSLContext | None = None,
        clock: Clock | None = None,
        roll: Roll | None = None,
    ) -> None:
        self._options = client_options.make(
            url,
            token,
            timeout_s=timeout_s,
            attempts_max=attempts_max,
            idempotency=idempotency,
            tls=tls,
            clock=clock,
            roll=roll,
        )
        self._transport = AsyncTransport(
            self._options.address, self._options.clock, self._options.tls
        )
        self._close_signal = AsyncCloseSignal(self._options.clock)

    def __repr__(self) -> str:
        return f"<penstock.{type(self).__name__} {self._options.source}>"

    def within(self, timeout_s: float) -> AsyncClient:
        """A client with the same options and another `timeout_s`. Both share their connections:
        closing one closes both."""
        other = object.__new__(AsyncClient)
        other._options = dataclasses.replace(self._options, timeout_s=timeout_s)
        other._transport = self._transport
        other._close_signal = self._close_signal
        return other

    # Topics.

    async def create(self, topic: str, **config: Any) -> TopicInfo:
        """Create a topic, or change the configuration of an existing one. Durable on return."""
        return await self._steps(calls.create(topic, config))

    async def drop(self, topic: str) -> bool:
        """Remove a topic and all its records; false when it does not exist."""
        return await self._call(calls.drop(topic))

    async def topics(self, prefix: str = "") -> list[TopicInfo]:
        """All topics whose name starts with `prefix`, sorted by name."""
        return await self._steps(calls.topics(prefix))

    async def topic(self, name: str) -> TopicInfo:
        """The current state and configuration of one topic."""
        return await self._call(calls.topic(name))

    # Records.

    async def append(
        self,
        topic: str,
        records: Sequence[Any],
        *,
        tag: str | None = None,
        node: str | None = None,
        **options: Unpack[AppendKeywords],
    ) -> Appended:
        """Append a batch, all or nothing; returns when the topic's durability class is met.

        Without an `idempotency_key` the client generates one, so that attempts can be repeated.
        When no answer arrives in time, `OutcomeUnknown` is raised and has the key. Records become
        visible, and jobs are delivered, no earlier than `deliver_at` (ms since 1970), or `delay_ms`
        from now. With `cron` (in `timezone`, or UTC) a queue delivers jobs again at each time of
        the cron expression.
        """
        return await self._call(
            calls.append(
                topic,
                records,
                tag=tag,
                node=node,
                options=self._options.append_options(options),
                headers=self._options.trace_headers(),
            )
        )

    async def append_many(
        self,
        writes: calls.Writes,
        *,
        tag: str | None = None,
        node: str | None = None,
        idempotency_key: str | None = None,
        create: bool = True,
        expected_seqs: Mapping[str, int] | None = None,
        **others: Never,
    ) -> list[Appended]:
        """Append to several topics, all or nothing. `writes` are pairs of a topic and its records,
        or a mapping. Returns one `Appended` per topic, in the same order. Durable on return,
        whatever the durability classes of the topics. Such a batch cannot be delayed."""
        refuse_in_batch(others)
        return await self._call(
            calls.append_many(
                writes,
                tag=tag,
                node=node,
                key=self._options.key(idempotency_key),
                create=create,
                expected_seqs=expected_seqs or {},
                headers=self._options.trace_headers(),
            )
        )

    async def read(
        self,
        topic: str,
        after: int = 0,
        limit: int | None = None,
        *,
        node: str | Sequence[str] | None = None,
        tag: Any = None,
        epoch: int | None = None,
        max_bytes: int | None = None,
        from_ts: int | None = None,
        consistency: Consistency = "eventual",
        wait_s: float = 0.0,
    ) -> Page:
        """Records after seq `after`, or from the first record at `from_ts` or later. Records of
        `node` are left out. With `tag`, only records with that tag are returned; a trailing `*`
        matches a prefix. If there are no new records, the server waits up to `wait_s` for one."""
        wanted = ReadRequest(
            after,
            limit,
            node,
            tag,
            epoch,
            max_bytes,
            from_ts,
            consistency == "strong",
            wait_s,
        )
        return await self._call(calls.read(topic, wanted))

    async def read_json(
        self,
        topic: str,
        after: int = 0,
        limit: int | None = None,
        *,
        node: str | Sequence[str] | None = None,
        tag: Any = None,
        epoch: int | None = None,
        max_bytes: int | None = None,
        from_ts: int | None = None,
        wait_s: float = 0.0,
        include_tags: bool = False,
        include_meta: bool = True,
        include_data: bool = True,
    ) -> JsonPage:
        """`read`, with the records as one JSON array in the form of the HTTP API."""
        wanted = ReadRequest(after, limit, node, tag, epoch, max_bytes, from_ts, False, wait_s)
        shown = (
            binary_batch.TAG * include_tags
            | binary_batch.META * include_meta
            | binary_batch.DATA * include_data
        )
        return await self._call(calls.read_json(topic, wanted, shown))

    async def read_columns(
        self,
        topic: str,
        after: int = 0,
        limit: int | None = None,
        *,
        columns: int,
        tag: Any = None,
        epoch: int | None = None,
        max_bytes: int | None = None,
        seq_max: int = (1 << 64) - 1,
    ) -> ColumnsPage:
        """`read`, with the records as columns in Arrow's layout, up to seq `seq_max`. `columns` is
        the sum of column bits of `codec.columns`. Returns only records that are synced to disk."""
        wanted = ReadRequest(after, limit, None, tag, epoch, max_bytes, None, True)
        return await self._call(calls.read_columns(topic, wanted, columns, seq_max))

    async def seek(self, topic: str, ts_ms: int) -> int:
        """The `after` of a read that begins with the first record committed at `ts_ms` or later;
        the head seq when there is no such record."""
        return await self._steps(calls.seek(topic, ts_ms))

    async def delete(
        self,
        topic: str,
        before_seq: int | None = None,
        tag: Any = None,
        *,
        seqs: Sequence[int] = (),
    ) -> Removed:
        """Remove existing records: those below `before_seq`, those with `tag` (a trailing `*`
        matches a prefix), or those in `seqs`. Readers see no gap for them. Durable on return."""
        return await self._call(calls.delete(topic, before_seq, tag, seqs))

    # Following.

    async def follow(
        self,
        topic: str,
        after: int = 0,
        *,
        node: str | Sequence[str] | None = None,
        tag: Any = None,
        from_ts: int | None = None,
        timeout_s: float | None = None,
    ) -> AsyncGenerator[Record | Gap, None]:
        """Every record after `after`, then each new record. Lost records are reported as `Gap`
        values in their place. After the first page it reconnects after lost connections and
        restarts of the server. Ends when the topic is dropped, when the client is closed, or after
        `timeout_s` without a record or gap."""
        clock = self._options.clock
        follower = Follower(
            topic,
            after=after,
            from_ts=from_ts,
            node=node,
            tag=tag,
            timeout_s=timeout_s,
            now=clock.monotonic(),
        )
        while True:
            try:
                page = await self._call(follower.call(clock.monotonic()))
            except (TopicNotFound, Closed):
                if not follower.has_begun:
                    raise
                return
            except Overloaded:  # ConnectionFailed is a subclass
                if not follower.has_begun:
                    raise
                pause_s = self._options.backoff_s(follower.record_failure())
                if follower.is_idle(clock.monotonic()) or await self._close_signal.wait(pause_s):
                    return
                continue
            items = follower.advance(page)
            if items:
                for item in items:
                    yield item
                follower.restart_timeout(clock.monotonic())
            elif follower.is_idle(clock.monotonic()):
                return

    async def watch(
        self,
        topics: str | Sequence[str] | Mapping[str, int | None],
        *,
        node: str | Sequence[str] | None = None,
        tag: Any = None,
        tail: bool = False,
        from_ts: int | None = None,
        timeout_s: float | None = None,
    ) -> AsyncGenerator[tuple[str, Record | Gap | CaughtUp | Dropped], None]:
        """Several topics over one connection, as pairs of a topic and an item: a `Record`, a `Gap`,
        a `CaughtUp` at the end of a backlog, or `Dropped`. A name that ends in `*` matches all
        present and future topics with that prefix. A mapping gives each topic the seq to start
        after; without a seq a topic starts at its beginning, at `from_ts`, or with `tail` at its
        end. Reconnects after lost connections and restarts of the server. Ends when all topics are
        dropped, when the client is closed, or after `timeout_s` without a record, gap or drop."""
        clock = self._options.clock
        watcher = WatchState(
            watching.starts_of(topics),
            source=self._options.source,
            node=node,
            tag=tag,
            tail=tail,
            from_ts=from_ts,
            timeout_s=timeout_s,
            now=clock.monotonic(),
        )
        while not watcher.has_ended():
            try:
                if watcher.stream_url is None:
                    for item in watcher.opened(await self._call(watcher.opening())):
                        yield item
                async with self._stream(watcher) as stream:
                    while piece := await stream.read(watcher.deadline(clock.monotonic())):
                        for item in watcher.feed(piece):
                            yield item
                            watcher.restart_timeout(item, clock.monotonic())
                        if watcher.has_ended():
                            return
            except Closed:
                if not watcher.has_begun:
                    raise
                return
            except (AttemptFailed, Overloaded, SessionForgotten):
                if not watcher.has_begun:
                    raise
            if watcher.is_idle(clock.monotonic()) or await self._close_signal.wait(
                self._options.backoff_s(watcher.record_failure())
            ):
                return

    # Queues.

    async def claim(
        self,
        topic: str,
        node: str,
        max: int = 1,
        *,
        lease_ms: int | None = None,
        wait_s: float = 0.0,
    ) -> Claimed:
        """Lease up to `max` ready jobs of a queue to worker `node`. No other worker gets a job
        before its deadline: acknowledge it or extend the lease until then. If no job is ready, the
        server waits up to `wait_s` for one."""
        return await self._call(queue_calls.claim(topic, node, max, lease_ms, wait_s))

    async def ack(
        self, topic: str, node: str, jobs: Sequence[int | Job], lease_ids: Sequence[str] = ()
    ) -> Settled:
        """Delete jobs that are done. For `Job` values of a claim, the server skips each job that is
        no longer held under the same lease."""
        return await self._call(queue_calls.resolve("ack", topic, node, jobs, lease_ids))

    async def nack(
        self,
        topic: str,
        node: str,
        jobs: Sequence[int | Job],
        lease_ids: Sequence[str] = (),
        *,
        delay_ms: int | None = None,
    ) -> Settled:
        """Return jobs that are not done to the queue. They are ready again after `delay_ms`, or as
        the queue's retry rule says; without either, at once."""
        return await self._call(
            queue_calls.resolve("nack", topic, node, jobs, lease_ids, delay_ms=delay_ms)
        )

    async def extend(
        self,
        topic: str,
        node: str,
        jobs: Sequence[int | Job],
        lease_ids: Sequence[str] = (),
        *,
        lease_ms: int,
    ) -> Settled:
        """Extend the leases of these jobs to `lease_ms` from now."""
        return await self._call(
            queue_calls.resolve("extend", topic, node, jobs, lease_ids, lease_ms=lease_ms)
        )

    async def redrive(
        self,
        topic: str,
        **options: Unpack[RedriveKeywords],
    ) -> Redriven:
        """Move dead letters of `topic` back to their queues, or to `to`: those in `seqs`, those
        with `tag` (a trailing `*` matches a prefix), or all; at most `limit` in one call. A dry run
        moves nothing and returns which jobs would move, and why others would not."""
        return await self._call(queue_calls.redrive(topic, **options))

    async def queue_counts(self, topic: str) -> QueueCounts:
        """The numbers of jobs that are ready, in flight, delayed and dead-lettered so far."""
        return await self._call(queue_calls.counts(topic))

    # Consumers.

    async def move_position(
        self, topic: str, name: str, seq: int, *, epoch: int | None = None
    ) -> Position:
        """Record that consumer `name` has processed all records up to `seq`. Durable on return."""
        return await self._call(calls.move_position(topic, name, seq, epoch))

    async def position(self, topic: str, name: str) -> Position | None:
        """The position of a consumer and its lag; None when it has no position."""
        try:
            return await self._call(calls.position(topic, name))
        except PositionNotFound:
            return None

    async def positions(self, topic: str) -> list[Position]:
        """The positions of all consumers of a topic, sorted by name."""
        return await self._call(calls.positions(topic))

    async def drop_position(self, topic: str, name: str) -> bool:
        """Remove the position of a consumer; false when it has none. Durable on return."""
        return await self._call(calls.drop_position(topic, name))

    async def schedules(self, topic: str) -> list[Schedule]:
        """The recurring jobs of a queue. To stop one, delete it by its seq."""
        return await self._call(queue_calls.schedules(topic))

    # Routers.

    async def create_router(
        self,
        name: str,
        source: str,
        dest: str,
        **rules: Unpack[RouterKeywords],
    ) -> RouterInfo:
        """Create a router, or change the rules of an existing one. It copies every record appended
        to `source` from now on to `dest`. With `filter` it copies only records with that tag; a
        trailing `*` matches a prefix."""
        return await self._call(router_calls.put(name, source, dest, **rules))

    async def router(self, name: str) -> RouterInfo:
        """One router, with its cursor and its lag behind the source."""
        return await self._call(router_calls.get(name))

    async def routers(
        self, prefix: str = "", *, source: str = "", dest: str = ""
    ) -> list[RouterInfo]:
        """All routers, or those with this name prefix, source or destination, sorted by name."""
        return await self._steps(router_calls.every(prefix, source, dest))

    async def drop_router(self, name: str) -> bool:
        """Remove a router; false when it does not exist. The records that it copied stay."""
        return await self._call(router_calls.drop(name))

    # Tables.

    async def table(
        self,
        name: str,
        key: str | None = None,
        *,
        topic: str | None = None,
        on_gap: GapPolicy | None = None,
        bytes_max: int | None = None,
    ) -> AsyncTable:
        """The newest record of each key of a topic. Without a key: the existing table. With one,
        the table is created when it is missing: `key` is a field of the data, `tag` or `node`; the
        topic has the name of the table unless another is named, and need not exist."""
        if key is None:
            await self._call(table_calls.get(name))
        else:
            options = {"topic": topic, "on_gap": on_gap, "bytes_max": bytes_max}
            await self._call(table_calls.put(name, key, options))
        return AsyncTable(self, name)

    async def tables(self, prefix: str = "") -> list[TableInfo]:
        """All tables whose name starts with `prefix`, sorted by name."""
        return await self._steps(table_calls.every(prefix))

    async def drop_table(self, name: str) -> bool:
        """Remove a table; false when there is none. Its topic stays. Durable on return."""
        return await self._call(table_calls.drop(name))

    @property
    def features(self) -> AsyncFeatures:
        """Aggregates per key: register them, push events, get rows."""
        return AsyncFeatures(self)

    @property
    def delayed(self) -> AsyncDelayed:
        """Lists and cancels delayed records."""
        return AsyncDelayed(self)

    # The server.

    async def health(self) -> dict[str, Any]:
        """The version and the uptime of the server."""
        return await self._call(calls.health())

    async def ready(self) -> bool:
        """True when the server has recovered and answers all requests."""
        return await self._call(calls.ready())

    async def stats(self) -> dict[str, Any]:
        """The server's metrics as values."""
        return await self._call(calls.stats())

    async def metrics(self) -> str:
        """The server's metrics as Prometheus text, with those of each topic."""
        return await self._call(calls.metrics())

    async def close(self) -> None:
        """Close all connections. May be called again."""
        if self._transport.is_ours:
            await self._transport.close()
            self._close_signal.set()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _call(self, call: Call[T]) -> T:
        retry = self._options.retry(call)
        request = self._options.request(call)
        while True:
            try:
                response = await self._transport.exchange(request, retry.deadline)
            except AttemptFailed as failed:
                delay_s = retry.after_failure(failed)
            else:
                if retry.is_answer(response):
                    return call.parse(response, self._options.source)
                delay_s = retry.after_error(response)
            if await self._close_signal.wait(delay_s):
                raise self._transport.closed_error()

    async def _steps(self, steps: Steps[T]) -> T:
        try:
            call = next(steps)
            while True:
                call = steps.send(await self._call(call))
        except StopIteration as done:
            answer: T = done.value
            return answer

    @contextlib.asynccontextmanager
    async def _stream(
        self, watcher: WatchState | TableWatchState | FeatureWatchState
    ) -> AsyncIterator[AsyncResponseStream]:
        deadline = self._options.clock.monotonic() + self._options.timeout_s
        request = self._options.stream_request(watcher.stream_url or "", watcher.last_id)
        async with self._transport.stream(request, deadline) as stream:
            if stream.status != 200:
                raise watcher.refused(await stream.rest(deadline))
            yield stream
