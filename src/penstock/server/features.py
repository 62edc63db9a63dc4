"""Feature verbs for all protocols, on the event loop.

What is in memory and up to date is answered at once. A registration, a push that must look for
known ids, and a read that has much to fold first or needs a key on disk run on a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.feature_types import FeatureError, FeatureKey, FeatureRead, Pushed, PushSync
from penstock.server.appends import Answer, Batch, batch_of_texts, from_table
from penstock.server.service import Service
from penstock.types import Appended
from penstock.wire.features import READS_MAX
from penstock.wire.models import WriteOptions

if TYPE_CHECKING:
    from penstock.features.store import FeatureStore

_FOLD_MAX: Final = 2_000  # records that a read may fold on the loop
_OPTIONS: Final = WriteOptions()


class FeatureService:
    """Event loop only."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def store(self) -> FeatureStore:
        return self._service.core.features.store

    async def open(self) -> None:
        """Open the store, which reads files. Raises InvalidArgument if a package is missing."""
        await self._service.run(lambda: self.store)

    async def run(self, call: Any, *args: Any, **named: Any) -> Any:
        """Run a verb of the store on a thread."""
        return await self._service.run(call, *args, **named)

    async def reset(self) -> None:
        """Remove the definition and, with their events, the topics of all its events."""
        await self._service.run(self._reset)

    def _reset(self) -> None:
        store, core = self.store, self._service.core
        topics = [event.topic for event in store.definition.events.values()]
        store.register({}, force=True, whole=True)
        with core.catalogue.changing:
            for topic in topics:
                if core.catalogue.find(topic) is not None:
                    core.drop(topic)

    async def push(
        self, event: str, texts: Sequence[bytes], sync: PushSync | None = None
    ) -> Pushed:
        """Check events and append them, all or none."""
        store = self.store
        pusher = store.pusher(event)
        if pusher.is_deduped:
            pushed: Pushed = await self._service.run(store.push, event, list(texts), sync=sync)
            return pushed
        return await self._append(event, batch_of_texts(pusher.checked(texts)), sync)

    async def push_array(self, event: str, body: bytes, sync: PushSync | None) -> Pushed | None:
        """The same with the events of a JSON array, without an object for each. None: they have to
        be looked at one by one."""
        table = self.store.pusher(event).spans(body, READS_MAX)
        return None if table is None else await self._append(event, from_table(body, table), sync)

    async def _append(self, event: str, batch: Batch, sync: PushSync | None) -> Pushed:
        pusher = self.store.pusher(event)
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def answered(answer: Answer) -> None:
            if not waiting.done():
                waiting.set_result(answer)

        self._service.append(pusher.event.topic, batch, _OPTIONS, answered)
        answer = await waiting
        if not isinstance(answer, Appended):
            raise answer
        if pusher.is_synced(sync):
            await self._service.sync([pusher.event.topic])
        return pusher.answer(answer, self.store.version)

    async def get(
        self,
        table: str,
        key: FeatureKey,
        features: Sequence[str] | None,
        *,
        as_of_seq: int | None = None,
        as_of_ts: int | None = None,
        eventual: bool = False,
    ) -> dict[str, Any]:
        """One row."""
        store = self.store
        if as_of_seq is not None or as_of_ts is not None:
            found: dict[str, Any] = await self._service.run(
                store.get, table, key, features, as_of_seq=as_of_seq, as_of_ts=as_of_ts
            )
            return found
        if store.is_quick([FeatureRead(table, key)], _FOLD_MAX):
            return store.get(table, key, features, eventual=eventual)
        row: dict[str, Any] = await self._service.run(
            store.get, table, key, features, eventual=eventual
        )
        return row

    async def batch_get(
        self, reads: Sequence[FeatureRead], *, eventual: bool = False
    ) -> list[dict[str, Any] | FeatureError]:
        """Several rows, or an error in the place of a row."""
        store = self.store
        if store.is_quick(reads, _FOLD_MAX):
            return store.batch_get(reads, eventual=eventual)
        rows: list[dict[str, Any] | FeatureError] = await self._service.run(
            store.batch_get, reads, eventual=eventual
        )
        return rows
