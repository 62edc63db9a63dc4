"""Loss is told, removal is not: caps, time, both, and topics made anew."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.support import Api, datas_of, seqs_of
from tests.support.serving import eventually


def gap(answer: Any) -> tuple[int, int, str] | None:
    tombstone = answer["tombstone"]
    if tombstone is None:
        return None
    assert set(tombstone) == {
        "gap_from",
        "gap_to",
        "reason",
        "missed_estimate",
        "earliest_seq",
        "head_seq",
    }
    assert tombstone["head_seq"] == answer["head_seq"]
    return tombstone["gap_from"], tombstone["gap_to"], tombstone["reason"]


def expire(api: Api, topic: str) -> None:
    eventually(lambda: api.state(topic)["count"] == 0, "everything grew too old")


def test_a_cap_in_records_lets_the_oldest_go_and_says_so(api: Api, topic: str) -> None:
    api.create(topic, cap_records=3)
    api.write(topic, *range(1, 6))

    answer = api.diff(topic, limit=2)

    assert gap(answer) == (1, 2, "cap")
    assert answer["tombstone"]["missed_estimate"] == 2
    assert answer["tombstone"]["earliest_seq"] == 3
    assert datas_of(answer) == [3, 4]
    assert (answer["next_from_seq"], answer["earliest_seq"], answer["lag"]) == (4, 3, 1)


@pytest.mark.parametrize(
    ("cursor", "told"),
    [(0, (1, 2, "cap")), (1, (2, 2, "cap")), (2, None), (3, None), (5, None)],
)
def test_a_gap_is_what_this_reader_missed(
    api: Api, topic: str, cursor: int, told: tuple[int, int, str] | None
) -> None:
    api.create(topic, cap_records=3)
    api.write(topic, *range(5))

    answer = api.diff(topic, from_seq=cursor)

    assert gap(answer) == told
    assert seqs_of(answer) == list(range(max(cursor, 2) + 1, 6))


@pytest.mark.parametrize(
    "fields",
    [{}, {"from_seq": 0}, {"wait_ms": 50}, {"consistency": "strong"}, {"tag": "*"}, {"limit": 9}],
    ids=repr,
)
def test_a_reader_without_a_cursor_starts_at_nothing_and_is_told(
    api: Api, topic: str, fields: dict[str, Any]
) -> None:
    api.create(topic, cap_records=3)
    api.tagged(topic, *"abcde")

    answer = api.diff(topic, **fields)

    assert gap(answer) == (1, 2, "cap")
    assert seqs_of(answer) == [3, 4, 5]


def test_a_cap_in_bytes_lets_the_oldest_go_until_the_rest_fits(api: Api, topic: str) -> None:
    api.create(topic, cap_bytes=100)
    for _ in range(5):
        api.write(topic, "x" * 38)

    answer = api.diff(topic)

    assert gap(answer) == (1, 3, "cap")
    assert seqs_of(answer) == [4, 5]
    assert api.state(topic)["bytes"] == 80


def test_each_cap_counts_for_itself(api: Api, topic: str) -> None:
    api.create(topic, cap_records=2, cap_bytes=10_000)
    api.write(topic, 1, 2, 3)
    assert seqs_of(api.diff(topic)) == [2, 3]

    api.create(topic, cap_records=100, cap_bytes=100)
    api.write(topic, "x" * 97)

    assert seqs_of(api.diff(topic)) == [3, 4]


def test_deleted_records_do_not_count_for_a_cap(api: Api, topic: str) -> None:
    api.create(topic, cap_records=3)
    api.tagged(topic, "a", "b", "c")
    api.remove(topic, match="b")

    api.tagged(topic, "d")

    answer = api.diff(topic)
    assert seqs_of(answer) == [1, 3, 4]
    assert gap(answer) is None
    api.tagged(topic, "e")
    later = api.diff(topic)
    assert seqs_of(later) == [3, 4, 5]
    assert later["tombstone"]["gap_from"] == 1


def test_age_lets_records_go_and_says_so(api: Api, topic: str) -> None:
    api.create(topic, ttl_ms=1)
    api.write(topic, 1, 2, 3)
    expire(api, topic)

    answer = api.diff(topic)

    assert gap(answer) == (1, 3, "ttl")
    assert answer["records"] == []
    assert (answer["next_from_seq"], answer["caught_up"]) == (3, True)
    assert (answer["earliest_seq"], answer["head_seq"]) == (4, 3)
    assert answer["tombstone"]["missed_estimate"] == 3
    assert gap(api.diff(topic, from_seq=3)) is None


def test_a_record_that_is_not_old_stays(api: Api, topic: str) -> None:
    api.create(topic, ttl_ms=3_600_000)
    api.write(topic, 1)

    assert seqs_of(api.diff(topic)) == [1]


def test_a_tighter_age_takes_effect_at_once(api: Api, topic: str) -> None:
    first = api.write(topic, "old")
    eventually(lambda: api.write(topic, "tick")["ts"] > first["ts"] + 20, "some time has passed")

    api.create(topic, ttl_ms=10)

    answer = api.diff(topic)
    assert answer["tombstone"]["reason"] == "ttl"
    assert "old" not in datas_of(answer)


def test_cap_and_age_together_are_mixed(api: Api, topic: str) -> None:
    """Mixed, where both reach into what this reader missed."""
    api.create(topic, cap_records=2)
    api.write(topic, 1, 2, 3)
    api.create(topic, cap_records=2, ttl_ms=1)
    expire(api, topic)

    assert gap(api.diff(topic)) == (1, 3, "mixed")
    assert gap(api.diff(topic, from_seq=1)) == (2, 3, "ttl")


def test_a_delete_below_a_loss_does_not_hide_it(api: Api, topic: str) -> None:
    api.create(topic, cap_records=3)
    api.write(topic, *range(5))

    api.remove(topic, before_seq=5)

    answer = api.diff(topic)
    assert gap(answer) == (1, 2, "cap")
    assert seqs_of(answer) == [5]
    assert answer["earliest_seq"] == 5
    assert answer["tombstone"]["earliest_seq"] == 3
    silent = api.diff(topic, from_seq=2)
    assert (gap(silent), seqs_of(silent)) == (None, [5])


def test_a_tag_deleted_at_the_front_moves_the_earliest_in_silence(api: Api, topic: str) -> None:
    api.tagged(topic, "a", "a", "b")

    api.remove(topic, match="a")

    answer = api.diff(topic)
    assert (answer["earliest_seq"], gap(answer), seqs_of(answer)) == (3, None, [3])


def test_a_cursor_past_the_head_means_another_topic(api: Api, topic: str) -> None:
    api.write(topic, *"abc")

    answer = api.diff(topic, from_seq=9)

    assert gap(answer) == (1, 3, "recreated")
    assert datas_of(answer) == list("abc")
    assert answer["next_from_seq"] == 3


def test_a_cursor_past_the_head_of_an_empty_topic(api: Api, topic: str) -> None:
    api.create(topic)

    answer = api.diff(topic, from_seq=1)

    assert gap(answer) == (1, 0, "recreated")
    assert (answer["records"], answer["next_from_seq"]) == ([], 0)


def test_a_topic_made_anew_is_noticed_by_an_old_cursor(api: Api, topic: str) -> None:
    api.write(topic, *range(10))
    api.drop(topic)
    api.write(topic, "new")

    answer = api.diff(topic, from_seq=10)

    assert gap(answer) == (1, 1, "recreated")
    assert datas_of(answer) == ["new"]


def test_the_filtered_are_not_a_loss(api: Api, topic: str) -> None:
    api.create(topic, cap_records=3)
    api.write(topic, *range(5), node="me")

    answer = api.diff(topic, node="me")

    assert gap(answer) == (1, 2, "cap")
    assert answer["records"] == []
    assert (answer["next_from_seq"], answer["caught_up"]) == (5, True)


def test_every_seq_is_read_or_told_of_exactly_once(api: Api, topic: str) -> None:
    """A slow reader of a small topic, in steps, while a writer goes on."""
    api.create(topic, cap_records=50)
    seen, cursor = [], 0
    for step in range(40):
        api.write(topic, *range(17))
        answer = api.diff(topic, from_seq=cursor, limit=10)
        tombstone = answer["tombstone"]
        if tombstone:
            assert tombstone["gap_from"] == cursor + 1
            seen += range(tombstone["gap_from"], tombstone["gap_to"] + 1)
        seen += seqs_of(answer)
        cursor = answer["next_from_seq"]
        assert seen == list(range(1, cursor + 1)), step
