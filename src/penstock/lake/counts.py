"""Heads, floors and record counts of the topics at one moment. Reads no records."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Protocol

from penstock.client.client import Client
from penstock.client.connect import connect
from penstock.directory.directory_view import DirectoryView, look
from penstock.errors import TopicNotFound
from penstock.lake.project import Source
from penstock.topics import read_plan, validation
from penstock.types import Offset


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic at that moment."""

    name: str
    epoch: int
    head: int
    live: int
    lost_floor: int  # all seqs up to here were evicted or have expired
    losses: tuple[tuple[int, int], ...] = ()  # lost ranges above the floor: first, last


class LogCounts(Protocol):
    """The topics that a pipeline reads."""

    @property
    def log_id(self) -> str:
        """Empty if unknown."""

    @property
    def topics(self) -> dict[str, TopicFacts]: ...

    def live(self, topic: str, first: int, last: int) -> int | None:
        """How many live records a range of seqs has; None if unknown."""


def of_source(source: Source) -> LogCounts:
    """The counts of the log now."""
    if source.url:
        with server(source) as client:
            counts: LogCounts = _of_server(source, client)
    else:
        counts = DirectoryCounts(source, look(source.path))
    return counts


def heads_of(counts: LogCounts) -> dict[str, Offset]:
    return {name: Offset(facts.epoch, facts.head) for name, facts in counts.topics.items()}


def lag_of(counts: LogCounts, topic: str, position: Offset | None) -> int:
    """Live records of a topic that have not been read. For a server this is an upper bound."""
    facts = counts.topics[topic]
    if position is None or position.epoch != facts.epoch:
        return facts.live
    exact = counts.live(topic, position.seq + 1, facts.head)
    return min(facts.live, facts.head - position.seq) if exact is None else exact


@contextmanager
def server(source: Source) -> Iterator[Client]:
    """A client of the source's server. The token comes from the environment."""
    with closing(connect(source.url, os.environ.get(source.token_env) or None)) as client:
        yield client


class DirectoryCounts:
    """Exact counts of a data directory. Immutable."""

    def __init__(self, source: Source, view: DirectoryView) -> None:
        self._view = view
        self.log_id = view.layout.log_id.hex()
        self.topics: dict[str, TopicFacts] = {}
        for topic in view.topics():
            if source.matches(topic.name):
                self.topics[topic.name] = TopicFacts(
                    topic.name,
                    topic.epoch,
                    topic.head,
                    topic.live,
                    min(topic.lost_floor, topic.head),
                    tuple((loss.first, loss.last) for loss in topic.losses),
                )

    def live(self, topic: str, first: int, last: int) -> int | None:
        held = self._view.topic(topic)
        if held is None:
            raise TopicNotFound(topic)
        (before, _), (behind, _) = read_plan.unread(held, [first - 1, last])
        return before - behind


class ServerCounts:
    """Counts that a server reports for whole topics. Immutable."""

    log_id = ""

    def __init__(self, topics: dict[str, TopicFacts]) -> None:
        self.topics = topics

    def live(self, topic: str, first: int, last: int) -> int | None:
        return None


def _of_server(source: Source, client: Client) -> ServerCounts:
    found = {}
    for info in client.topics():
        if not source.matches(info.name) or validation.is_internal(info.name):
            continue
        gap = client.read(info.name, after=0, limit=1).gap
        floor = 0 if gap is None else gap.last
        found[info.name] = TopicFacts(info.name, info.epoch, info.head_seq, info.count, floor)
    return ServerCounts(found)
