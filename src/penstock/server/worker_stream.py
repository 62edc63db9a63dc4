"""A worker on an open connection: jobs are pushed to it up to its maximum of leases."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from penstock.engine.handle import Handle
from penstock.engine.queues import Claimer
from penstock.errors import NotAQueue, TopicNotFound
from penstock.server.claims import Claims, JobWatch
from penstock.server.http.message import StreamResponse
from penstock.server.service import Service
from penstock.types import Job
from penstock.wire.jobs import event_of

_log = logging.getLogger("penstock.server")
_encode = msgspec.json.Encoder().encode
_RETRY: Final = b"retry: 2000\n\n"
_HEARTBEAT: Final = b": hb\n\n"
_REFILL_S: Final = 0.25
_HEARTBEAT_S: Final = 15.0


class WorkerStream:
    """Keeps up to `claimer.most` leases on its connection, and releases them when it closes. Event
    loop only."""

    def __init__(
        self,
        service: Service,
        claims: Claims,
        handle: Handle,
        claimer: Claimer,
        stream: StreamResponse,
        on_end: Callable[[WorkerStream], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._service = service
        self._claims = claims
        self._handle = handle
        self._claimer = claimer
        self._stream = stream
        self._on_end = on_end
        self._held: dict[int, str] = {}  # seq -> lease id, of what was pushed here
        self._task: asyncio.Task[None] | None = None
        self._sent_s = self._loop.time()
        self.is_over = False
        stream.on_close = self.end
        stream.on_drain = self._refill
        self._watch = JobWatch(service, claims, handle, self._refill)
        self._timer = self._loop.call_later(_REFILL_S, self._beat)
        self._send(_RETRY)
        self._refill()

    def finish(self, code: str, message: str) -> None:
        """Say why, and close in order."""
        self._fail({"code": code, "message": message, "topic": self._handle.name})

    def end(self) -> None:
        """The connection is closed or about to close. May be called again."""
        if self.is_over:
            return
        self.is_over = True
        self._timer.cancel()
        self._watch.close()
        self._on_end(self)
        if self._task is None:
            self._give_back()  # otherwise when the claim under way is answered

    def _refill(self) -> None:
        if self._task is None and not self.is_over and not self._stream.is_full:
            room = self._claimer.most - self._outstanding()
            if room > 0:
                self._task = asyncio.ensure_future(self._claim(room))

    def _outstanding(self) -> int:
        """How many of the pushed jobs are still leased to this connection."""
        if self._held:
            with contextlib.suppress(TopicNotFound, NotAQueue):  # the claim will say so
                self._held = self._service.core.queues.still_held(
                    self._handle, self._claimer.node, self._held
                )
        return len(self._held)

    async def _claim(self, room: int) -> None:
        claimer = Claimer(self._claimer.node, room, self._claimer.lease_ms)
        try:
            claimed = await self._claims.claim(self._handle, claimer)
        except (TopicNotFound, NotAQueue) as error:
            topic = self._handle.name
            self._fail({"code": 409, "error": "not_a_queue", "message": str(error), "topic": topic})
            return
        except Exception as error:  # noqa: BLE001 - else the worker would wait for ever
            _log.error("a work stream of topic %r ended: %s", self._handle.name, error)
            self.finish("internal", "the queue could not be read")
            return
        finally:
            self._task = None
        self._held |= {job.seq: job.lease_id for job in claimed.jobs}
        if self.is_over:
            self._give_back()
            return
        for job in claimed.jobs:
            self._send(_event(self._handle.name, job))
        if claimed.jobs:
            self._refill()

    def _give_back(self) -> None:
        """Return the pushed jobs that are not done to the queue at once."""
        held, self._held = self._held, {}
        if held and not self._service.is_stopping:
            task = asyncio.ensure_future(self._release(held))
            self._service.keep(task)

    async def _release(self, held: dict[int, str]) -> None:
        nack = self._service.core.queues.submit_nack
        try:
            await self._claims.settle(
                nack, self._handle, self._claimer.node, list(held), list(held.values())
            )
        except Exception as error:  # noqa: BLE001 - the leases end by themselves, only later
            _log.warning("leases of a lost connection last until they expire: %s", error)

    def _fail(self, fields: dict[str, Any]) -> None:
        if not self.is_over:
            self._send(b"event: error\ndata: %b\n\n" % _encode(fields))
            self._stream.close()
            self.end()

    def _send(self, data: bytes) -> None:
        if not self.is_over:
            self._sent_s = self._loop.time()
            self._stream.write(self._stream.framed(data))

    def _beat(self) -> None:
        if self._handle.is_dropped:
            topic = self._handle.name
            fields = {"code": 409, "error": "not_a_queue", "message": "the topic was deleted"}
            self._fail(fields | {"topic": topic})
            return
        if self._loop.time() - self._sent_s >= _HEARTBEAT_S and not self._stream.is_full:
            self._send(_HEARTBEAT)
        self._refill()
        self._timer = self._loop.call_later(_REFILL_S, self._beat)


def _event(topic: str, job: Job) -> bytes:
    """Payloads are kept as they were sent: line ends between their tokens become blanks."""
    text = _encode(event_of(job, topic)).replace(b"\n", b" ").replace(b"\r", b" ")
    return b"id: %d\nevent: job\ndata: %b\n\n" % (job.seq, text)
