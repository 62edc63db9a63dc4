"""The checks of a push."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
import pytest

from penstock.clock import Clock
from penstock.engine.batch import from_columns, from_table
from penstock.errors import InvalidArgument, PenstockError, SchemaMismatch
from penstock.features.definition import Definition
from penstock.features.event_push import EventPush
from penstock.features.feature_log import AppendUnderWay
from penstock.projections.projection import Tail
from penstock.testing.clock import FakeClock
from penstock.types import Appended

GOOD = {"id": 1, "note": "é"}
DEFINITION = Definition.parse(
    {"events": [{"name": "E", "fields": {"id": "i64", "note": {"type": "str", "optional": True}}}]}
)


T = TypeVar("T")


class FakeLog:
    """Keeps what is appended."""

    def __init__(self) -> None:
        self.appended: list[tuple[str, list[bytes], bool]] = []

    @property
    def clock(self) -> Clock:
        return FakeClock()

    def append(self, topic: str, texts: list[bytes], *, is_synced: bool) -> Appended:
        self.appended.append((topic, texts, is_synced))
        return Appended(topic, 1, len(texts), len(texts), len(texts), 1, 0, False)

    def tail(self, topic: str) -> Tail:
        raise NotImplementedError

    def uninterrupted(self, verb: Callable[[], T]) -> T:
        return verb()

    def load_registry(self) -> bytes | None:
        raise NotImplementedError

    def save_registry(self, text: bytes) -> None:
        raise NotImplementedError

    def check_topics(self, topics: Mapping[str, bool]) -> None:
        raise NotImplementedError

    def create_topics(self, topics: Mapping[str, bool]) -> None:
        raise NotImplementedError

    def lacks_records(self, topic: str) -> bool:
        raise NotImplementedError

    def queue(
        self,
        topic: str,
        texts: list[bytes],
        done: Callable[[Appended | PenstockError], None] | None = None,
    ) -> AppendUnderWay:
        raise NotImplementedError

    def flush(self, topic: str) -> None:
        raise NotImplementedError

    def check_sync(self, topic: str) -> None:
        """This topic can be synced."""

    def sync(self, topic: str, seq: int) -> None:
        raise NotImplementedError

    def watermarks(self, topic: str) -> tuple[int, int, int]:
        raise NotImplementedError

    def seek(self, topic: str, ts_ms: int) -> int:
        raise NotImplementedError


def pusher(log: FakeLog) -> EventPush:
    return EventPush(DEFINITION.events["E"], log, None)


def test_events_are_appended_as_texts_to_the_topic_of_their_type() -> None:
    log = FakeLog()

    pushed = pusher(log).push([GOOD, b'{"id": 2}'], "per_event", 7)

    assert log.appended == [("E", ['{"id":1,"note":"é"}'.encode(), b'{"id": 2}'], True)]
    assert (pushed.event, pushed.count, pushed.version) == ("E", 2, 7)


@pytest.mark.parametrize("good", [0, 1, 40])
@pytest.mark.parametrize(
    "wrong", [{}, {"id": "1"}, {"id": 1, "x": 2}, {"id": 1, "note": 3}, b"[1]", b"{", b"1"]
)
def test_one_wrong_event_among_any_number_is_found(good: int, wrong: Any) -> None:
    log = FakeLog()

    with pytest.raises(SchemaMismatch) as refused:
        pusher(log).push([GOOD] * good + [wrong] + [GOOD] * good, None, 1)

    assert not log.appended
    assert (refused.value.event, refused.value.index) == ("E", good or None)


def test_the_events_of_an_array_are_found_in_it_if_all_of_them_fit() -> None:
    body = b'[{"id":1}, {"note":"n","id":2}]'

    table = pusher(FakeLog()).spans(body, 2)

    assert table is not None
    batch = from_table(body, table)
    apart = from_columns([b'{"id":1}', b'{"note":"n","id":2}'], None, None, None, are_valid=True)
    assert batch.count == 2
    assert batch.encode(1, 2, 3, 4) == apart.encode(1, 2, 3, 4)


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'[{"id":1},{}]',
        b'[{"id":1},{"id":1,"x":2}]',
        b'[{"id":1},2]',
        b'[{"id":1},{"id":2},{"id":3}]',
        b'[{"id":1}',
        '[{"id":1,"note":"é"}]'.encode(),
    ],
)
def test_an_array_of_anything_else_is_looked_at_event_by_event(body: bytes) -> None:
    assert pusher(FakeLog()).spans(body, 2) is None


def test_a_push_without_events_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="no event"):
        pusher(FakeLog()).push([], None, 1)


def test_an_event_that_is_not_json_able_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="JSON"):
        pusher(FakeLog()).push([{"id": object()}], None, 1)


NOW_MS = FakeClock().now_ms()
TIMED = Definition.parse(
    {
        "events": [
            {
                "name": "E",
                "fields": {"id": "i64", "at": {"type": "i64", "optional": True}},
                "time": {"field": "at", "ahead": "1m"},
            }
        ]
    }
)


def timed(at: Any) -> dict[str, Any]:
    return {"id": 1, "at": at}


@pytest.mark.parametrize("good", [0, 1, 40])
@pytest.mark.parametrize(
    "at", [NOW_MS + 60_001, NOW_MS * 1000, float(NOW_MS * 1000), 2**62, -(2**53), None]
)
def test_a_time_that_would_be_bad_is_refused_among_any_number(good: int, at: Any) -> None:
    log = FakeLog()
    push = EventPush(TIMED.events["E"], log, None)
    events = [timed(NOW_MS)] * good + [timed(at)] + [timed(0)] * good

    with pytest.raises(SchemaMismatch, match=r"field 'at' is") as refused:
        push.push(events, None, 1)

    assert not log.appended
    wrong = refused.value
    assert (wrong.event, wrong.field, wrong.value) == ("E", "at", at)
    assert wrong.index == (good or None)
    if at is not None and at > 0:
        assert f"at most 1m ahead of the commit of its event ({NOW_MS})" in str(wrong)
    assert push.spans(msgspec.json.encode(events), 100) is None


def test_a_time_within_its_bounds_is_pushed() -> None:
    log = FakeLog()
    push = EventPush(TIMED.events["E"], log, None)
    events = [timed(NOW_MS + 60_000), timed(float(NOW_MS)), timed(-(2**53) + 1)] * 4

    assert push.push(events, None, 1).count == 12
    assert push.push(events[:1], None, 1).count == 1
    assert push.spans(msgspec.json.encode(events), 100) is not None
