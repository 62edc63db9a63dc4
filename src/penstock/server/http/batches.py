"""`POST /v0/batch`: appends to several topics, everything or nothing."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from penstock import limits
from penstock.engine.batch import Batch
from penstock.engine.multi import Part
from penstock.server.auth import Scope
from penstock.server.errors import forbidden, invalid
from penstock.server.http import bodies
from penstock.server.http.message import Request, Response
from penstock.server.http.topics import performance
from penstock.server.http.writes import batch_of, ensure, key_of
from penstock.server.service import Service
from penstock.topics import names
from penstock.types import Appended
from penstock.wire.models import BatchBody, TopicWriteBody

_BODY = msgspec.json.Decoder(BatchBody)
_encode = msgspec.json.Encoder().encode
WRITES_MAX: Final = 64


class Batches:
    """Event loop only."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def append(self, request: Request) -> Response:
        bodies.check_count(request.body, WRITES_MAX * limits.BATCH_RECORDS_MAX)
        body = bodies.decoded(request, _BODY)
        writes = body.writes
        if not 1 <= len(writes) <= WRITES_MAX:
            raise invalid(f"a batch has 1 to {WRITES_MAX} writes, not {len(writes)}")
        if len({write.topic for write in writes}) < len(writes):
            raise invalid("a batch names each topic once")
        key = key_of(body.idempotency_key, request)
        for write in writes:
            self._check(request, write)
        batches = [_keyed(batch_of(one, one.records, request), key, one.topic) for one in writes]
        created = [await self._ensure(write) for write in writes]
        parts = [
            Part(self._service.handle(write.topic), batch, is_new, write.expected_seq)
            for write, batch, is_new in zip(writes, batches, created, strict=True)
        ]
        answers = await self._service.append_parts(parts)
        answer = {
            "results": [_fields(one) for one in answers],
            "performance": performance(self._service, request),
        }
        return Response(200, _encode(answer))

    def _check(self, request: Request, write: TopicWriteBody) -> None:
        names.topic_name(write.topic)
        if not request.key.may_name(write.topic):
            raise forbidden("this key may not use that name", write.topic)
        bodies.check_names(request.key, write.config)
        is_new = self._service.log.find(write.topic) is None
        if write.config is not None and is_new and not request.key.may(Scope.ADMIN):
            raise forbidden(
                "creating a topic with a configuration needs the admin scope", write.topic
            )
        if write.is_for_later:
            raise invalid("jobs of a batch over several topics cannot be put off")
        if write.idempotency_key is not None:
            raise invalid("a batch has one idempotency_key for all its writes")

    async def _ensure(self, write: TopicWriteBody) -> bool:
        if self._service.log.find(write.topic) is not None:
            return False
        return await ensure(self._service, write.topic, write)


def _keyed(batch: Batch, key: bytes, topic: str) -> Batch:
    """Each part remembers a key of its own, so that a retry finds all of them."""
    if not key:
        return msgspec.structs.replace(batch, key=b"")
    return msgspec.structs.replace(
        batch, key=hashlib.sha256(b"%b\0%b" % (key, topic.encode())).hexdigest().encode()
    )


def _fields(answer: Appended) -> dict[str, Any]:
    return {
        "topic": answer.topic,
        "first_seq": answer.first_seq,
        "last_seq": answer.last_seq,
        "count": answer.count,
        "head_seq": answer.head_seq,
        "epoch": answer.epoch,
        "ts": answer.ts,
        "created": answer.created,
        "deduped": answer.deduped,
    }
