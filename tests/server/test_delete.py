"""POST /v0/topics/:topic/delete: for good, at once, in silence, and only what was there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.support import Api, at_once, datas_of, holds, refused, seqs_of


def test_a_delete_says_what_it_did(api: Api, topic: str) -> None:
    api.write(topic, *range(5))

    answer = api.remove(topic, before_seq=3)

    assert holds(
        answer,
        {
            "topic": topic,
            "deleted": 2,
            "earliest_seq": 3,
            "head_seq": 5,
            "count": 3,
            "bytes": 3,
        },
    )


def test_a_deleted_prefix_is_passed_over_in_silence(api: Api, topic: str) -> None:
    api.write(topic, *range(5))
    api.remove(topic, before_seq=4)

    for cursor in (0, 1, 2, 3):
        answer = api.diff(topic, from_seq=cursor)

        assert seqs_of(answer) == [4, 5]
        assert answer["tombstone"] is None
        assert answer["earliest_seq"] == 4
    assert api.diff(topic, from_seq=4)["next_from_seq"] == 5


def test_everything_can_be_deleted_and_the_topic_goes_on(api: Api, topic: str) -> None:
    api.write(topic, 1, 2, 3)

    answer = api.remove(topic, before_seq=100)

    assert (answer["deleted"], answer["count"], answer["bytes"]) == (3, 0, 0)
    assert (answer["earliest_seq"], answer["head_seq"]) == (4, 3)
    empty = api.diff(topic)
    assert (empty["records"], empty["next_from_seq"], empty["caught_up"]) == ([], 3, True)
    assert empty["tombstone"] is None
    assert api.write(topic, "next")["seqs"] == [4]
    assert seqs_of(api.diff(topic)) == [4]


def test_a_delete_beyond_the_head_does_not_reach_later_records(api: Api, topic: str) -> None:
    api.write(topic, 1)
    api.remove(topic, before_seq=1_000_000)
    api.remove(topic, match="*")

    api.tagged(topic, "later")

    assert datas_of(api.diff(topic)) == ["later"]


def test_a_delete_again_finds_nothing(api: Api, topic: str) -> None:
    api.tagged(topic, "a", "a", "b")

    assert api.remove(topic, match="a")["deleted"] == 2
    assert api.remove(topic, match="a")["deleted"] == 0
    assert api.remove(topic, before_seq=3)["deleted"] == 0
    assert api.remove(topic, before_seq=0)["deleted"] == 0


TAGS = ["chat-42:a", "chat-420:c", None, "chat-42:b", "x", "chat-42:*"]


@pytest.mark.parametrize(
    ("match", "left"),
    [
        ("chat-42:a", [2, 3, 4, 5, 6]),
        ("chat-42:*", [2, 3, 5]),
        (["tag", "Glob", "chat-42:*"], [2, 3, 5]),
        (["tag", "Eq", "chat-42:*"], [1, 2, 3, 4, 5]),
        (["tag", "Eq", "x"], [1, 2, 3, 4, 6]),
        ("*", [3]),
        (["tag", "Glob", "*"], [3]),
        ("chat", [1, 2, 3, 4, 5, 6]),
        ("CHAT-42:a", [1, 2, 3, 4, 5, 6]),
    ],
    ids=str,
)
def test_a_tag_takes_the_records_that_have_it(
    api: Api, topic: str, match: Any, left: list[int]
) -> None:
    api.tagged(topic, *TAGS)

    answer = api.remove(topic, match=match)

    assert answer["deleted"] == 6 - len(left)
    read = api.diff(topic)
    assert seqs_of(read) == left
    assert read["tombstone"] is None
    assert (read["next_from_seq"], read["caught_up"]) == (6, True)
    assert read["earliest_seq"] == left[0]
    assert api.state(topic)["count"] == len(left)


def test_tag_and_seq_hold_together(api: Api, topic: str) -> None:
    api.tagged(topic, "a", "b", "a", "a")

    assert api.remove(topic, match="a", before_seq=4)["deleted"] == 2

    assert seqs_of(api.diff(topic)) == [2, 4]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"before_seq": None, "match": None},
        {"before_seq": -1},
        {"before_seq": "3"},
        {"before_seq": 1.5},
        {"match": 5},
        {"match": []},
        {"match": ["tag", "Eq"]},
        {"match": ["tag", "Eq", "a", "b"]},
        {"match": ["tag", "Eq", 5]},
        {"match": ["node", "Eq", "a"]},
        {"match": ["tag", "eq", "a"]},
        {"match": ["tag", "Glob", "a"]},
        {"match": ["tag", "Glob", "a*b"]},
        {"match": {"tag": "a"}},
    ],
    ids=repr,
)
def test_a_delete_without_a_clear_choice_is_invalid(api: Api, topic: str, body: Any) -> None:
    api.tagged(topic, "a")

    refused(api.post(f"/v0/topics/{topic}/delete", body), 400, "invalid_request")

    assert api.state(topic)["count"] == 1


def test_the_choice_is_checked_before_the_topic(api: Api, topic: str) -> None:
    target = f"/v0/topics/{topic}/delete"

    refused(api.post(target, {}), 400, "invalid_request")
    refused(api.post(target, {"before_seq": 1}), 404, "topic_not_found", {"topic": topic})


def test_the_bytes_are_nothing_exactly_when_the_count_is(api: Api, topic: str) -> None:
    api.tagged(topic, "a", "b")

    assert api.remove(topic, match="a")["bytes"] == len('"b"')
    assert api.remove(topic, match="b")["bytes"] == 0


def test_deletes_and_writes_at_the_same_time_lose_nothing_else(api: Api, topic: str) -> None:
    api.create(topic)

    def work(n: int) -> int:
        if n == 0:
            return sum(int(api.remove(topic, match="drop")["deleted"]) for _ in range(10))
        for _ in range(10):
            api.tagged(topic, "keep", "drop")
        return 0

    at_once(5, work)
    api.remove(topic, match="drop")

    answer = api.diff(topic, include_tags=True, limit=1000)
    assert {record["$tag"] for record in answer["records"]} == {"keep"}
    assert len(answer["records"]) == 40
    assert answer["tombstone"] is None
    assert api.state(topic)["count"] == 40
