"""The ids of appends that are queued."""

from __future__ import annotations

import pytest

from penstock.errors import TopicFull
from penstock.features.ids_under_way import IdsUnderWay
from penstock.types import Appended


class Queued:
    """An append that is done when the test says so."""

    def __init__(self, first_seq: int) -> None:
        self.first_seq = first_seq
        self.is_done = False

    def wait(self) -> Appended:
        raise NotImplementedError


def never() -> None:
    raise AssertionError("nothing was left behind")


def test_an_id_is_known_with_its_seq_until_its_append_is_done() -> None:
    ids = IdsUnderWay(never)
    ids.begin("id")
    first, second = Queued(7), Queued(9)
    ids.queue([{"id": "a"}, {"id": 3}], lambda: first)
    ids.queue([{"id": "b"}, {}], lambda: second)

    ids.begin("id")
    assert [ids.find("id", one) for one in ("a", 3, "b", "c")] == [7, 8, 9, None]

    first.is_done = True
    ids.begin("id")
    assert [ids.find("id", one) for one in ("a", 3, "b")] == [None, None, 9]

    second.is_done = True
    ids.begin("id")
    assert ids.find("id", "b") is None


def test_an_append_that_is_refused_leaves_no_id_behind() -> None:
    ids = IdsUnderWay(never)
    ids.begin("id")
    ids.queue([{"id": "a"}], lambda: Queued(1))

    def full() -> Queued:
        raise TopicFull("t", cap_records=1, cap_bytes=0, head_seq=1, earliest_seq=1)

    with pytest.raises(TopicFull):
        ids.queue([{"id": "a"}, {"id": "b"}], full)

    ids.begin("id")
    assert (ids.find("id", "a"), ids.find("id", "b")) == (1, None)


def test_an_event_type_whose_ids_are_elsewhere_finds_those_that_are_under_way() -> None:
    ids = IdsUnderWay(never)
    ids.begin("id")
    ids.queue([{"id": "a", "key": "k"}, {"id": "b", "key": "k"}], lambda: Queued(1))

    ids.begin("key")

    assert (ids.find("key", "k"), ids.find("key", "a"), ids.find("id", "b")) == (1, None, 2)


def test_what_an_interrupted_call_left_is_waited_for() -> None:
    flushed: list[None] = []
    ids = IdsUnderWay(lambda: flushed.append(None))
    ids.begin("id")

    def interrupted() -> Queued:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ids.queue([{"id": "a"}], interrupted)
    assert not flushed

    ids.begin("id")
    assert flushed == [None]
    assert ids.find("id", "a") is None  # the index knows it now, if it was appended
    ids.begin("id")
    assert flushed == [None]
