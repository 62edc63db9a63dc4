"""One queue per topic for appends that cannot be submitted now.

An append waits while its topic is created, while a RAM-only topic reserves seqs, during a batch
over several topics in its topic, and, if its caller prefers that to a refusal, while the write
queue is full. Every later append to a topic with a queue waits at its end, so that none overtakes.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from penstock.engine.batch import Batch
from penstock.errors import Overloaded
from penstock.server.appends import Answer
from penstock.types import TopicConfig
from penstock.wire.models import WriteOptions

_RETRY_S: Final = 0.002
_TIMEOUT_S: Final = 30.0


class Obstacle(enum.Enum):
    """The reason why an append cannot be submitted yet."""

    TOPIC_MISSING = "create the topic"
    SEQS_MISSING = "reserve seqs"


class PendingAppend:
    """A queued append. `done` is called once, on the loop, and never from within the call that adds
    the append."""

    __slots__ = (
        "batch",
        "check",
        "done",
        "is_admitted",
        "is_new_topic",
        "options",
        "placed",
        "since_s",
        "topic",
        "waited_s",
    )

    def __init__(
        self,
        topic: str,
        batch: Batch,
        options: WriteOptions,
        done: Callable[[Answer], None],
        placed: Callable[[], None] | None = None,
        check: Callable[[TopicConfig], None] | None = None,
    ) -> None:
        self.topic = topic
        self.batch = batch
        self.options = options
        self.done = done
        self.placed = placed  # told when the append is in the log's queue, if it had to wait
        self.check = check  # raises if the append must not be submitted to such a topic any more
        self.is_admitted = False  # its bytes count towards the quota
        self.is_new_topic = False  # the topic was created for it
        self.since_s = 0.0  # when it began to wait
        self.waited_s = 0.0  # for room


class TopicHold:
    """A batch over several topics. It waits in all their queues, and is granted when it is the
    first in each. All holds join their queues at once, so none waits for a later one."""

    __slots__ = ("granted", "left", "topics")

    def __init__(self, topics: Sequence[str], granted: asyncio.Future[None]) -> None:
        self.topics = topics
        self.left = set(topics)
        self.granted = granted

    def reach(self, topic: str) -> None:
        """The batch is the first in this topic's queue."""
        self.left.discard(topic)
        if not self.left and not self.granted.done():
            self.granted.set_result(None)


class _TopicQueue:
    __slots__ = ("waiting", "was_full")

    def __init__(self) -> None:
        self.waiting: deque[PendingAppend | TopicHold] = deque()
        self.was_full = False  # somebody waits, or waited, for room


class AdmissionQueue:
    """Event loop only. First come, first served, in each topic.

    `submit` passes an append to the log, returns the obstacle, or raises. `overcome` begins to
    remove an obstacle, and calls back later on the loop, with the error if any. `post` calls later,
    in order with the answers of the log: a slow caller must not delay the others.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        submit: Callable[[PendingAppend], Obstacle | None],
        overcome: Callable[[PendingAppend, Obstacle, Callable[[Exception | None], None]], None],
        post: Callable[[Callable[[Any], None], Any], object],
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self._loop = loop
        self._post = post
        self._submit = submit
        self._overcome = overcome
        self._timeout_s = timeout_s
        self._topics: dict[str, _TopicQueue] = {}

    def __len__(self) -> int:
        return sum(len(queue.waiting) for queue in self._topics.values())

    def has(self, topic: str) -> bool:
        """True if appends wait for this topic; then every new one has to wait."""
        return topic in self._topics

    @property
    def waiting_bytes(self) -> int:
        """The payloads of all appends that wait."""
        return sum(
            one.batch.payload_bytes
            for queue in self._topics.values()
            for one in queue.waiting
            if isinstance(one, PendingAppend)
        )

    def add(self, append: PendingAppend, obstacle: Obstacle | None = None) -> None:
        """Add an append to the queue. The first one waits until `obstacle` is removed, or for
        room."""
        append.since_s = self._loop.time()
        queue = self._topics.get(append.topic)
        if queue is not None:
            queue.waiting.append(append)
            return
        queue = self._topics[append.topic] = _TopicQueue()
        queue.waiting.append(append)
        if obstacle is not None:
            self._work(queue, append, obstacle)
        else:
            self._retry_later(append.topic, queue)

    async def hold(self, topics: Sequence[str]) -> TopicHold:
        """Hold these topics: earlier appends come first, later ones wait."""
        hold = TopicHold(topics, self._loop.create_future())
        for topic in topics:
            queue = self._topics.setdefault(topic, _TopicQueue())
            queue.waiting.append(hold)
            if queue.waiting[0] is hold:
                hold.reach(topic)
        try:
            await hold.granted
        except BaseException:
            self.release(hold)
            raise
        return hold

    def release(self, hold: TopicHold) -> None:
        """The batch is done."""
        for topic in hold.topics:
            queue = self._topics[topic]
            is_first = queue.waiting[0] is hold
            queue.waiting.remove(hold)
            if is_first:
                self._advance(topic, queue)

    def _advance(self, topic: str, queue: _TopicQueue) -> None:
        """Submit appends from the front, until one has to wait."""
        waiting = queue.waiting
        while waiting:
            first = waiting[0]
            if isinstance(first, TopicHold):
                first.reach(topic)
                return
            now_s = self._loop.time()
            if queue.was_full:
                first.waited_s = now_s - first.since_s
            try:
                obstacle = self._submit(first)
            except Overloaded as error:
                if first.placed is not None or now_s - first.since_s < self._timeout_s:
                    self._retry_later(topic, queue)
                    return
                self._reject(queue, error)
            except Exception as error:  # noqa: BLE001 - it is the answer to this append alone
                self._reject(queue, error)
            else:
                if obstacle is not None:
                    self._work(queue, first, obstacle)
                    return
                waiting.popleft()
                if first.placed is not None:
                    self._post(_call, first.placed)
        del self._topics[topic]

    def _reject(self, queue: _TopicQueue, error: Exception) -> None:
        """Answer the first with an error."""
        first = queue.waiting.popleft()
        if isinstance(first, PendingAppend):
            self._post(first.done, error)

    def _retry_later(self, topic: str, queue: _TopicQueue) -> None:
        queue.was_full = True
        self._loop.call_later(_RETRY_S, self._advance, topic, queue)

    def _work(self, queue: _TopicQueue, first: PendingAppend, obstacle: Obstacle) -> None:
        def overcome(error: Exception | None) -> None:
            if error is not None:  # for the first; the next finds out for itself
                self._reject(queue, error)
            self._advance(first.topic, queue)

        self._overcome(first, obstacle, overcome)


def _call(placed: Callable[[], None]) -> None:
    placed()
