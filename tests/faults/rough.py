"""Appends through a network that cuts, delays, repeats and swallows: by hand, and by the client."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import penstock
from tests.faults.payloads import payload, value_of
from tests.faults.readers import DiffReader
from tests.faults.site import Site
from tests.faults.victim import Victim, eventually
from tests.faults.writers import HttpSender, Writer
from tests.support.history import History, Write
from tests.support.proxy import ROUGH, Fault, Proxy, Schedule

PRODUCERS = 8
ATTEMPT_S = 2.0  # after which a producer gives up an answer, and repeats the append with its key
# A reader gives up on its first request for good, so it waits longer than any machine is busy.
READER_S = 60.0
READER_ATTEMPTS = 1000
KEY_LIFE_MS = 3_600_000  # however long a busy machine needs for the repetitions
TOPICS = {"a": "fsync", "b": "disk", "c": "disk"}
FINAL, EARLY, LATE = "final", "early", "late"  # readers


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    history: History
    proxy: Proxy

    def __str__(self) -> str:
        counts, history = self.proxy.counts, self.history
        faults = ", ".join(f"{counts[one]} {one.value}" for one in Fault if one is not Fault.NONE)
        return (
            f"{len(history.writes)} appends, {self.proxy.resets} resets, "
            f"{history.counts['deduped']} deduped, {len(history.anomalies)} anomalies ({faults})"
        )


def url_of(victim: Victim) -> str:
    host, port = victim.address
    return f"http://{host}:{port}"


def create_topics(victim: Victim) -> None:
    with penstock.connect(url_of(victim)) as client:
        for name, durability in TOPICS.items():
            client.create(name, durability=durability, idempotency_window_ms=KEY_LIFE_MS)


# By hand: bare exchanges, repeated until they are answered.


def raw(home: Path, seed: int, appends: int, *, mutant: str | None = None) -> Outcome:
    with Victim(home, mutant=mutant).start() as victim:
        create_topics(victim)
        with Proxy(lambda: victim.address, Schedule(seed, ROUGH)) as proxy:
            history = asyncio.run(_append_raw(victim, proxy, seed, appends))
    history.judge(FINAL)
    return Outcome(history, proxy)


async def _append_raw(victim: Victim, proxy: Proxy, seed: int, appends: int) -> History:
    site = Site(lambda: proxy.address, list(TOPICS), answer_s=ATTEMPT_S, may_be_late=True)
    async with asyncio.TaskGroup() as tasks:
        for number in range(PRODUCERS):
            choose = random.Random(f"{seed}.{number}")
            sender = HttpSender(choose, ("json", "binary")[number % 2])
            writer = Writer(site, f"p{number}", sender, f"{seed}.w.{number}", has_keys=True)
            tasks.create_task(writer.run_some(appends // PRODUCERS))
    site.find = victim.find_address  # the verdict is read without faults
    await DiffReader(site, FINAL, is_binary=False).read_all()
    return site.history


# By the client: what a user would write.


def by_client(home: Path, seed: int, appends: int, *, mutant: str | None = None) -> Outcome:
    with Victim(home, mutant=mutant).start() as victim:
        create_topics(victim)
        with Proxy(lambda: victim.address, Schedule(seed, ROUGH)) as proxy:
            users = Users(proxy.url)
            users.run(appends)
        users.read_all(url_of(victim))
    users.history.judge(FINAL)
    return Outcome(users.history, proxy)


class Users:
    """Producers that share a client, and consumers with clients of their own."""

    def __init__(self, url: str) -> None:
        self.history = History()
        self._url = url
        self._lock = threading.Lock()  # of the history

    def run(self, appends: int) -> None:
        with (
            penstock.connect(self._url, timeout_s=ATTEMPT_S) as producer,
            ThreadPoolExecutor(PRODUCERS + 1) as pool,
        ):
            with self._watching(pool, EARLY):
                works = [
                    pool.submit(self._produce, producer, f"p{number}", appends // PRODUCERS)
                    for number in range(PRODUCERS)
                ]
                for work in works:
                    work.result()
            with self._watching(pool, LATE):  # a long backlog, cut anywhere
                pass

    @contextmanager
    def _watching(self, pool: ThreadPoolExecutor, name: str) -> Iterator[None]:
        """Follow all topics meanwhile, and to their end."""
        with penstock.connect(
            self._url, timeout_s=READER_S, attempts_max=READER_ATTEMPTS
        ) as client:
            watching = pool.submit(self._watch, client, name)
            try:
                yield
                eventually(lambda: watching.done() or not self._behind(name), f"the end of {name}")
            except AssertionError:
                self.history.anomalies.append("asleep: " + "; ".join(self._behind(name)))
            finally:
                client.close()
            watching.result()

    def _behind(self, name: str) -> list[str]:
        with self._lock:
            return self.history.behind([name], self.history.heads)

    def _produce(self, client: penstock.Client, name: str, count: int) -> None:
        topics = list(TOPICS)
        for step in range(count):
            with self._lock:
                write = self.history.begin(name, topics[step % len(topics)], 1 + step % 3)
            answer = _appended(client, write)
            write.attempts = 2  # how often it was sent is the client's own affair
            with self._lock:
                self.history.acked(write, answer.first_seq, answer.last_seq, deduped=answer.deduped)

    def _watch(self, client: penstock.Client, name: str) -> None:
        """Until the client is closed."""
        for topic, item in client.watch(list(TOPICS)):
            with self._lock:
                if isinstance(item, penstock.Record):
                    self.history.delivered(name, topic, item.seq, value_of(item.data))
                elif isinstance(item, penstock.Gap):
                    self.history.gap(name, topic, item.first, item.last, item.reason)

    def read_all(self, url: str) -> None:
        history = self.history
        with penstock.connect(url) as client:
            for topic in TOPICS:
                after, is_over = 0, False
                while not is_over:
                    page = client.read(topic, after, 1000)
                    if page.gap is not None:
                        history.gap(FINAL, topic, page.gap.first, page.gap.last, page.gap.reason)
                    for record in page.records:
                        history.delivered(FINAL, topic, record.seq, value_of(record.data))
                    history.passed(FINAL, topic, page.next_seq)
                    after, is_over = page.next_seq, page.caught_up


def _appended(client: penstock.Client, write: Write) -> penstock.Appended:
    """The client repeats by itself; what it gives up on is repeated here with its key."""
    records = [payload(value) for value in write.values]
    while True:
        try:
            return client.append(write.topic, records, idempotency_key=write.key)
        except penstock.OutcomeUnknown as unknown:
            write.key = unknown.idempotency_key
        except penstock.ConnectionFailed:
            continue  # nothing was written
