"""A service over a log in memory, and what came of the appends to it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from penstock.config import Settings
from penstock.engine import batch as batches
from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.server.appends import Answer
from penstock.server.service import Service
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import ROOT, open_memory_log
from penstock.types import Appended, Removed
from penstock.wire.models import WriteOptions
from tests.unit.server.support import PATIENCE_S


def threaded_log(fs: MemoryFilesystem | None = None, **settings: Any) -> Log:
    """One whose own threads do its work."""
    chosen = {"wal_shards": 2, "segment_max_events": 20, **settings}
    return open_log(ROOT, settings=Settings(**chosen), fs=fs or MemoryFilesystem())


async def delete(service: Service, topic: str, before_seq: int) -> Removed:
    """Delete records and wait for the answer."""
    waiting: asyncio.Future[Removed | Exception] = asyncio.get_running_loop().create_future()
    service.delete(topic, before_seq, None, (), waiting.set_result)
    answer = await waiting
    assert isinstance(answer, Removed), answer
    return answer


class Bench:
    """A service and what came of what was sent to it."""

    def __init__(self, log: Log | None = None, *, total_bytes_max: int = 0) -> None:
        self.log = log or open_memory_log()
        self.service = Service(
            asyncio.get_running_loop(), FakeClock(), total_bytes_max=total_bytes_max
        )
        self.service.adopt(self.log.core)
        self.service._admission_queue._timeout_s = PATIENCE_S
        self.answers: list[Any] = []
        self.created: list[bool] = []  # of each append that succeeded: did it create its topic?
        self.threads: set[threading.Thread] = set()

    def append(
        self, topic: str, records: list[Any], *, key: str | None = None, **given: Any
    ) -> None:
        self.submit(topic, batches.prepare(records, tag=None, node=None, key=key), **given)

    def submit(self, topic: str, batch: batches.Batch, **given: Any) -> None:
        def done(answer: Answer) -> None:
            self.threads.add(threading.current_thread())
            if isinstance(answer, Appended):
                self.created.append(answer.created)
                self.answers.append((answer.first_seq, answer.deduped))
            else:
                self.answers.append(answer)

        self.service.append(topic, batch, WriteOptions(**given), done)

    def datas(self, topic: str) -> list[Any]:
        return [record.data for record in self.log.read(topic, 0, 10_000).records]

    async def close(self) -> None:
        await asyncio.to_thread(self.service.close)
