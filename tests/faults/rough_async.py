"""Appends through a rough network by the client for event loops; see `rough`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import penstock
from tests.faults import rough
from tests.faults.payloads import payload, value_of
from tests.faults.rough import (
    ATTEMPT_S,
    EARLY,
    LATE,
    PRODUCERS,
    READER_ATTEMPTS,
    READER_S,
    TOPICS,
    Outcome,
    Users,
)
from tests.faults.site import until
from tests.faults.victim import DEADLINE_S, Victim
from tests.support.history import History, Write
from tests.support.proxy import ROUGH, Proxy, Schedule


def by_async_client(home: Path, seed: int, appends: int) -> Outcome:
    with Victim(home).start() as victim:
        rough.create_topics(victim)
        with Proxy(lambda: victim.address, Schedule(seed, ROUGH)) as proxy:
            users = AsyncUsers(proxy.url)
            asyncio.run(users.run(appends))
        final = Users(proxy.url)
        final.history = users.history
        final.read_all(rough.url_of(victim))
    users.history.judge(rough.FINAL)
    return Outcome(users.history, proxy)


class AsyncUsers:
    """Producers and consumers on one loop. A consumer watches all topics, another follows each."""

    def __init__(self, url: str) -> None:
        self.history = History()
        self._url = url

    async def run(self, appends: int) -> None:
        async with (
            penstock.AsyncClient(self._url, timeout_s=ATTEMPT_S) as writer,
            penstock.AsyncClient(
                self._url, timeout_s=READER_S, attempts_max=READER_ATTEMPTS
            ) as reader,
        ):
            async with self._reading(EARLY, self._watch(reader)), asyncio.TaskGroup() as tasks:
                for number in range(PRODUCERS):
                    name, count = f"p{number}", appends // PRODUCERS
                    tasks.create_task(self._produce(writer, name, count))
            async with self._reading(LATE, *(self._follow(reader, topic) for topic in TOPICS)):
                pass

    @asynccontextmanager
    async def _reading(self, name: str, *readers: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        """Read meanwhile, and to the end."""
        tasks = [asyncio.ensure_future(reader) for reader in readers]
        try:
            yield
            await until(lambda: not self._behind(name) or any(t.done() for t in tasks), DEADLINE_S)
        except TimeoutError:
            self.history.anomalies.append("asleep: " + "; ".join(self._behind(name)))
        finally:
            for task in tasks:
                task.cancel()
            for found in await asyncio.gather(*tasks, return_exceptions=True):
                if not isinstance(found, asyncio.CancelledError):
                    self.history.anomalies.append(f"ended: a reader with {found!r}")

    def _behind(self, name: str) -> list[str]:
        return self.history.behind([name], self.history.heads)

    async def _produce(self, client: penstock.AsyncClient, name: str, count: int) -> None:
        topics = list(TOPICS)
        for step in range(count):
            write = self.history.begin(name, topics[step % len(topics)], 1 + step % 3)
            answer = await _appended(client, write)
            write.attempts = 2  # how often it was sent is the client's own affair
            self.history.acked(write, answer.first_seq, answer.last_seq, deduped=answer.deduped)

    async def _watch(self, client: penstock.AsyncClient) -> None:
        async with aclosing(client.watch(list(TOPICS))) as items:
            async for topic, item in items:
                self._note(EARLY, topic, item)

    async def _follow(self, client: penstock.AsyncClient, topic: str) -> None:
        async with aclosing(client.follow(topic)) as items:
            async for item in items:
                self._note(LATE, topic, item)

    def _note(self, reader: str, topic: str, item: object) -> None:
        if isinstance(item, penstock.Record):
            self.history.delivered(reader, topic, item.seq, value_of(item.data))
        elif isinstance(item, penstock.Gap):
            self.history.gap(reader, topic, item.first, item.last, item.reason)


async def _appended(client: penstock.AsyncClient, write: Write) -> penstock.Appended:
    """The client repeats by itself; what it gives up on is repeated here with its key."""
    records = [payload(value) for value in write.values]
    while True:
        try:
            return await client.append(write.topic, records, idempotency_key=write.key)
        except penstock.OutcomeUnknown as unknown:
            write.key = unknown.idempotency_key
        except penstock.ConnectionFailed:
            continue  # nothing was written
