"""The client for threads. Each verb is a few lines: what it means is in `calls`."""

from __future__ import annotations

import contextlib
import dataclasses
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar

from penstock.client import calls, profile, routing, watching
from penstock.client import jobs as jobs_
from penstock.client.calls import Call, Steps, Wanted
from penstock.client.following import Follower
from penstock.client.profile import Roll
from penstock.client.transport import AttemptFailed, SocketTransport, Stream
from penstock.client.watching import SessionForgotten, Watcher
from penstock.clock import Clock
from penstock.errors import Closed, Overloaded, PositionNotFound, TopicNotFound
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
from penstock.wire import batch
from penstock.wire.columns import ColumnsPage

T = TypeVar("T")
Consistency = Literal["eventual", "strong"]


def connect(
    url: str,
    token: str | None = None,
    *,
    timeout_s: float = 30.0,
    attempts_max: int = 8,
    idempotency: bool = True,
    tls: ssl.SSLContext | None = None,
    clock: Clock | None = None,
    roll: Roll | None = None,
) -> Client:
    """A client of the server at `http://host:port` or `https://…`. Nothing is sent yet.

    `timeout_s` bounds every call as a whole, all its attempts included. `idempotency` gives each
    append a key of its own, so that it can be repeated without being taken twice.
    """
    return Client(
        url,
        token,
        timeout_s=timeout_s,
        attempts_max=attempts_max,
        idempotency=idempotency,
        tls=tls,
        clock=clock,
        roll=roll,
    )


