"""`/v0/topics/:topic/{claim,ack,nack,extend,work}`: the jobs of a queue."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from penstock.engine.handle import Handle
from penstock.engine.lease_options import check_counts, check_leases, node_name
from penstock.engine.queues import Claimer
from penstock.errors import NotAQueue
from penstock.limits import QUEUE_JOBS_MAX
from penstock.server.claims import Claims
from penstock.server.errors import name_forbidden, not_acceptable
from penstock.server.http import bodies
from penstock.server.http.message import EVENTS, Request, Response
from penstock.server.http.topics import elapsed_ms, performance
from penstock.server.http.watches import HEADERS
from penstock.server.key_limits import OpenStreams
from penstock.server.service import Service
from penstock.server.worker_stream import WorkerStream
from penstock.topics import validation
from penstock.types import Settled
from penstock.wire.answers import (
    AckAnswer,
    ClaimAnswer,
    ExtendAnswer,
    NackAnswer,
    RedriveAnswer,
    ScheduleListAnswer,
    ScheduleRow,
    SyncPerformance,
)
from penstock.wire.jobs import view_of
from penstock.wire.models import ClaimBody, ExtendBody, NackBody, RedriveBody, SettleBody

_CLAIM = msgspec.json.Decoder(ClaimBody)
_ACK = msgspec.json.Decoder(SettleBody)
_NACK = msgspec.json.Decoder(NackBody)
_REDRIVE = msgspec.json.Decoder(RedriveBody)
_EXTEND = msgspec.json.Decoder(ExtendBody)
_encode = msgspec.json.Encoder().encode
WAIT_MS_MAX: Final = 30_000


class QueueHandlers:
    """Handlers of queues. Event loop only."""

    def __init__(self, service: Service, claims: Claims, open_streams: OpenStreams) -> None:
        self._service = service
        self._claims = claims
        self._open_streams = open_streams
        self.streams: set[WorkerStream] = set()

    async def claim(self, request: Request) -> Response:
        body = bodies.decoded(request, _CLAIM, empty=b"")
        handle = self._queue(request.params[0])
        claimer = Claimer(node_name(body.node), min(body.max, QUEUE_JOBS_MAX) or 1, body.lease_ms)
        self._service.touch(handle)
        if body.wait_ms:
            wait_ms = min(body.wait_ms, WAIT_MS_MAX)
            claimed = await self._claims.claim_within(handle, claimer, wait_ms)
        else:
            claimed = await self._claims.claim(handle, claimer)
        answer = ClaimAnswer(
            topic=claimed.topic,
            claimed=[view_of(job) for job in claimed.jobs],
            count=len(claimed.jobs),
            ready=claimed.ready,
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    async def ack(self, request: Request) -> Response:
        body = self._settling(bodies.decoded(request, _ACK))
        handle = self._queue(request.params[0])
        settled = await self._claims.settle(
            self._service.core.queues.submit_ack, handle, body.node, body.seqs, body.lease_ids or ()
        )
        answer = AckAnswer(
            topic=settled.topic,
            acked=settled.done,
            skipped=settled.skipped,
            ready=settled.ready,
            in_flight=settled.in_flight,
            performance=self._performance(request, settled),
        )
        return Response(200, _encode(answer))

    async def nack(self, request: Request) -> Response:
        body = self._settling(bodies.decoded(request, _NACK))
        handle = self._queue(request.params[0])
        settled = await self._claims.settle(
            self._service.core.queues.submit_nack,
            handle,
            body.node,
            body.seqs,
            body.lease_ids or (),
            delay_ms=body.delay_ms,
        )
        answer = NackAnswer(
            topic=settled.topic,
            nacked=settled.done,
            skipped=settled.skipped,
            ready=settled.ready,
            in_flight=settled.in_flight,
            performance=self._performance(request, settled),
        )
        return Response(200, _encode(answer))

    async def extend(self, request: Request) -> Response:
        body = self._settling(bodies.decoded(request, _EXTEND))
        handle = self._queue(request.params[0])
        settled: Settled = await self._service.submit(
            self._service.core.queues.submit_extend,
            handle,
            body.node,
            body.seqs,
            body.lease_ids or (),
            lease_ms=body.lease_ms,
        )
        answer = ExtendAnswer(
            topic=settled.topic,
            extended=settled.done,
            skipped=settled.skipped,
            deadlines={str(seq): until for seq, until in settled.deadlines.items()},
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    async def redrive(self, request: Request) -> Response:
        body = bodies.decoded(request, _REDRIVE, empty=b"{}")
        handle = self._service.handle(request.params[0])
        key = request.key
        if body.to is not None and not key.may_name(body.to):
            raise name_forbidden(body.to)
        bodies.check_seqs(body.seqs)
        found = await self._service.run(
            self._service.core.redrive,
            handle,
            to=body.to,
            seqs=body.seqs,
            tag=body.match,
            after=body.after,
            limit=min(body.limit, QUEUE_JOBS_MAX) or 1,
            dry_run=body.dry_run,
            may_go=key.may_name,
        )
        answer = RedriveAnswer(
            topic=found.topic,
            moved=found.moved,
            failed={str(seq): why for seq, why in found.failed.items()},
            next_seq=found.next_seq,
            done=found.is_done,
            dry_run=body.dry_run,
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    async def schedules(self, request: Request) -> Response:
        handle = self._queue(request.params[0])
        found = await self._service.run(self._service.core.queues.schedules, handle)
        answer = ScheduleListAnswer(
            topic=handle.name,
            schedules=[
                ScheduleRow(seq=one.seq, cron=one.cron, timezone=one.timezone, due=one.due)
                for one in found
            ],
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    def work(self, request: Request) -> None:
        accept = request.headers.get(b"accept", b"")
        if accept and EVENTS not in accept and b"*/*" not in accept:
            raise not_acceptable(accept)
        node = node_name(request.query("node") or "")
        handle = self._queue(request.params[0])
        most = max(1, min(QUEUE_JOBS_MAX, request.number("max", 1)))
        lease_ms = request.number("lease_ms", 0) or None
        self._open_streams.enter(request.key)
        stream = request.exchange.start_stream(HEADERS)
        claimer = Claimer(node, most, lease_ms)
        key = request.key

        def ended(work: WorkerStream) -> None:
            self.streams.discard(work)
            self._open_streams.leave(key)

        work = WorkerStream(self._service, self._claims, handle, claimer, stream, ended)
        if not work.is_over:
            self.streams.add(work)

    def _queue(self, topic: str) -> Handle:
        handle = self._service.handle(topic)
        if handle.config.type != "queue":
            raise NotAQueue(topic)
        return handle

    def _settling(self, body: Any) -> Any:
        """Check the body alone, before the topic."""
        check_leases(body.lease_ids or ())
        node_name(body.node)
        bodies.check_seqs(body.seqs)
        check_counts(body.seqs, body.lease_ids or ())
        validation.check_seqs(body.seqs)
        return body

    def _performance(self, request: Request, settled: Settled) -> SyncPerformance:
        cost = SyncPerformance(server_total_ms=elapsed_ms(self._service, request))
        if settled.fsync_ms:  # a measured sync must not be rounded to zero
            cost.fsync_ms = max(0.001, round(settled.fsync_ms, 3))
        return cost
