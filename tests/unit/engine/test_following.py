"""Following a topic: everything that is there, then everything that comes, and an end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.engine.engine import Log
from penstock.testing import FakeClock
from penstock.types import Gap, Record
from tests.support.serving import DEADLINE_S
from tests.unit.engine.support import told


class Follower:
    """Follows on a thread of its own and lets the test wait for what it saw."""

    def __init__(self, events: Iterator[Record | Gap]) -> None:
        self.seen: list[object] = []
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, args=(events,))
        self._thread.start()

    def _run(self, events: Iterator[Record | Gap]) -> None:
        for event in events:
            with self._changed:
                self.seen.append(event.data if isinstance(event, Record) else told(event))
                self._changed.notify()

    def sees(self, *expected: object) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.seen == list(expected), DEADLINE_S)

    def ends(self) -> bool:
        self._thread.join(DEADLINE_S)
        return not self._thread.is_alive()


def test_following_gives_what_is_there_and_then_ends_without_news(
    memory_log: Log, penstock_clock: FakeClock
) -> None:
    memory_log.append("t", [1, 2, 3])

    assert [event.data for event in memory_log.follow("t", 1, timeout_s=0.0)] == [2, 3]


def test_following_a_tag_gives_only_that(memory_log: Log) -> None:
    memory_log.append("t", [1, 2], tag="a")
    memory_log.append("t", [3])
    memory_log.append("t", [4], tag="ab")

    events = memory_log.follow("t", 1, tag="a*", timeout_s=0.0)

    assert [event.data for event in events] == [2, 4]


@pytest.mark.parametrize("durability", ["ephemeral", "memory", "disk", "fsync"])
def test_a_follower_sees_each_record_as_it_becomes_visible(
    penstock_log: Log, durability: str
) -> None:
    penstock_log.create("t", durability=durability)
    penstock_log.append("t", [1])
    follower = Follower(penstock_log.follow("t"))
    assert follower.sees(1)

    penstock_log.append("t", [2])
    assert follower.sees(1, 2)
    penstock_log.append("t", [3, 4])
    assert follower.sees(1, 2, 3, 4)

    penstock_log.drop("t")
    assert follower.ends()


def test_a_follower_hears_of_gaps_in_their_place(memory_log: Log) -> None:
    memory_log.create("t", cap_records=2)
    memory_log.append("t", [1, 2, 3, 4])
    events = memory_log.follow("t", timeout_s=0.0)

    first, second = next(events), next(events)
    memory_log.append("t", [5, 6, 7])
    rest = list(events)

    assert (told(first), second.data) == ((1, 2, "cap"), 3)
    assert [event.data if isinstance(event, Record) else told(event) for event in rest] == [
        4,
        (5, 5, "cap"),
        6,
        7,
    ]


def test_a_follower_leaves_its_own_records_out(memory_log: Log) -> None:
    memory_log.append("t", [1], node="me")
    memory_log.append("t", [2], node="you")

    assert [event.data for event in memory_log.follow("t", node="me", timeout_s=0.0)] == [2]


@pytest.mark.parametrize("ending", ["drop", "close"])
def test_following_ends_with_the_topic_and_with_the_log(tmp_path: Path, ending: str) -> None:
    log = penstock.open(tmp_path)
    log.append("t", [1])
    follower = Follower(log.follow("t"))
    assert follower.sees(1)

    if ending == "drop":
        log.drop("t")
    else:
        log.close()

    assert follower.ends()
    log.close()


def test_a_follower_that_stops_is_forgotten(memory_log: Log) -> None:
    memory_log.append("t", [1])
    events = memory_log.follow("t")
    next(events)
    during = len(memory_log.core.parts.handles["t"].listeners)

    events.close()

    assert (during, memory_log.core.parts.handles["t"].listeners) == (1, ())
