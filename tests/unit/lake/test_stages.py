from __future__ import annotations

from penstock.lake.manifest import ReadPosition
from penstock.lake.stages import OffsetRange, ended, next_step, past
from penstock.types import Offset


def test_everything_up_to_the_heads_in_one_step() -> None:
    found = next_step({"a": ReadPosition(1, 5)}, {"a": Offset(1, 9), "b": Offset(2, 3)}, 100)

    assert found == OffsetRange(
        {"a": Offset(1, 5), "b": Offset(2, 0)},
        {"a": Offset(1, 9), "b": Offset(2, 3)},
        True,
    )


def test_nothing_new_is_no_step() -> None:
    assert (
        next_step({"a": ReadPosition(1, 9)}, {"a": Offset(1, 9), "empty": Offset(3, 0)}, 100)
        is None
    )


def test_a_step_has_an_end() -> None:
    heads = {"a": Offset(1, 9), "b": Offset(2, 9), "c": Offset(3, 9)}

    found = next_step({}, heads, 12)

    assert found is not None
    assert found.ends == {"a": Offset(1, 9), "b": Offset(2, 3)}
    assert found.read == {"a": ReadPosition(1, 9), "b": ReadPosition(2, 3)}
    assert not found.is_last


def test_steps_come_to_the_heads_whatever_their_size() -> None:
    heads = {"a": Offset(1, 9), "b": Offset(2, 4), "c": Offset(3, 0)}
    for size in range(1, 20):
        read: dict[str, ReadPosition] = {}
        while (step := next_step(read, heads, size)) is not None:
            for topic in step.topics:
                start = read.get(topic, ReadPosition(heads[topic].epoch, 0))
                assert step.starts[topic] == Offset(start.epoch, start.seq)
            read |= step.read
        assert read == {"a": ReadPosition(1, 9), "b": ReadPosition(2, 4)}


def test_a_recreated_topic_has_something_to_tell_even_when_it_is_empty() -> None:
    found = next_step({"a": ReadPosition(1, 5)}, {"a": Offset(7, 0)}, 100)

    assert found == OffsetRange({"a": Offset(1, 5)}, {"a": Offset(7, 0)}, True)


def test_what_lies_past_a_place() -> None:
    read = {"a": ReadPosition(2, 10)}

    assert not past(read, "a", 2, 10)
    assert not past(read, "a", 1, 99)
    assert past(read, "a", 2, 11)
    assert past(read, "a", 3, 1)
    assert past(read, "b", 1, 1)


def test_a_topic_that_was_dropped_is_told_once() -> None:
    read = {"a": ReadPosition(1, 5), "b": ReadPosition(2, 3), "other": ReadPosition(3, 1)}

    gone = ended(read, {"b": Offset(2, 3)}, lambda topic: topic != "other")

    assert gone == {"a": ReadPosition(1, 5, is_ended=True)}
    assert ended(read | gone, {"b": Offset(2, 3)}, lambda topic: topic != "other") == {}


def test_a_topic_that_was_told_to_be_dropped_begins_anew_when_it_comes_back() -> None:
    read = {"a": ReadPosition(1, 5, is_ended=True)}

    assert next_step(read, {"a": Offset(7, 0)}, 100) is None
    assert next_step(read, {"a": Offset(7, 2)}, 100) == OffsetRange(
        {"a": Offset(7, 0)}, {"a": Offset(7, 2)}, True
    )
    assert next_step(read, {"a": Offset(1, 8)}, 100) == OffsetRange(
        {"a": Offset(1, 5)}, {"a": Offset(1, 8)}, True
    )
