"""What the log holds as of one moment, without reading records: heads, floors, counts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Protocol

from penstock.client.client import Client, connect
from penstock.engine.view import View, look
from penstock.errors import TopicNotFound
from penstock.lake.manifest import Place
from penstock.lake.project import Source
from penstock.topics import reading


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as it was."""

    name: str
    epoch: int
    head: int
    live: int
    lost_floor: int  # the highest seq of the beginning that was evicted or has expired
    losses: tuple[tuple[int, int], ...] = ()  # first and last seqs of what was lost behind it


class Census(Protocol):
    """The topics that a pipeline reads."""

    @property
    def log_id(self) -> str:
        """Empty when it is not known."""

    @property
    def topics(self) -> dict[str, TopicFacts]: ...

    def live(self, topic: str, first: int, last: int) -> int | None:
        """Records that are alive from one seq to another; None when that is not known."""


def take(source: Source) -> Census:
    """The log as of now. TopicNotFound for a topic that is named and is not there."""
    if source.url:
        with server(source) as client:
            census: Census = _of_server(source, client)
    else:
        census = DirectoryCensus(source, look(source.path))
    return census


def heads_of(census: Census) -> dict[str, Place]:
    return {name: Place(facts.epoch, facts.head) for name, facts in census.topics.items()}


def lag_of(census: Census, topic: str, place: Place | None) -> int:
    """Live records of a topic past what has been read. At a server it is an upper bound."""
    facts = census.topics[topic]
    if place is None or place.epoch != facts.epoch:
        return facts.live
    exact = census.live(topic, place.seq + 1, facts.head)
    return min(facts.live, facts.head - place.seq) if exact is None else exact


@contextmanager
def server(source: Source) -> Iterator[Client]:
    """A client of the server that the source names. Its token is in the environment alone."""
    with closing(connect(source.url, os.environ.get(source.token_env) or None)) as client:
        yield client


class DirectoryCensus:
    """Of a data directory: exact to the record. Immutable."""

    def __init__(self, source: Source, view: View) -> None:
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
        (before, _), (behind, _) = reading.unread(held, [first - 1, last])
        return before - behind


class ServerCensus:
    """Of a server: what it tells of each topic. Immutable."""

    log_id = ""

    def __init__(self, topics: dict[str, TopicFacts]) -> None:
        self.topics = topics

    def live(self, topic: str, first: int, last: int) -> int | None:
        return None


def _of_server(source: Source, client: Client) -> ServerCensus:
    found = {}
    for info in client.topics():
        if not source.matches(info.name) or info.name.startswith("_"):
            continue
        gap = client.read(info.name, after=0, limit=1).gap
        floor = 0 if gap is None else gap.last
        found[info.name] = TopicFacts(info.name, info.epoch, info.head_seq, info.count, floor)
    return ServerCensus(found)
