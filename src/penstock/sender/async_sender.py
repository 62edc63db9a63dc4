"""The sender for event loops: the same core, and a thread only where it could have to wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

from penstock.errors import Closed
from penstock.sender.counters import SenderStatus
from penstock.sender.inbox import Handler
from penstock.sender.sender import Sender
from penstock.sender.verdicts import SenderError

T = TypeVar("T")


class AsyncSender:
    """Use it as an asynchronous context manager, or call `open` and `close`."""

    def __init__(self, conf: str, *, error_handler: Handler | None = None) -> None:
        """`conf` and `error_handler` are those of `Sender`. The handler is called on a thread."""
        self._conf = conf
        self._error_handler = error_handler
        self._sender: Sender | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> AsyncSender:
        """Take the slot. May be repeated."""
        async with self._opening:
            if self._sender is None:
                opening = asyncio.ensure_future(
                    asyncio.to_thread(Sender, self._conf, error_handler=self._error_handler)
                )
                try:
                    self._sender = await asyncio.shield(opening)
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
        """Add one row. Waits only while the spool is full."""
        await self._do(lambda sender: sender.append(topic, data, tag, node=node, meta=meta))

    async def append_batch(
        self, topic: str, records: Sequence[Any], tag: str | None = None, *, node: str | None = None
    ) -> None:
        """Add many rows."""
        await self._do(lambda sender: sender.append_batch(topic, records, tag, node=node))

    async def flush(self) -> int:
        """Put all rows into the spool, and return the number of the last frame there."""
        return await asyncio.to_thread(self._opened.flush)

    async def drain(self, timeout_s: float | None = None) -> bool:
        """Flush, then wait until the server has acknowledged everything."""
        return await asyncio.to_thread(self._opened.drain, timeout_s)

    async def close(self) -> None:
        """As `Sender.close`."""
        if self._sender is not None:
            await asyncio.to_thread(self._sender.close)

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
    def _opened(self) -> Sender:
        if self._sender is None:
            raise Closed("the sender is not open: use `async with`, or await open()")
        return self._sender

    async def _do(self, call: Callable[[Sender], T]) -> T:
        sender = self._opened
        if sender.may_wait:
            return await asyncio.to_thread(call, sender)
        return call(sender)


def _let_go(opening: asyncio.Future[Sender]) -> None:
    """Nobody waits any more for this sender: its slot is for the next."""
    if not opening.cancelled() and opening.exception() is None:
        threading.Thread(target=opening.result().close, daemon=True).start()
