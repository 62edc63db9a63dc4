"""The sender for event loops: the same core, and a thread only where it could have to wait.

The threads are its own. Rows go through one, in the order of the calls; flushes have another, and
drains, so that none of them is kept by rows that wait for room, nor the rest of the program.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final, TypeVar

from penstock.errors import Backpressure, Closed, SpoolFull
from penstock.limits import KIB
from penstock.sender import forks
from penstock.sender.counters import SenderStatus
from penstock.sender.drafts import text_of
from penstock.sender.inbox import Handler
from penstock.sender.sender import Sender
from penstock.sender.verdicts import SenderError
from penstock.wire.batch import sizes
from penstock.wire.sending import ROW_BYTES

_THREADS: Final = {"append": 1, "flush": 1, "drain": 32}  # at most; none before it is needed
_BRIEF_ROWS: Final = 1000  # a batch of no more, and of no more bytes, is looked at on the loop
_BRIEF_BYTES: Final = 64 * KIB
_TURN_S: Final = 1.0  # until a drain looks whether somebody still waits for it
T = TypeVar("T")


class _Withdrawn(Exception):
    """Nobody waits for this call any more."""


class _Call:
    """A call on its way through a thread. The loop withdraws it, the thread looks."""

    __slots__ = ("is_withdrawn", "since_s")

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.is_withdrawn = False


class _Core(Sender):
    """Waits only in `serve`, and only while somebody waits for it. Outside of it, which is on the
    loop, what finds no room is SpoolFull at once."""

    def __init__(self, conf: str, error_handler: Handler | None) -> None:
        self._served = threading.local()
        super().__init__(conf, error_handler=error_handler)

    def call(self) -> _Call:
        return _Call(self._clock.monotonic())

    def serve(self, call: _Call, act: Callable[[Sender], T]) -> T:
        """Do it on this thread; _Withdrawn when nothing was done."""
        if call.is_withdrawn:
            raise _Withdrawn
        self._served.call = call
        try:
            return act(self)
        finally:
            del self._served.call

    def drain(self, timeout_s: float | None = None) -> bool:
        if timeout_s is not None and self._call is not None:
            timeout_s -= self._clock.monotonic() - self._call.since_s
        return super().drain(timeout_s)

    def _patiently(self, act: Callable[[], None], until_s: float | None = None) -> None:
        """The time a caller may be kept begins with the call, not with its turn."""
        call = self._call
        if call is None:
            with self._lock:
                return act()

        def act_if_wanted() -> None:
            if call.is_withdrawn:
                raise _Withdrawn
            act()

        end_s = call.since_s + self.profile.sf_append_deadline_millis / 1000
        super()._patiently(act_if_wanted, end_s if until_s is None else min(end_s, until_s))

    def _backpressure(self, full: SpoolFull, deadline_s: float) -> Backpressure:
        if self._call is not None:
            deadline_s = round(self._clock.monotonic() - self._call.since_s, 1)
        return super()._backpressure(full, deadline_s)

    def _wait_for_answers(self, until_s: float | None) -> bool:
        call, fsn = self._call, self.published_fsn
        if call is None:
            return super()._wait_for_answers(until_s)
        while True:
            turn_s = self._clock.monotonic() + _TURN_S
            is_last = until_s is not None and until_s <= turn_s
            if super()._wait_for_answers(until_s if is_last else turn_s) or self.acked_fsn >= fsn:
                return True
            if is_last or call.is_withdrawn or self._courier.is_over:
                return False

    @property
    def _call(self) -> _Call | None:
        return getattr(self._served, "call", None)


class AsyncSender:
    """Use it as an asynchronous context manager, or call `open` and `close`. All tasks of one
    loop may share it."""

    def __init__(self, conf: str, *, error_handler: Handler | None = None) -> None:
        """`conf` and `error_handler` are those of `Sender`. The handler is called on a thread."""
        self._conf = conf
        self._error_handler = error_handler
        self._sender: _Core | None = None
        self._opening = asyncio.Lock()
        self._pools = {
            what: ThreadPoolExecutor(count, f"penstock-{what}") for what, count in _THREADS.items()
        }
        self._queued = 0  # appends that a thread has, or is to get
        self._closing: Future[None] | None = None
        self._owner_pid = os.getpid()

    async def open(self) -> AsyncSender:
        """Take the slot. May be repeated."""
        async with self._opening:
            if self._sender is None:
                opening = _apart("open", lambda: _Core(self._conf, self._error_handler))
                try:
                    self._sender = await asyncio.shield(asyncio.wrap_future(opening))
                except asyncio.CancelledError:
                    opening.add_done_callback(_let_go)
                    raise
        return self

    async def __aenter__(self) -> AsyncSender:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def append(
        self,
        topic: str,
        data: Any,
        tag: str | None = None,
        *,
        node: str | None = None,
        meta: Any = None,
    ) -> None:
        """Add one row. Waits only while the spool is full. When it is cancelled before it was its
        turn, the row is not taken."""
        await self._append(lambda core: core.append(topic, data, tag, node=node, meta=meta))

    async def append_batch(
        self, topic: str, records: Sequence[Any], tag: str | None = None, *, node: str | None = None
    ) -> None:
        """Add many rows. When it is cancelled, those that had found room stay."""
        is_brief = False
        if type(records) is list and len(records) <= _BRIEF_ROWS:
            total, _ = sizes(records)
            if total < 0:  # not all are texts
                records = [text_of(one) for one in records]
                total, _ = sizes(records)
            is_brief = self._fits_a_frame(len(records), total, tag, node)
        await self._append(
            lambda core: core.append_batch(topic, records, tag, node=node), is_brief=is_brief
        )

    async def flush(self) -> int:
        """Put all rows into the spool, and return the number of the last frame there."""
        return await self._on_thread("flush", lambda core: core.flush())

    async def drain(self, timeout_s: float | None = None) -> bool:
        """Flush, then wait until the server has acknowledged everything."""
        return await self._on_thread("drain", lambda core: core.drain(timeout_s))

    async def close(self) -> None:
        """As `Sender.close`, and the threads are gone. It goes on when it is cancelled; whoever
        calls it again waits for the end."""
        if self._sender is None or self._owner_pid != forks.pid():
            return
        is_first = self._closing is None
        if self._closing is None:
            self._closing = _apart("close", self._shut)
        closing = asyncio.wrap_future(self._closing)
        await asyncio.wait([closing])
        error = closing.exception()
        if is_first and error is not None:
            raise error

    @property
    def published_fsn(self) -> int:
        return self._opened.published_fsn

    @property
    def acked_fsn(self) -> int:
        return self._opened.acked_fsn

    @property
    def halted(self) -> SenderError | None:
        return self._opened.halted

    @property
    def damage(self) -> list[str]:
        return self._opened.damage

    def status(self) -> SenderStatus:
        return self._opened.status()

    def metrics(self) -> str:
        return self._opened.metrics()

    @property
    def _opened(self) -> _Core:
        if self._sender is None:
            raise Closed("the sender is not open: use `async with`, or await open()")
        # A fork leaves it closed, without its threads, and perhaps with a lock that is held.
        if self._owner_pid != forks.pid():
            raise Closed(f"this sender belongs to process {self._owner_pid}: open one of its own")
        return self._sender

    async def _append(self, act: Callable[[Sender], None], *, is_brief: bool = True) -> None:
        """On the loop if that is brief and no rows are before these; else after those."""
        core = self._opened
        if is_brief and not self._queued and not core.may_wait:
            try:
                return act(core)
            except SpoolFull:
                pass  # somebody else took the room just now, and none of these rows were taken
        self._queued += 1
        try:
            await self._on_thread("append", act)
        finally:
            self._queued -= 1

    def _fits_a_frame(self, count: int, total: int, tag: str | None, node: str | None) -> bool:
        """Surely: all of these rows are taken at once, as one is, or none."""
        labels = sum(4 * len(one) for one in (tag, node) if isinstance(one, str))
        size = total + count * (ROW_BYTES + labels)
        return size <= min(_BRIEF_BYTES, self._opened.profile.sf_max_segment_bytes - KIB)

    async def _on_thread(self, what: str, act: Callable[[Sender], T]) -> T:
        core = self._opened
        if self._closing is not None:
            raise Closed("the sender is closed")
        call = core.call()
        try:
            return await asyncio.wrap_future(self._pools[what].submit(core.serve, call, act))
        except asyncio.CancelledError:
            call.is_withdrawn = True
            raise

    def _shut(self) -> None:
        """What still waits on a thread ends, since the sender does."""
        core = self._opened
        try:
            core.serve(core.call(), Sender.close)
        finally:
            for pool in self._pools.values():
                pool.shutdown()


def _apart(what: str, act: Callable[[], T]) -> Future[T]:
    """On a thread of its own, which ends with it."""
    pool = ThreadPoolExecutor(1, f"penstock-{what}")
    done = pool.submit(act)
    pool.shutdown(wait=False)
    return done


def _let_go(opening: Future[_Core]) -> None:
    """Nobody waits any more for this sender: its slot is for the next."""
    if not opening.cancelled() and opening.exception() is None:
        threading.Thread(target=opening.result().close, daemon=True).start()
