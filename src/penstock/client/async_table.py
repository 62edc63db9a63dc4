"""A table on a server, over asyncio: its verbs are calls of its client."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from penstock import limits
from penstock.client import table_calls
from penstock.client.attempt_failed import AttemptFailed
from penstock.client.table_watching import TableWatchState
from penstock.errors import Closed, InvalidArgument, Overloaded, TableNotFound
from penstock.projection_types import TableChange, TableInfo, TableKey, TablePage, TableRow
from penstock.types import Gap, Offset

if TYPE_CHECKING:
    from penstock.client.async_client import AsyncClient


class AsyncTable:
    """The newest record of each key. Reads contain everything that was committed before the call;
    with `eventual` they take what the server has at once."""

    def __init__(self, client: AsyncClient, name: str) -> None:
        self._client = client
        self.name = name

    async def info(self) -> TableInfo:
        """As of now."""
        return await self._client._call(table_calls.get(self.name))

    async def get(self, key: TableKey, *, eventual: bool = False) -> TableRow | None:
        """The row of a key, or None. `1`, `"1"` and `True` are three keys."""
        if key == "":  # a path cannot hold it; it sorts before all other texts
            page = await self.scan("", after=(1 << 63) - 1, limit=1, eventual=eventual)
            return page.rows[0] if page.rows and page.rows[0].key == "" else None
        return await self._client._call(table_calls.row(self.name, key, eventual=eventual))

    async def scan(
        self,
        prefix: str = "",
        after: TableKey | None = None,
        limit: int = limits.READ_RECORDS_DEFAULT,
        *,
        eventual: bool = False,
    ) -> TablePage:
        """Rows past key `after`: those of text keys that begin with `prefix`, or all. In the order
        false, true, numbers, texts."""
        return await self._client._call(
            table_calls.rows(self.name, prefix, after, limit, eventual=eventual)
        )

    async def count(self, *, eventual: bool = False) -> int:
        """The number of rows."""
        return (await self.scan(limit=1, eventual=eventual)).count

    async def rebuild(self) -> None:
        """Fold the topic again from its beginning, also after a failure."""
        await self._client._call(table_calls.rebuild(self.name))

    async def watch(
        self, after: Offset | None = None, *, timeout_s: float | None = None
    ) -> AsyncGenerator[TableChange | Gap, None]:
        """Every change after `after` (the offset of a scan, or of a change; from now on without),
        then each new one when it is committed. Lost records are reported as `Gap`. Reconnects after
        lost connections and restarts of the server. Ends when the table or its topic is dropped,
        when the topic is created again, when the client is closed, or after `timeout_s` without a
        change."""
        client = self._client
        clock = client._options.clock
        start = after or (await self.info()).status.head or Offset(0, 0)
        state = TableWatchState(
            self.name,
            start,
            source=client._options.source,
            timeout_s=timeout_s,
            now=clock.monotonic(),
        )
        has_begun = False
        while not state.has_ended():
            try:
                async with client._stream(state) as stream:
                    has_begun = True
                    while piece := await stream.read(state.deadline(clock.monotonic())):
                        for item in state.feed(piece):
                            yield item
                            state.restart_timeout(clock.monotonic())
                        if state.has_ended():
                            return
            except AttemptFailed:
                pass  # the connection broke, or was never made: again from the last event
            except (Closed, InvalidArgument, Overloaded, TableNotFound) as error:
                if not has_begun:
                    raise
                if not isinstance(error, Overloaded):
                    return
            if state.is_idle(clock.monotonic()) or await client._close_signal.wait(
                client._options.backoff_s(state.record_failure())
            ):
                return
