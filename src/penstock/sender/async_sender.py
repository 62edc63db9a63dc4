"""The sender for asyncio: a `Sender`, with threads of its own for calls that may block.

Appends that cannot block run on the event loop. The others run on one thread, in the order of the
calls. Flushes and drains have threads of their own, so that rows that wait for room in the spool
do not delay them.
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
from penstock.sender.error_inbox import Handler
from penstock.sender.error_policy import SenderError
from penstock.sender.row_buffer import text_of
from penstock.sender.sender import Sender
from penstock.wire.binary_batch import sizes
from penstock.wire.sender_protocol import ROW_BYTES

_THREADS: Final = {"append": 1, "flush": 1, "drain": 32}  # at most; none before it is needed
_BRIEF_ROWS: Final = 1000  # a batch of at most these rows and bytes is encoded on the loop
_BRIEF_BYTES: Final = 64 * KIB
_TURN_S: Final = 0.1  # between two checks of a blocked call for its cancellation
T = TypeVar("T")


class _CallCancelled(Exception):
    """The task that made this call was cancelled."""


class _Call:
    """A call on a thread. The event loop sets `is_cancelled`, the thread reads it."""

    __slots__ = ("is_cancelled", "since_s")

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.is_cancelled = False


class _Core(Sender):
    """Blocks only in `serve`, on a thread, and only until the call is cancelled. Outside `serve`,
    on the event loop, a full spool is SpoolFull at once."""

    def __init__(self, conf: str, error_handler: Handler | None, wanted: Future[None]) -> None:
        """The wait for the first connection ends when `wanted` is cancelled."""
        self._served = threading.local()
        self._wanted = wanted
        super().__init__(conf, error_handler=error_handler)

    def call(self) -> _Call:
        return _Call(self._clock.monotonic())

    def serve(self, call: _Call, act: Callable[[Sender], T]) -> T:
        """Run a call on this thread. Raises _CallCancelled when it was cancelled before it
        began."""
        if call.is_cancelled:
            raise _CallCancelled
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

    def _retry_while_full(self, act: Callable[[], None], until_s: float | None = None) -> None:
        """As in `Sender`, but it checks for cancellation while it waits, and the deadline counts
        from the call, not from the moment when the thread begins it."""
        call = self._call
        if call is None:
            with self._lock:
                return act()
        end_s = call.since_s + self.options.sf_append_deadline_millis / 1000
        end_s = end_s if until_s is None else min(end_s, until_s)
        is_stalled = False
        while True:
            try:
                with self._lock:
                    if call.is_cancelled:
                        raise _CallCancelled
                    return act()
            except SpoolFull as error:
                now_s = self._clock.monotonic()
                self._stalls += not is_stalled
                is_stalled = True
                if now_s >= end_s:
                    raise self._full(error, round(now_s - call.since_s, 1)) from None
                self._spool.wait_for_room(min(_TURN_S, end_s - now_s), self._needed)

    def _wait_for_answers(self, until_s: float | None) -> bool:
        call, fsn = self._call, self.published_fsn
        while True:
            turn_s = self._clock.monotonic() + _TURN_S
            is_last = until_s is not None and until_s <= turn_s
            if super()._wait_for_answers(until_s if is_last else turn_s) or self.acked_fsn >= fsn:
                return True
            if is_last or self._delivery_loop.is_over or (call is not None and call.is_cancelled):
                return False

    def _wait_for_first(self) -> None:
        """A cancelled opening stops the delivery loop, which ends the wait."""
        self._wanted.add_done_callback(lambda _: _on_new_thread("stop", self._delivery_loop.stop))
        super()._wait_for_first()

    @property
    def _call(self) -> _Call | None:
        return getattr(self._served, "call", None)


class AsyncSender:
    """Use it as an asynchronous context manager, or call `open` and `close`. All tasks of one event
    loop may share it."""

    def __init__(self, conf: str, *, error_handler: Handler | None = None) -> None:
        """`conf` and `error_handler` are those of `Sender`. The handler is called on a thread."""
        self._conf = conf
        self._error_handler = error_handler
        self._sender: _Core | None = None
        self._opening = asyncio.Lock()
        self._pools = {
            what: ThreadPoolExecutor(count, f"penstock-sender-{what}")
            for what, count in _THREADS.items()
        }
        self._queued = 0  # appends that wait for the thread or run on it
        self._wanted: Future[None] = Future()  # cancelled when the opening is cancelled
        self._closing: Future[None] | None = None
        self._is_reported = False  # the error of the closing was raised
        self._owner_pid = os.getpid()

    async def open(self) -> AsyncSender:
        """Open the slot. May be called again. After a cancellation the slot is released soon."""
        async with self._opening:
            if self._closing is not None:
                raise Closed("the sender is closed")
            if self._sender is None:
                wanted = self._wanted = Future[None]()
                opening = _on_new_thread(
                    "open", lambda: _Core(self._conf, self._error_handler, wanted)
                )
                try:
                    await _wait_for(opening)
                except asyncio.CancelledError:
                    wanted.cancel()
                    opening.add_done_callback(_close_opened)
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
        """Add one row. Waits only while the spool is full. If it is cancelled before the row was
        added, the row is discarded."""
        await self._append(lambda core: core.append(topic, data, tag, node=node, meta=meta))

    async def append_batch(
        self, topic: str, records: Sequence[Any], tag: str | None = None, *, node: str | None = None
    ) -> None:
        """Add many rows. If it is cancelled, the rows that were already added stay."""
        is_brief = False
        if type(records) is list and len(records) <= _BRIEF_ROWS:
            most = self._brief_bytes(len(records), tag, node)
            total, _ = sizes(records)
            if total < 0:  # not all are bytes
                records = _encoded(records, most)
                total, _ = sizes(records)
            is_brief = 0 <= total <= most
        await self._append(
            lambda core: core.append_batch(topic, records, tag, node=node), is_brief=is_brief
        )

    async def flush(self) -> int:
        """Write all rows to the spool and return the number of its last frame."""
        return await self._on_thread("flush", lambda core: core.flush())

    async def drain(self, timeout_s: float | None = None) -> bool:
        """Flush, then wait until the server has acknowledged everything."""
        return await self._on_thread("drain", lambda core: core.drain(timeout_s))

    async def close(self) -> None:
        """As `Sender.close`; the threads end, too. A cancellation does not stop the closing:
        another call waits for its end, and the first call that completes raises its error, if any.
        An `open` that still waits for a server ends with `Closed`."""
        if self._owner_pid != forks.pid():
            return
        if self._sender is None:
            self._wanted.cancel()
        async with self._opening:
            if self._sender is None:
                return
            if self._closing is None:
                self._closing = _on_new_thread("close", self._close_core, is_daemon=False)
        await _wait_for(self._closing)
        if not self._is_reported:
            self._is_reported = True
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
        # A forked child has no threads of it, and a lock may be held for ever.
        if self._owner_pid != forks.pid():
            raise forks.not_ours("sender", self._owner_pid)
        return self._sender

    async def _append(self, act: Callable[[Sender], None], *, is_brief: bool = True) -> None:
        """On the event loop if it is brief and no other append waits; otherwise on the thread."""
        core = self._opened
        if is_brief and not self._queued and not core.may_wait:
            try:
                return act(core)
            except SpoolFull:
                pass  # another thread used the room; none of these rows was added
        self._queued += 1
        try:
            await self._on_thread("append", act)
        finally:
            self._queued -= 1

    def _brief_bytes(self, count: int, tag: str | None, node: str | None) -> int:
        """The payload bytes up to which a batch is brief. It fits one frame, so all of its rows are
        added or none."""
        labels = sum(4 * len(one) for one in (tag, node) if isinstance(one, str))
        most = min(_BRIEF_BYTES, self._opened.options.sf_max_segment_bytes - KIB)
        return most - count * (ROW_BYTES + labels)

    async def _on_thread(self, what: str, act: Callable[[Sender], T]) -> T:
        core = self._opened
        if self._closing is not None:
            raise Closed("the sender is closed")
        call = core.call()
        try:
            return await asyncio.wrap_future(self._pools[what].submit(core.serve, call, act))
        except asyncio.CancelledError:
            call.is_cancelled = True
            raise

    def _close_core(self) -> None:
        """Close the sender, which ends the calls on the threads, then the threads."""
        try:
            self._opened.close()
        finally:
            for pool in self._pools.values():
                pool.shutdown()


def _encoded(records: list[Any], bytes_max: int) -> list[Any]:
    """The records as JSON texts until these have `bytes_max` bytes; the rest unchanged."""
    some: list[Any] = []
    for one in records:
        if bytes_max >= 0:
            one = text_of(one)
            bytes_max -= len(one)
        some.append(one)
    return some


def _on_new_thread(what: str, act: Callable[[], T], *, is_daemon: bool = True) -> Future[T]:
    """Run it on a new thread. The program waits at its end for a thread that is no daemon."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(act())
        except BaseException as error:  # noqa: BLE001 - `result` raises it
            done.set_exception(error)

    threading.Thread(target=run, name=f"penstock-sender-{what}", daemon=is_daemon).start()
    return done


async def _wait_for(done: Future[Any]) -> None:
    """Wait for a future without cancelling it. Its error is not raised here."""
    seen: Future[None] = Future()

    def see(_: Future[Any]) -> None:
        if seen.set_running_or_notify_cancel():
            seen.set_result(None)

    done.add_done_callback(see)
    await asyncio.wrap_future(seen)


def _close_opened(opening: Future[_Core]) -> None:
    """Close a sender whose opening was cancelled."""
    if opening.exception() is None:
        _on_new_thread("close", opening.result().close)
