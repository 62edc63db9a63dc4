"""Requests of one TCP connection in the order of their arrival: frames in, bytes out.

Pushes that stand one behind the other are one commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.compat.beava import frames
from penstock.compat.beava.bodies import (
    BatchGetBody,
    GetBody,
    GetMultiBody,
    MgetBody,
    event_of_push,
    read_of,
)
from penstock.compat.beava.frames import JSON, MSGPACK, BeavaFrame, encoded
from penstock.compat.beava.pusher import Acked
from penstock.compat.beava.replies import BeavaError, json_of, msgpack_of, push_answer
from penstock.compat.beava.verbs import BeavaVerbs
from penstock.feature_types import PushSync

_PUSHES: Final[Mapping[int, PushSync | None]] = {
    frames.PUSH: None,
    frames.PUSH_SYNC: "per_event",
}
_UNSUPPORTED: Final = encoded(frames.ERROR, b'{"code":"unsupported"}')


class FrameVerbs:
    """Event loop only. `server_version` is what a ping is told."""

    def __init__(self, verbs: BeavaVerbs, server_version: str) -> None:
        self._verbs = verbs
        self._server_version = server_version

    async def answers(self, requests: Sequence[BeavaFrame]) -> bytes:
        """The answers to these requests, in their order."""
        found: list[bytes] = []
        at = 0
        while at < len(requests):
            op = requests[at].op
            end = at + 1
            if op in _PUSHES:
                while end < len(requests) and requests[end].op == op:
                    end += 1
                found += await self._pushed(op, requests[at:end])
            else:
                found.append(await self._answer(requests[at]))
            at = end
        return b"".join(found)

    async def _pushed(self, op: int, pushes: Sequence[BeavaFrame]) -> list[bytes]:
        answers = [_UNSUPPORTED] * len(pushes)
        by_event: dict[str, tuple[list[int], list[bytes]]] = {}
        for at, frame in enumerate(pushes):
            if frame.content_type not in (JSON, MSGPACK):
                answers[at] = _error(_bad_content_type(frame))
                continue
            push = event_of_push(frame.payload, is_packed=frame.content_type == MSGPACK)
            if push is not None:
                places, datas = by_event.setdefault(push[0], ([], []))
                places.append(at)
                datas.append(push[1])
        sync = _PUSHES[op]
        pusher = self._verbs.pusher
        acked = await asyncio.gather(
            *[pusher.push_many(event, datas, sync) for event, (_, datas) in by_event.items()]
        )
        for (places, _), group in zip(by_event.values(), acked, strict=True):
            for at, one in zip(places, group, strict=True):
                answers[at] = _acked(op, one) if isinstance(one, Acked) else _error(one)
        return answers

    async def _answer(self, frame: BeavaFrame) -> bytes:
        try:
            return await self._read_or_changed(frame)
        except BeavaError as error:
            return _error(error)

    async def _read_or_changed(self, frame: BeavaFrame) -> bytes:
        verbs, op = self._verbs, frame.op
        if op == frames.PING:
            version = {"server_version": self._server_version, "registry_version": verbs.version}
            return encoded(op, json_of(version))
        if op == frames.RESET:
            return encoded(frames.GET_ANSWER, json_of(await verbs.registrar.reset()))
        if op == frames.REGISTER:
            if frame.content_type != JSON:
                raise _bad_content_type(frame)
            return encoded(op, json_of(await verbs.registrar.register(frame.payload)))
        if op not in _READS:
            why = f"opcode 0x{op:04x} is not recognised by this server"
            raise BeavaError(400, "unknown_op", op=op, message=why)
        if frame.content_type not in (JSON, MSGPACK):
            raise _bad_content_type(frame)
        is_packed = frame.content_type == MSGPACK
        body = read_of(_READS[op], frame.payload, is_packed=is_packed)
        answer = await self._rows(body)
        if is_packed and op != frames.BATCH_GET:
            return encoded(frames.GET_ANSWER, msgpack_of(answer), MSGPACK)
        return encoded(frames.GET_ANSWER, json_of(answer))

    async def _rows(self, body: Any) -> Mapping[str, Any]:
        reader = self._verbs.reader
        if isinstance(body, GetBody):
            return await reader.get(body)
        if isinstance(body, BatchGetBody):
            return await reader.batch_get(body)
        if isinstance(body, MgetBody):
            return await reader.multi([body.feature], body.keys)
        return await reader.multi(body.features, body.keys)


_READS: Final[Mapping[int, type[Any]]] = {
    frames.GET: GetBody,
    frames.BATCH_GET: BatchGetBody,
    frames.MGET: MgetBody,
    frames.GET_MULTI: GetMultiBody,
}


def _acked(op: int, acked: Acked) -> bytes:
    return encoded(op, push_answer(acked.seq, acked.version, is_replay=acked.is_replay))


def _error(error: BeavaError) -> bytes:
    return encoded(frames.ERROR, json_of(error.body()))


def _bad_content_type(frame: BeavaFrame) -> BeavaError:
    why = f"unsupported content_type: 0x{frame.content_type:02x}"
    return BeavaError(400, "unsupported_content_type", message=why)
