"""Feature verbs for all protocols, on the event loop.

What is in memory and up to date is answered at once. A registration, a push that must look for
known ids, and a read that has much to fold first or needs a key on disk run on a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import PenstockError
from penstock.feature_types import FeatureError, FeatureKey, FeatureRead, Pushed, PushSync
from penstock.server.appends import Answer, Batch, batch_of_texts, from_table
from penstock.server.loop_bridge import Relay
from penstock.server.service import Service
from penstock.types import Appended
from penstock.wire.features import READS_MAX
from penstock.wire.models import WriteOptions

if TYPE_CHECKING:
    from penstock.features.event_push import BegunPush, EventPush
    from penstock.features.store import FeatureStore

_FOLD_MAX: Final = 2_000  # records that a read may fold on the loop
_FOLDS: Final = 2  # of histories, at once: the threads are needed for other reads
_OPTIONS: Final = WriteOptions()


class FeatureService:
    """Event loop only."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._folds = asyncio.Semaphore(_FOLDS)

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
        pusher = self.store.pusher(event)
        if pusher.is_deduped:
            return await (await self.begin_push(event, texts, sync))
        return await self._append(event, batch_of_texts(pusher.checked(texts)), sync)

    async def begin_push(
        self, event: str, texts: Sequence[bytes], sync: PushSync | None
    ) -> asyncio.Future[Pushed]:
        """The first half of a push to an event type with a dedupe window: the new events have
        their place in the topic. The other half is to be awaited; many pushes do so together."""
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        answered = Relay(self._service.bridge, _setter(waiting)).post
        with self._service.room_for(sum(map(len, texts))):  # which of them are new is not known yet
            pusher, begun = await self._service.run(self._begin, event, texts, sync, answered)
        return asyncio.ensure_future(self._ended(pusher, begun, waiting, sync))

    def _begin(
        self,
        event: str,
        texts: Sequence[bytes],
        sync: PushSync | None,
        done: Callable[[Answer], None],
    ) -> tuple[EventPush, BegunPush | Pushed]:
        """On a thread."""
        store = self.store
        pusher = store.pusher(event)
        if not pusher.is_deduped:  # no longer
            return pusher, pusher.push(texts, sync, store.version)
        return pusher, pusher.begin(texts, sync, done)

    async def _ended(
        self,
        pusher: EventPush,
        begun: BegunPush | Pushed,
        waiting: asyncio.Future[Answer],
        sync: PushSync | None,
    ) -> Pushed:
        if isinstance(begun, Pushed):
            return begun
        appended = None if begun.queued is None else _appended(await waiting)
        topic = pusher.event.topic
        if begun.needs_flush:
            await self._service.submit(self._submit_flush, topic)
        pushed = pusher.ended(begun, appended, self.store.version)
        if pusher.is_synced(sync):
            await self._sync(topic, pushed.last_seq)
        return pushed

    def _submit_flush(
        self, topic: str, done: Callable[[PenstockError | None], None], push: object
    ) -> None:
        self._service.core.features.log.submit_flush(topic, done)

    async def _sync(self, topic: str, seq: int) -> None:
        """Return when the records up to `seq` survive a power cut."""
        if not self._service.core.features.log.is_synced(topic, seq):
            await self._service.sync([topic])

    async def push_array(self, event: str, body: bytes, sync: PushSync | None) -> Pushed | None:
        """The same with the events of a JSON array, without an object for each. None: they have to
        be looked at one by one."""
        table = self.store.pusher(event).spans(body, READS_MAX)
        return None if table is None else await self._append(event, from_table(body, table), sync)

    async def _append(self, event: str, batch: Batch, sync: PushSync | None) -> Pushed:
        pusher = self.store.pusher(event)
        pusher.check_sync(sync)
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._service.append(pusher.event.topic, batch, _OPTIONS, _setter(waiting))
        appended = _appended(await waiting)
        if pusher.is_synced(sync):
            await self._sync(pusher.event.topic, appended.last_seq)
        return pusher.answer(appended, self.store.version)

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
            async with self._folds:
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


def _setter(waiting: asyncio.Future[Answer]) -> Callable[[Answer], None]:
    def answered(answer: Answer) -> None:
        if not waiting.done():
            waiting.set_result(answer)

    return answered


def _appended(answer: Answer) -> Appended:
    if not isinstance(answer, Appended):
        raise answer
    return answer
