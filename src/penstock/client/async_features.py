"""Features on a server, over asyncio: its verbs are calls of its client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.client import feature_calls
from penstock.client.attempt_failed import AttemptFailed
from penstock.client.feature_calls import Events, Reads, RowOrError
from penstock.client.feature_watching import FeatureWatchState
from penstock.errors import Closed, Overloaded
from penstock.feature_types import (
    FeatureKey,
    FeatureLoaded,
    FeatureScan,
    FeatureTableStatus,
    Pushed,
    PushSync,
    Registered,
)

if TYPE_CHECKING:
    from penstock.client.async_client import AsyncClient


class AsyncFeatures:
    """Aggregates per key, computed by the server on its topics. Definitions are declared with
    `penstock.features`, or given as JSON; nothing else here needs that package."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def register(
        self,
        *nodes: Any,
        dry_run: bool = False,
        force: bool = False,
        whole: bool = False,
        wait_s: float = 0.0,
    ) -> Registered:
        """Add nodes, or change those of the same names: declared events and tables, a Definition,
        or its JSON. With `whole` the nodes that are not named are removed. A change that loses
        state needs `force`. New and changed features are folded from history in the background,
        for which this waits up to `wait_s` (30 at most). Durable on return."""
        return await self._client._call(
            feature_calls.register(nodes, dry_run=dry_run, force=force, whole=whole, wait_s=wait_s)
        )

    async def definition(self) -> dict[str, list[dict[str, Any]]]:
        """What is registered, as JSON: `events`, `derived` and `tables`."""
        found = await self._client._call(feature_calls.definition())
        return {"events": found.events, "derived": found.derived, "tables": found.tables}

    async def version(self) -> int:
        """How many registrations changed something."""
        return (await self._client._call(feature_calls.definition())).version

    async def push(self, event: str, data: Events, *, sync: PushSync | None = None) -> Pushed:
        """Append an event, or many, all or none. One that does not fit its type raises
        InvalidArgument and nothing is appended. It is sent once: when no answer arrives,
        OutcomeUnknown is raised; events of a type with `dedupe` may then be pushed again."""
        return await self._client._call(feature_calls.push(event, data, sync))

    async def get(
        self,
        table: str,
        key: FeatureKey = None,
        features: Sequence[str] | None = None,
        *,
        as_of_seq: int | None = None,
        as_of_ts: int | None = None,
        eventual: bool = False,
    ) -> dict[str, Any]:
        """The features of a key, now; an empty row for a key without events. It contains every
        event committed before this call, unless `eventual` is true. `as_of_seq` and `as_of_ts` fold
        the history up to that place instead; HistoryGone: a part of it is gone."""
        return await self._client._call(
            feature_calls.get(
                table, key, features, as_of_seq=as_of_seq, as_of_ts=as_of_ts, eventual=eventual
            )
        )

    async def batch_get(self, reads: Reads, *, eventual: bool = False) -> list[RowOrError]:
        """Several rows, all as of one time. A read that fails has an error in its place."""
        return await self._client._call(feature_calls.batch_get(reads, eventual=eventual))

    async def push_and_get(
        self, event: str, data: Events, reads: Reads, *, sync: PushSync | None = None
    ) -> tuple[Pushed, list[RowOrError]]:
        """Push, then read rows that contain what was pushed."""
        return await self._client._call(feature_calls.push_and_get(event, data, reads, sync))

    async def scan(
        self,
        table: str,
        after: int = 0,
        limit: int = 1000,
        *,
        features: Sequence[str] | None = None,
        now_ms: int | None = None,
    ) -> FeatureScan:
        """Many rows, a page at a time: all of the moment `now_ms`, by default now. The next page
        begins at `next_after`. A key that is there all the time is in one page. Cursors end with
        the process that has the log open."""
        return await self._client._call(feature_calls.scan(table, after, limit, features, now_ms))

    async def load(
        self, table: str, folder: str, *, timeout_s: float = feature_calls.LOAD_TIMEOUT_S
    ) -> FeatureLoaded:
        """Replace the state of a table by a snapshot that `penstock features backfill` wrote to a
        folder, an absolute path of the server. What came after it is folded first; until then, and
        after an error, the table is read as it was."""
        return await self._client._call(feature_calls.load(table, folder, timeout_s))

    async def tables(self) -> list[FeatureTableStatus]:
        """All tables, sorted by name."""
        return await self._client._call(feature_calls.tables())

    async def table(self, name: str) -> FeatureTableStatus:
        """One table: its parts, their positions, and the watermarks of its events."""
        return await self._client._call(feature_calls.table(name))

    async def watch(
        self,
        table: str,
        key: FeatureKey = None,
        features: Sequence[str] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The row of a key now, and again after each commit that changes it; of several changes at
        once the last. Reconnects after lost connections and restarts of the server. Ends when the
        client is closed, or after `timeout_s` without a change. Raises what `get` raises, as when
        the table is removed."""
        client = self._client
        clock = client._options.clock
        state = FeatureWatchState(
            table,
            key,
            features,
            source=client._options.source,
            timeout_s=timeout_s,
            now=clock.monotonic(),
        )
        row = await self.get(table, key, features)
        while True:
            if state.is_new(row):
                yield row
                state.restart_timeout(clock.monotonic())
            try:
                async with client._stream(state) as stream:
                    while piece := await stream.read(state.deadline(clock.monotonic())):
                        for row in state.feed(piece):
                            yield row
                            state.restart_timeout(clock.monotonic())
                        if state.has_failed:
                            break
                if state.has_failed:
                    row = await self.get(table, key, features)  # raises the reason
            except (AttemptFailed, Overloaded):
                pass  # the connection broke, or was never made: again
            except Closed:
                return
            if state.is_idle(clock.monotonic()) or await client._close_signal.wait(
                client._options.backoff_s(state.record_failure())
            ):
                return