class Client:
    """The verbs of `Log`, over HTTP. Safe from several threads. A context manager: leaving it
    closes the client, and calls under way in other threads raise `Closed`."""

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
        self._profile = profile.make(
            url,
            token,
            timeout_s=timeout_s,
            attempts_max=attempts_max,
            idempotency=idempotency,
            tls=tls,
            clock=clock,
            roll=roll,
        )
        self._transport = SocketTransport(
            self._profile.address, self._profile.clock, self._profile.tls
        )
        self._pausing = threading.Condition()

    def __repr__(self) -> str:
        return f"<penstock.Client {self._profile.source}>"

    def within(self, timeout_s: float) -> Client:
        """The same client with another deadline for each call. Connections are shared: closing
        one closes both."""
        other = object.__new__(Client)
        other._profile = dataclasses.replace(self._profile, timeout_s=timeout_s)
        other._transport = self._transport
        other._pausing = self._pausing
        return other

    # Topics.

    def create(self, topic: str, **config: Any) -> TopicInfo:
        """Create a topic, or give an existing one this configuration. Durable on return."""
        return self._steps(calls.create(topic, config))

    def drop(self, topic: str) -> bool:
        """Remove a topic with everything in it; false when there is none."""
        return self._call(calls.drop(topic))

    def topics(self, prefix: str = "") -> list[TopicInfo]:
        """All topics whose name starts with `prefix`, sorted by name."""
        return self._steps(calls.topics(prefix))

    def topic(self, name: str) -> TopicInfo:
        """One topic as of now."""
        return self._call(calls.topic(name))

    # Records.

    def append(
        self,
        topic: str,
        records: Sequence[Any],
        *,
        tag: str | None = None,
        node: str | None = None,
        idempotency_key: str | None = None,
        create: bool = True,
        expected_seq: int | None = None,
        deliver_at: int | None = None,
        delay_ms: int | None = None,
        cron: str | None = None,
        timezone: str | None = None,
    ) -> Appended:
        """Append a batch, all or nothing; returns when the topic's durability class is met.

        Without an `idempotency_key` one is made up, so that attempts can be repeated. When no
        answer comes in time the outcome is unknown, and `OutcomeUnknown` has the key. Jobs of a
        queue are handed out no earlier than `deliver_at` (ms since 1970), or `delay_ms` from now;
        with `cron` (in `timezone`, or UTC) they come again at each of its times.
        """
        return self._call(
            calls.append(
                topic,
                records,
                tag=tag,
                node=node,
                key=self._profile.key(idempotency_key),
                create=create,
                expected_seq=expected_seq,
                due=calls.due(deliver_at, delay_ms, cron, timezone),
                headers=self._profile.trace_headers(),
            )
        )

    def append_many(
        self,
        writes: calls.Writes,
        *,
        tag: str | None = None,
        node: str | None = None,
        idempotency_key: str | None = None,
        create: bool = True,
        expected_seqs: Mapping[str, int] | None = None,
    ) -> list[Appended]:
        """Append to several topics, everything or nothing. `writes` are pairs of a topic and its
        records, or a mapping. One answer a topic, in the same order. Durable on return, whatever
        the classes of the topics."""
        return self._call(
            calls.append_many(
                writes,
                tag=tag,
                node=node,
                key=self._profile.key(idempotency_key),
                create=create,
                expected_seqs=expected_seqs or {},
                headers=self._profile.trace_headers(),
            )
        )

    def read(
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
        """Records past seq `after`, or from the first at `from_ts` or later. Those of `node` are
        left out, and with `tag` (a trailing `*` is a prefix) those that have another or none.
        When there is nothing new the server waits up to `wait_s` for it."""
        wanted = Wanted(
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
        return self._call(calls.read(topic, wanted))

    def read_json(
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
        """The same with the records as one JSON array, as the HTTP API spells them."""
        wanted = Wanted(after, limit, node, tag, epoch, max_bytes, from_ts, False, wait_s)
        shown = batch.TAG * include_tags | batch.META * include_meta | batch.DATA * include_data
        return self._call(calls.read_json(topic, wanted, shown))

    def read_columns(
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
        """The same column by column, laid out as Arrow has them, without records past `seq_max`;
        `columns` are those of `codec.columns`, added up. Only what is past a sync is given."""
        wanted = Wanted(after, limit, None, tag, epoch, max_bytes, None, True)
        return self._call(calls.read_columns(topic, wanted, columns, seq_max))

    def seek(self, topic: str, ts_ms: int) -> int:
        """The `after` from which a read begins with the first record committed at `ts_ms` or
        later; the head when there is none."""
        return self._steps(calls.seek(topic, ts_ms))

    def delete(
        self,
        topic: str,
        before_seq: int | None = None,
        tag: Any = None,
        *,
        seqs: Sequence[int] = (),
    ) -> Removed:
        """Remove for good what exists now and lies below `before_seq`, has this tag (a trailing
        `*` is a prefix), or is one of `seqs`. Silent for readers; durable on return."""
        return self._call(calls.delete(topic, before_seq, tag, seqs))

    # Following.

    def follow(
        self,
        topic: str,
        after: int = 0,
        *,
        node: str | Sequence[str] | None = None,
        tag: Any = None,
        from_ts: int | None = None,
        timeout_s: float | None = None,
    ) -> Iterator[Record | Gap]:
        """Every record past `after`, then each new one as it becomes visible. Gaps come as
        `Gap` values in their place. Once it has begun it goes on through lost connections and
        restarts of the server. Ends when the topic is dropped or the client closed, or after
        `timeout_s` without anything new."""
        clock = self._profile.clock
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
                page = self._call(follower.call(clock.monotonic()))
            except (TopicNotFound, Closed):
                if not follower.has_begun:
                    raise
                return
            except Overloaded:  # a lost connection is one, too
                if not follower.has_begun:
                    raise
                pause_s = self._profile.backoff_s(follower.lost())
                if follower.is_idle(clock.monotonic()) or not self._pause(pause_s):
                    return
                continue
            items = follower.take(page)
            if items:
                yield from items
                follower.rest(clock.monotonic())
            elif follower.is_idle(clock.monotonic()):
                return

    def watch(
        self,
        topics: str | Sequence[str] | Mapping[str, int | None],
        *,
        node: str | Sequence[str] | None = None,
        tag: Any = None,
        tail: bool = False,
        from_ts: int | None = None,
        timeout_s: float | None = None,
    ) -> Iterator[tuple[str, Record | Gap | CaughtUp | Dropped]]:
        """Several topics at once, as (topic, what): a `Record`, a `Gap` in its place, `CaughtUp`
        at each end of a backlog, `Dropped`. A name that ends in `*` is a prefix of present and
        future names. A mapping gives each its seq to start past; without one a topic starts at
        its beginning, at `from_ts`, or with `tail` at its end. Goes on through lost connections
        and restarts of the server. Ends when all topics are dropped, the client is closed, or
        after `timeout_s` without a record, gap or drop."""
        clock = self._profile.clock
        watcher = Watcher(
            watching.starts_of(topics),
            source=self._profile.source,
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
                    for item in watcher.opened(self._call(watcher.opening())):
                        yield item
                with self._stream(watcher) as stream:
                    while piece := stream.read(watcher.deadline(clock.monotonic())):
                        for item in watcher.feed(piece):
                            yield item
                            watcher.rest(item, clock.monotonic())
                        if watcher.has_ended():
                            return
            except Closed:
                if not watcher.has_begun:
                    raise
                return
            except (AttemptFailed, Overloaded, SessionForgotten):
                if not watcher.has_begun:
                    raise
            if watcher.is_idle(clock.monotonic()) or not self._pause(
                self._profile.backoff_s(watcher.lost())
            ):
                return

    # Queues.

    def claim(
        self,
        topic: str,
        node: str,
        max: int = 1,
        *,
        lease_ms: int | None = None,
        wait_s: float = 0.0,
    ) -> Claimed:
        """Lease up to `max` ready jobs of a queue to worker `node`. Each is nobody else's until
        its deadline; acknowledge it before, or extend the lease. When there is none the server
        waits up to `wait_s` for one."""
        return self._call(jobs_.claim(topic, node, max, lease_ms, wait_s))

    def ack(
        self, topic: str, node: str, jobs: Sequence[int | Job], lease_ids: Sequence[str] = ()
    ) -> Settled:
        """These jobs are done: they are deleted. Give the `Job` values of the claim: then only what
        is still held under that very lease counts, and the rest is skipped."""
        return self._call(jobs_.settle("ack", topic, node, jobs, lease_ids))

    def nack(
        self,
        topic: str,
        node: str,
        jobs: Sequence[int | Job],
        lease_ids: Sequence[str] = (),
        *,
        delay_ms: int | None = None,
    ) -> Settled:
        """These jobs are not done: they are ready again `delay_ms` from now, or when the queue's
        retry rule says; without one, at once."""
        return self._call(jobs_.settle("nack", topic, node, jobs, lease_ids, delay_ms=delay_ms))

    def extend(
        self,
        topic: str,
        node: str,
        jobs: Sequence[int | Job],
        lease_ids: Sequence[str] = (),
        *,
        lease_ms: int,
    ) -> Settled:
        """Keep these jobs for `lease_ms` from now."""
        return self._call(jobs_.settle("extend", topic, node, jobs, lease_ids, lease_ms=lease_ms))

    def redrive(
        self,
        topic: str,
        *,
        to: str | None = None,
        seqs: Sequence[int] = (),
        tag: Any = None,
        after: int = 0,
        limit: int = 100,
        dry_run: bool = False,
    ) -> Redriven:
        """Move dead letters of `topic` back to the queues they came from, or to `to`: those in
        `seqs`, those with this tag (a trailing `*` is a prefix), or all; at most `limit` in one
        call. A dry run says what would go, and why others would not."""
        return self._call(
            jobs_.redrive(
                topic, to=to, seqs=seqs, tag=tag, after=after, limit=limit, dry_run=dry_run
            )
        )

    def queue_counts(self, topic: str) -> QueueCounts:
        """How many jobs are ready, in flight, put off, and dead-lettered so far."""
        return self._call(jobs_.counts(topic))

    # Consumers.

    def move_position(
        self, topic: str, name: str, seq: int, *, epoch: int | None = None
    ) -> Position:
        """Note that consumer `name` has dealt with everything up to `seq`. Durable on return."""
        return self._call(calls.move_position(topic, name, seq, epoch))

    def position(self, topic: str, name: str) -> Position | None:
        """Where this consumer stands, and how far behind that is; None when it never moved."""
        try:
            return self._call(calls.position(topic, name))
        except PositionNotFound:
            return None

    def positions(self, topic: str) -> list[Position]:
        """All of the topic, sorted by name."""
        return self._call(calls.positions(topic))

    def drop_position(self, topic: str, name: str) -> bool:
        """Forget a consumer; false when there is none of this name. Durable on return."""
        return self._call(calls.drop_position(topic, name))

    def schedules(self, topic: str) -> list[Schedule]:
        """The recurring jobs of a queue. Delete one by its seq, and it comes no more."""
        return self._call(jobs_.schedules(topic))

    # Routers.

    def create_router(
        self,
        name: str,
        source: str,
        dest: str,
        *,
        filter: Any = None,
        preserve_node: bool = True,
        preserve_tag: bool = True,
        allow_cycle: bool = False,
        exactly_once: bool = False,
        create_dest: bool = True,
    ) -> RouterInfo:
        """Copy what is appended to `source` from now on into `dest`, or give an existing router
        these rules. With `filter` (a trailing `*` is a prefix) only records with such a tag."""
        rules = routing.rules_of(
            source,
            dest,
            filter=filter,
            preserve_node=preserve_node,
            preserve_tag=preserve_tag,
            allow_cycle=allow_cycle,
            exactly_once=exactly_once,
            create_dest=create_dest,
        )
        return self._call(routing.put(name, rules))

    def router(self, name: str) -> RouterInfo:
        """One router, up to date with what its source has now."""
        return self._call(routing.get(name))

    def routers(self, prefix: str = "", *, source: str = "", dest: str = "") -> list[RouterInfo]:
        """All routers, or those of this name, source or destination, sorted by name."""
        return self._steps(routing.every(prefix, source, dest))

    def drop_router(self, name: str) -> bool:
        """Remove a router; false when there is none. What it copied stays."""
        return self._call(routing.drop(name))

    # The server.

    def health(self) -> dict[str, Any]:
        """Is anybody there? Version and uptime."""
        return self._call(calls.health())

    def ready(self) -> bool:
        """Has the server recovered, so that it answers everything?"""
        return self._call(calls.ready())

    def stats(self) -> dict[str, Any]:
        """The server's figures as values."""
        return self._call(calls.stats())

    def metrics(self) -> str:
        """The same as Prometheus text, with those of each topic."""
        return self._call(calls.metrics())

    def close(self) -> None:
        """Let go of all connections. May be repeated."""
        if not self._transport.is_ours:
            return
        self._transport.close()
        with self._pausing:
            self._pausing.notify_all()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Inside.

    def _call(self, call: Call[T]) -> T:
        trial = self._profile.trial(call)
        request = self._profile.request(call)
        while True:
            try:
                response = self._transport.exchange(request, trial.deadline)
            except AttemptFailed as failed:
                delay = trial.after_failure(failed)
            else:
                if trial.is_answer(response):
                    return call.parse(response, self._profile.source)
                delay = trial.after_error(response)
            if not self._pause(delay):
                raise self._transport.closed_error()

    def _steps(self, steps: Steps[T]) -> T:
        try:
            call = next(steps)
            while True:
                call = steps.send(self._call(call))
        except StopIteration as done:
            answer: T = done.value
            return answer

    @contextlib.contextmanager
    def _stream(self, watcher: Watcher) -> Iterator[Stream]:
        deadline = self._profile.clock.monotonic() + self._profile.timeout_s
        request = self._profile.stream_request(watcher.stream_url or "", watcher.last_id)
        with self._transport.stream(request, deadline) as stream:
            if stream.status != 200:
                raise watcher.refused(stream.rest(deadline))
            yield stream

    def _pause(self, delay_s: float) -> bool:
        """Wait; false when the client was closed."""
        with self._pausing:
            if not self._transport.is_closed:
                self._profile.clock.wait(self._pausing, delay_s)
            return not self._transport.is_closed
