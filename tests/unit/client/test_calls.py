"""Every verb as a value: paths, bodies, and what may be repeated."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest

from penstock.append_options import AppendOptions
from penstock.client import answers, calls
from penstock.client.calls import Call, ReadRequest
from penstock.errors import InvalidArgument
from penstock.types import Page, Record, TopicConfig, TopicInfo
from penstock.wire import binary_batch


def append(**changed: Any) -> Call[Any]:
    given: dict[str, Any] = {"tag": None, "node": None, "headers": {}, "options": {}} | changed
    given["options"] = AppendOptions(**given["options"])
    return calls.append("t", [1], **given)


def test_an_append_is_a_binary_batch() -> None:
    options = {"idempotency_key": "k", "create": False, "expected_seq": 7}
    call = append(tag="x", node="n", options=options, headers={"a": "b"})

    head, at, count = binary_batch.split_head(call.body)
    datas, metas, tags, nodes = binary_batch.split_records(call.body, at, count)

    assert (call.method, call.target) == ("POST", "/v0/topics/t?return_seqs=false")
    assert call.headers == {"Content-Type": binary_batch.CONTENT_TYPE, "a": "b"}
    assert json.loads(head) == {
        "node": "n",
        "idempotency_key": "k",
        "create": False,
        "expected_seq": 7,
    }
    assert (datas, metas, tags, nodes) == ([b"1"], None, [b"x"], None)
    assert call.is_change


def test_an_append_is_repeatable_with_a_key_and_only_then() -> None:
    assert append(options={"idempotency_key": "k"}).is_repeatable
    assert append(options={"idempotency_key": "k"}).key == "k"
    assert not append().is_repeatable


def test_made_up_keys_are_long_and_never_the_same() -> None:
    keys = {calls.new_key() for _ in range(1000)}

    assert len(keys) == 1000
    assert {len(key) for key in keys} == {32}


@pytest.mark.parametrize("pairs", [dict, lambda held: list(held.items())])
def test_an_atomic_append_is_pairs_or_a_mapping(pairs: Any) -> None:
    call = calls.append_many(
        pairs({"a": [Record(1, tag="own"), b"2.0"], "b": [None]}),
        tag="x",
        node="n",
        key="k",
        create=False,
        expected_seqs={"b": 3},
        headers={},
    )

    assert call.target == "/v0/batch"
    assert b'"data":2.0' in call.body
    shared = {"node": "n", "create": False}
    assert json.loads(call.body) == {
        "writes": [
            {
                "topic": "a",
                "records": [{"data": 1, "tag": "own"}, {"data": 2.0, "tag": "x"}],
                **shared,
            },
            {"topic": "b", "records": [{"data": None, "tag": "x"}], "expected_seq": 3, **shared},
        ],
        "idempotency_key": "k",
    }


@pytest.mark.parametrize(
    ("writes", "expected"),
    [
        *(({}, {}), ([], {}), ([("a", [1], 2)], {}), (["a"], {}), ([(7, [1])], {})),
        *(({"a": [1]}, {"b": 1}), ({"a": []}, {})),
    ],
)
def test_an_atomic_append_that_makes_no_sense_is_refused(writes: Any, expected: Any) -> None:
    with pytest.raises(InvalidArgument):
        calls.append_many(
            writes, tag=None, node=None, key=None, create=True, expected_seqs=expected, headers={}
        )


@pytest.mark.parametrize("name", ["a b", "a/b", "ä", "a?b", "a%2fb", "..", "a\r\nb"])
def test_no_name_leaves_its_place_in_the_path(name: str) -> None:
    target = calls.topic(name).target.partition("?")[0]

    assert target.startswith("/v0/topics/")
    assert "/" not in target.removeprefix("/v0/topics/")
    assert target.isascii()
    assert not set(target) & set(" \r\n?#")


@pytest.mark.parametrize("name", ["", None, 7, "\ud800"])
def test_a_name_that_is_none_is_refused_before_sending(name: Any) -> None:
    with pytest.raises(InvalidArgument):
        calls.topic(name)


def test_a_read_asks_for_what_it_is_told_and_for_nothing_else() -> None:
    whole = ReadRequest(5, 10, ["n"], "x*", 3, 100, None, True, 99.0)

    assert json.loads(ReadRequest().body()) == {"from_seq": 0}
    assert json.loads(ReadRequest(from_ts=7, after=3).body()) == {"from_ts": 7}
    assert json.loads(whole.body()) == {
        "from_seq": 5,
        "limit": 10,
        "node": ["n"],
        "tag": "x*",
        "epoch": 3,
        "max_batch_bytes": 100,
        "consistency": "strong",
        "wait_ms": 30_000,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        *({"after": -1}, {"after": "1"}, {"after": True}, {"after": 1 << 64}, {"limit": 0}),
        *({"limit": "3"}, {"from_ts": -1}, {"tag": object()}, {"epoch": object()}),
    ],
)
def test_a_read_that_makes_no_sense_is_refused_before_sending(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        calls.read("t", ReadRequest(**wrong))


def test_a_delete_by_tag_is_not_repeatable_and_one_below_a_seq_is() -> None:
    assert calls.delete("t", 5, None).is_repeatable
    assert not calls.delete("t", None, "x").is_repeatable
    assert not calls.delete("t", 5, "x").is_repeatable
    assert json.loads(calls.delete("t", 5, ["tag", "Eq", "x"]).body) == {
        "before_seq": 5,
        "match": ["tag", "Eq", "x"],
    }


def test_a_delete_of_nothing_is_refused_before_sending() -> None:
    with pytest.raises(InvalidArgument):
        calls.delete("t", None, None)


def test_questions_change_nothing_and_may_be_repeated() -> None:
    questions: list[Call[Any]] = [
        *(calls.topic("t"), calls.read("t", ReadRequest()), calls.positions("t"), calls.health()),
        *(calls.position("t", "n"), calls.ready(), calls.metrics(), calls.stats()),
    ]

    assert not any(call.is_change for call in questions)
    assert all(call.is_repeatable for call in questions)


def test_changes_are_known_as_such() -> None:
    changes: list[Call[Any]] = [
        *(append(), calls.drop("t"), calls.delete("t", 1, None)),
        *(calls.move_position("t", "n", 1, None), calls.drop_position("t", "n")),
    ]

    assert all(call.is_change for call in changes)


def test_a_position_has_its_own_place_below_its_topic() -> None:
    call = calls.move_position("t", "a b", 5, 2)

    assert (call.method, call.target) == ("PUT", "/v0/topics/t/positions/a%20b")
    assert json.loads(call.body) == {"seq": 5, "epoch": 2}


# Verbs of several calls.


def carry_out(steps: Generator[Call[Any], Any, Any], *replies: Any) -> tuple[list[str], Any]:
    """(what was asked, the answer)"""
    asked = [next(steps)]
    for reply in replies:
        try:
            asked.append(steps.send(reply))
        except StopIteration as done:
            return [f"{call.method} {call.target}" for call in asked], done.value
    raise AssertionError(f"more is asked: {asked[-1]}")


INFO = TopicInfo("t", 1, 1, TopicConfig(), 5, 1, 6, 5, 10, 0, None)


def test_a_topic_just_made_needs_no_second_look() -> None:
    put = answers.Put("t", True, TopicConfig(cap_records=3), 9)

    asked, info = carry_out(calls.create("t", {"cap_records": 3}), put)

    assert asked == ["PUT /v0/topics/t"]
    assert (info.epoch, info.head_seq, info.config.cap_records) == (9, 0, 3)


def test_a_topic_that_was_there_is_looked_at() -> None:
    asked, info = carry_out(calls.create("t", {}), answers.Put("t", False, TopicConfig(), 1), INFO)

    assert asked == ["PUT /v0/topics/t", "GET /v0/topics/t?touch=false"]
    assert info is INFO


@pytest.mark.parametrize("config", [{"cap_records": object()}, {"cap_recrods": 3}])
def test_a_configuration_that_makes_no_sense_is_refused_before_sending(config: Any) -> None:
    with pytest.raises(InvalidArgument):
        next(calls.create("t", config))


def topic_of(name: str, config: TopicConfig | None = None) -> Any:
    return answers._Topic(name, 5, 1, 5, 10, 1, config)


def test_a_list_goes_page_by_page_and_asks_for_what_it_lacks() -> None:
    first = answers.TopicsPage([topic_of("a", TopicConfig()), topic_of("b")], "c=1&x")
    second = answers.TopicsPage([topic_of("c")])

    asked, found = carry_out(calls.topics("p&"), first, INFO, second, None)

    assert asked == [
        "GET /v0/topics?prefix=p%26&page_size=1000&config=true",
        "GET /v0/topics/b?touch=false",
        "GET /v0/topics?prefix=p%26&page_size=1000&config=true&cursor=c%3D1%26x",
        "GET /v0/topics/c?touch=false",
    ]
    assert [info.name for info in found] == ["a", "t"]  # c was dropped meanwhile


@pytest.mark.parametrize(("records", "after"), [([Record(seq=7)], 6), ([], 9)])
def test_a_seek_ends_before_the_first_record_at_that_time_or_at_the_head(
    records: list[Record], after: int
) -> None:
    page = Page(records, None, 9, 9, 1, True, 1)

    asked, found = carry_out(calls.seek("t", 1000), page)

    assert asked == ["POST /v0/topics/t/diff"]
    assert found == after
