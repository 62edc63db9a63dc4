"""POST /v0/topics/:topic/diff: what a reader gets, and where it goes on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.support import Api, datas_of, holds, now_ms, refused, seqs_of
from tests.support.serving import eventually

DIFF = {
    "topic",
    "records",
    "next_from_seq",
    "head_seq",
    "earliest_seq",
    "caught_up",
    "tombstone",
    "lag",
    "epoch",
    "performance",
}


def test_an_empty_topic_reads_as_caught_up(api: Api, topic: str) -> None:
    epoch = api.create(topic)["epoch"]

    answer = api.diff(topic)

    assert set(answer) >= DIFF
    assert holds(
        answer,
        {
            "topic": topic,
            "records": [],
            "next_from_seq": 0,
            "head_seq": 0,
            "earliest_seq": 1,
            "caught_up": True,
            "tombstone": None,
            "lag": 0,
            "epoch": epoch,
        },
    )


def test_a_cursor_goes_through_the_topic(api: Api, topic: str) -> None:
    api.write(topic, *"abcde")

    first = api.diff(topic, limit=2)
    second = api.diff(topic, from_seq=first["next_from_seq"], limit=2)
    third = api.diff(topic, from_seq=second["next_from_seq"], limit=2)

    assert [datas_of(answer) for answer in (first, second, third)] == [
        ["a", "b"],
        ["c", "d"],
        ["e"],
    ]
    assert [answer["next_from_seq"] for answer in (first, second, third)] == [2, 4, 5]
    assert [answer["caught_up"] for answer in (first, second, third)] == [False, False, True]
    assert [answer["lag"] for answer in (first, second, third)] == [3, 1, 0]
    assert {answer["head_seq"] for answer in (first, second, third)} == {5}
    assert {answer["earliest_seq"] for answer in (first, second, third)} == {1}


def test_at_the_head_there_is_nothing_more(api: Api, topic: str) -> None:
    api.write(topic, 1, 2)

    answer = api.diff(topic, from_seq=2)

    assert answer["records"] == []
    assert (answer["next_from_seq"], answer["caught_up"], answer["lag"]) == (2, True, 0)


def test_reading_changes_nothing(api: Api, topic: str) -> None:
    api.write(topic, 1, 2)

    answers = [api.diff(topic) for _ in range(3)]

    assert {str(answer["records"]) for answer in answers} == {str(answers[0]["records"])}


def test_tags_are_shown_when_asked_for_and_meta_unless_not(api: Api, topic: str) -> None:
    api.write(topic, records=[{"data": 1, "tag": "t", "meta": 5, "node": "n"}])

    plain = api.diff(topic)["records"][0]
    tagged = api.diff(topic, include_tags=True)["records"][0]
    bare = api.diff(topic, include_meta=False)["records"][0]

    assert set(plain) == {"$seq", "$ts", "$node", "data", "meta"}
    assert set(tagged) == {"$seq", "$ts", "$node", "$tag", "data", "meta"}
    assert set(bare) == {"$seq", "$ts", "$node", "data"}


# Own records.


def nodes(api: Api, topic: str) -> None:
    records = [{"data": n, "node": node} for n, node in enumerate("abab", 1)]
    api.write(topic, records=[*records, {"data": 5}])


@pytest.mark.parametrize(
    ("node", "seen"),
    [
        ("a", [2, 4, 5]),
        ("b", [1, 3, 5]),
        (["a", "b"], [5]),
        ("A", [1, 2, 3, 4, 5]),
        ("ab", [1, 2, 3, 4, 5]),
        ([], [1, 2, 3, 4, 5]),
        (None, [1, 2, 3, 4, 5]),
    ],
)
def test_a_reader_does_not_get_its_own_records(
    api: Api, topic: str, node: Any, seen: list[int]
) -> None:
    nodes(api, topic)

    answer = api.diff(topic, node=node)

    assert seqs_of(answer) == seen
    assert answer["tombstone"] is None
    assert (answer["next_from_seq"], answer["caught_up"]) == (5, True)


def test_own_records_move_the_cursor_and_do_not_count_for_the_limit(api: Api, topic: str) -> None:
    nodes(api, topic)

    first = api.diff(topic, node="a", limit=1)
    only_own = api.diff(topic, node=["a", "b"], from_seq=0, limit=1)

    assert (seqs_of(first), first["next_from_seq"]) == ([2], 2)
    assert seqs_of(only_own) == [5]
    api.write(topic, 6, node="a")
    at_end = api.diff(topic, node="a", from_seq=5)
    assert (at_end["records"], at_end["next_from_seq"], at_end["caught_up"]) == ([], 6, True)


def test_a_topic_can_show_everybody_everything(api: Api, topic: str) -> None:
    api.create(topic, dedupe_node=False)
    nodes(api, topic)

    assert seqs_of(api.diff(topic, node="a")) == [1, 2, 3, 4, 5]


def test_own_records_are_left_out_far_into_a_long_topic(api: Api, topic: str) -> None:
    for _ in range(3):
        api.write(topic, *[0] * 10_000, node="me")
    api.write(topic, "theirs", node="you")

    answer = api.diff(topic, node="me", limit=1)

    assert seqs_of(answer) == [30_001]


# By tag.

TAGS = ["chat-42:a", "chat-420:c", None, "chat-42:b", "chat-42:", "x"]


@pytest.mark.parametrize(
    ("tag", "seen"),
    [
        ("chat-42:a", [1]),
        ("chat-42:*", [1, 4, 5]),
        ("chat-42*", [1, 2, 4, 5]),
        ("*", [1, 2, 4, 5, 6]),
        ("nothing", []),
        (["tag", "Eq", "x"], [6]),
        (["tag", "Glob", "chat-42:*"], [1, 4, 5]),
        (["tag", "Eq", "chat-42:*"], []),
    ],
    ids=str,
)
def test_a_reader_can_ask_for_tags(api: Api, topic: str, tag: Any, seen: list[int]) -> None:
    api.tagged(topic, *TAGS)

    answer = api.diff(topic, tag=tag)

    assert seqs_of(answer) == seen
    assert (answer["next_from_seq"], answer["caught_up"], answer["lag"]) == (6, True, 0)
    assert answer["tombstone"] is None


def test_other_tags_move_the_cursor_and_do_not_count_for_the_limit(api: Api, topic: str) -> None:
    api.tagged(topic, *TAGS)

    first = api.diff(topic, tag="chat-42:*", limit=2)
    rest = api.diff(topic, tag="chat-42:*", limit=2, from_seq=first["next_from_seq"])

    assert seqs_of(first) == [1, 4]
    assert first["next_from_seq"] == 4
    assert first["caught_up"] is False
    assert seqs_of(rest) == [5]
    assert rest["caught_up"] is True


def test_tags_are_found_far_into_a_long_topic(api: Api, topic: str) -> None:
    for _ in range(3):
        api.write(topic, records=[{"data": 0, "tag": "noise"}] * 10_000)
    api.tagged(topic, "signal")

    assert seqs_of(api.diff(topic, tag="sig*", limit=1)) == [30_001]


def test_tag_and_node_hold_together(api: Api, topic: str) -> None:
    records = [{"data": 1, "tag": tag, "node": node} for tag in "xy" for node in "ab"]
    api.write(topic, records=records)

    assert seqs_of(api.diff(topic, tag="x", node="a")) == [2]


# By time.


def test_a_reader_can_start_at_a_time(api: Api, topic: str) -> None:
    first = api.write(topic, "before", "before")

    def later() -> Any:
        answer = api.write(topic, "after")
        return answer if answer["ts"] > first["ts"] else None

    after = eventually(later, "the clock moves on")

    assert seqs_of(api.diff(topic, from_ts=after["ts"]))[0] == after["first_seq"]
    assert seqs_of(api.diff(topic, from_ts=first["ts"]))[0] == 1
    assert seqs_of(api.diff(topic, from_ts=first["ts"] + 1))[0] == after["first_seq"]
    assert seqs_of(api.diff(topic, from_ts=0))[0] == 1


def test_a_time_to_come_is_the_end(api: Api, topic: str) -> None:
    api.write(topic, 1, 2)

    answer = api.diff(topic, from_ts=now_ms() + 3_600_000)

    assert answer["records"] == []
    assert (answer["next_from_seq"], answer["caught_up"]) == (2, True)


def test_a_seq_goes_before_a_time(api: Api, topic: str) -> None:
    api.write(topic, 1, 2, 3)

    assert seqs_of(api.diff(topic, from_seq=2, from_ts=0)) == [3]
    assert seqs_of(api.diff(topic, from_seq=0, from_ts=now_ms() + 3_600_000)) == [1, 2, 3]


# By epoch and consistency.


def test_a_cursor_of_this_life_of_the_topic_reads_on(api: Api, topic: str) -> None:
    epoch = api.write(topic, 1, 2, 3)["epoch"]

    answer = api.diff(topic, from_seq=1, epoch=epoch)

    assert (seqs_of(answer), answer["tombstone"], answer["epoch"]) == ([2, 3], None, epoch)


def test_a_cursor_of_another_life_of_the_topic_is_told_and_starts_anew(
    api: Api, topic: str
) -> None:
    """Also when the new topic has more records than the old cursor: nothing is skipped."""
    old = api.write(topic, *range(3))
    api.drop(topic)
    api.write(topic, *"abcde")

    answer = api.diff(topic, from_seq=3, epoch=old["epoch"])

    assert datas_of(answer) == list("abcde")
    assert answer["tombstone"]["reason"] == "recreated"
    assert answer["epoch"] != old["epoch"]
    assert answer["caught_up"] is True


@pytest.mark.parametrize("durability", ["ephemeral", "memory", "disk", "fsync"])
def test_a_strong_reader_gets_everything_that_was_answered(
    api: Api, topic: str, durability: str
) -> None:
    api.create(topic, durability=durability)
    for n in range(5):
        api.write(topic, n)

        assert datas_of(api.diff(topic, consistency="strong")) == list(range(n + 1))
    assert datas_of(api.diff(topic, consistency="eventual")) == list(range(5))


def test_a_missing_topic_is_missing_however_one_asks(api: Api, topic: str) -> None:
    for body in ({}, {"wait_ms": 1000}, {"consistency": "strong"}, {"from_ts": 1}):
        refused(api.post(f"/v0/topics/{topic}/diff", body), 404, "topic_not_found")
