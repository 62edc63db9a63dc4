"""`POST /v0/batch`: atomic appends to several topics."""

from __future__ import annotations

import msgspec

from penstock import limits
from penstock.engine.batch import Batch
from penstock.server.appends import TopicWrite
from penstock.server.auth import Scope
from penstock.server.errors import admin_needed, invalid, name_forbidden
from penstock.server.http import bodies
from penstock.server.http.idempotency_keys import key_of, key_of_part
from penstock.server.http.message import Request, Response
from penstock.server.http.topics import performance
from penstock.server.http.writes import batch_of
from penstock.server.service import Service
from penstock.topics import validation
from penstock.types import Appended
from penstock.wire.answers import AppendRow, BatchAnswer
from penstock.wire.models import BatchBody, BatchWriteBody

_BODY = msgspec.json.Decoder(BatchBody)
_encode = msgspec.json.Encoder().encode


class BatchHandlers:
    """Event loop only."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def append(self, request: Request) -> Response:
        bodies.check_count(request.body, limits.BATCH_WRITES_MAX * limits.BATCH_RECORDS_MAX)
        body = bodies.decoded(request, _BODY)
        writes = body.writes
        if not 1 <= len(writes) <= limits.BATCH_WRITES_MAX:
            raise invalid(
                f"{len(writes)} writes in one batch: expected 1 to {limits.BATCH_WRITES_MAX}"
            )
        names = [write.topic for write in writes]
        twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
        if twice is not None:
            raise invalid(
                f"topic {twice!r} occurs twice in one batch: join its records in one write"
            )
        key = key_of(body.idempotency_key, request)
        for write in writes:
            self._check(request, write)
        batches = [_keyed(batch_of(one, one.records, request), key, one.topic) for one in writes]
        answers = await self._service.append_batch(
            [
                TopicWrite(write.topic, batch, write)
                for write, batch in zip(writes, batches, strict=True)
            ]
        )
        answer = BatchAnswer(
            results=[_row(one) for one in answers],
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    def _check(self, request: Request, write: BatchWriteBody) -> None:
        validation.topic_name(write.topic)
        if not request.key.may_name(write.topic):
            raise name_forbidden(write.topic)
        bodies.check_names(request.key, write.config)
        is_new = self._service.config_of(write.topic) is None
        if write.config is not None and is_new and not request.key.may(Scope.ADMIN):
            raise admin_needed(write.topic)
        if write.is_for_later:
            raise invalid(
                f"topic {write.topic!r}: a batch over several topics cannot be delayed: append to "
                "each topic with POST /v0/topics/:topic, which takes deliver_at, delay_ms and cron"
            )
        if write.idempotency_key is not None:
            raise invalid(
                f"topic {write.topic!r}: idempotency_key is not allowed inside writes; "
                "set the one of the batch"
            )


def _keyed(batch: Batch, key: bytes, topic: str) -> Batch:
    return msgspec.structs.replace(batch, key=key_of_part(key, topic))


def _row(answer: Appended) -> AppendRow:
    return AppendRow(
        topic=answer.topic,
        first_seq=answer.first_seq,
        last_seq=answer.last_seq,
        count=answer.count,
        head_seq=answer.head_seq,
        epoch=answer.epoch,
        ts=answer.ts,
        created=answer.created,
        deduped=answer.deduped,
    )
