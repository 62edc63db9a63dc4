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

from penstock import forks
from penstock.errors import Closed, SpoolFull
from penstock.limits import KIB
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
_TURN_S: Final = 0.1  # until a call that waits looks whether somebody still waits for it
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

    def __init__(self, conf: str, error_handler: Handler | None, wanted: Future[None]) -> None:
        """It waits for no server once `wanted` is cancelled."""
        self._served = threading.local()
        self._wanted = wanted
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

    def close(self) -> None:
        self.serve(self.call(), Sender.close)

    def _patiently(self, act: Callable[[], None], until_s: float | None = None) -> None:
        """As that of `Sender`, but it waits in turns, and the time a caller may be kept begins
        with the call, not when a thread comes to it."""
        call = self._call
        if call is None:
            with self._lock:
                return act()
        end_s = call.since_s + self.profile.sf_append_deadline_millis / 1000
        end_s = end_s if until_s is None else min(end_s, until_s)
        is_stalled = False
        while True:
            try:
                with self._lock:
                    if call.is_withdrawn:
                        raise _Withdrawn
                    return act()
            except SpoolFull as error:
                now_s = self._clock.monotonic()
                self._stalls += not is_stalled
                is_stalled = True
                if now_s >= end_s:
                    raise self._backpressure(error, round(now_s - call.since_s, 1)) from None
                self._spool.wait_for_room(min(_TURN_S, end_s - now_s), self._needed)

    def _wait_for_answers(self, until_s: float | None) -> bool:
        call, fsn = self._call, self.published_fsn
        while True:
            turn_s = self._clock.monotonic() + _TURN_S
            is_last = until_s is not None and until_s <= turn_s
            if super()._wait_for_answers(until_s if is_last else turn_s) or self.acked_fsn >= fsn:
                return True
            if is_last or self._courier.is_over or (call is not None and call.is_withdrawn):
                return False

    def _wait_for_first(self) -> None:
        """Without a courier there is nothing to wait for."""
        self._wanted.add_done_callback(lambda _: _apart("stop", self._courier.stop))
        super()._wait_for_first()

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
        self._wanted: Future[None] = Future()  # of an opening; cancelled once nobody wants it
        self._closing: Future[None] | None = None
        self._is_told = False  # how the closing ended
        self._owner_pid = os.getpid()

    async def open(self) -> AsyncSender:
        """Take the slot. May be repeated. When it is cancelled, the slot is free again soon."""
        async with self._opening:
            if self._closing is not None:
                raise Closed("the sender is closed")
            if self._sender is None:
                wanted = self._wanted = Future[None]()
                opening = _apart("open", lambda: _Core(self._conf, self._error_handler, wanted))
                try:
                    await _end_of(opening)
                except asyncio.CancelledError:
                    wanted.cancel()
                    opening.add_done_callback(_let_go)
                    raise
                error = opening.exception()
                if error is not None and wanted.cancelled():
                    raise Closed("the sender was closed before it was open") from error
                self._sender = opening.result()
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
            most = self._brief_bytes(len(records), tag, node)
            total, _ = sizes(records)
            if total < 0:  # not all are texts
                records = _encoded(records, most)
                total, _ = sizes(records)
            is_brief = 0 <= total <= most
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
        calls it again waits for the end, and the first who sees it gets the error, if any. An
        `open` that still waits for a server ends."""
        if self._owner_pid != forks.pid():
            return
        if self._sender is None:
            self._wanted.cancel()
        async with self._opening:
            if self._sender is None:
                return
            if self._closing is None:
                self._closing = _apart("close", self._shut, is_daemon=False)
        await _end_of(self._closing)
        if not self._is_told:
            self._is_told = True
            self._closing.result()

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
            raise forks.not_ours("sender", self._owner_pid)
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

    def _brief_bytes(self, count: int, tag: str | None, node: str | None) -> int:
        """So many rows of no more are brief, and surely fit a frame: all are taken at once, as
        one is, or none."""
        labels = sum(4 * len(one) for one in (tag, node) if isinstance(one, str))
        most = min(_BRIEF_BYTES, self._opened.profile.sf_max_segment_bytes - KIB)
        return most - count * (ROW_BYTES + labels)

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
        try:
            self._opened.close()
        finally:
            for pool in self._pools.values():
                pool.shutdown()


def _encoded(records: list[Any], bytes_max: int) -> list[Any]:
    """The first as texts, until they have more bytes than these; the others as they are."""
    some: list[Any] = []
    for one in records:
        if bytes_max >= 0:
            one = text_of(one)
            bytes_max -= len(one)
        some.append(one)
    return some


def _apart(what: str, act: Callable[[], T], *, is_daemon: bool = True) -> Future[T]:
    """On a thread of its own. The program does not end before one that is no daemon."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(act())
        except BaseException as error:  # noqa: BLE001 - for whoever asks for the result
            done.set_exception(error)

    threading.Thread(target=run, name=f"penstock-{what}", daemon=is_daemon).start()
    return done


async def _end_of(done: Future[Any]) -> None:
    """Wait for it. When this is cancelled, that is not; nor has asyncio a word on its error."""
    seen: Future[None] = Future()

    def see(_: Future[Any]) -> None:
        if seen.set_running_or_notify_cancel():
            seen.set_result(None)

    done.add_done_callback(see)
    await asyncio.wrap_future(seen)


def _let_go(opening: Future[_Core]) -> None:
    """Nobody waits any more for this sender: its slot is for the next."""
    if opening.exception() is None:
        _apart("close", opening.result().close)
