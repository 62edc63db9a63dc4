"""POST /v0/watch: the session, before any stream is opened."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.server.support import Api, holds, new_name, now_ms, refused


def test_a_session_says_where_each_topic_starts(api: Api, topic: str) -> None:
    other = new_name()
    api.create(topic, cap_records=3)
    api.write(topic, *range(5))
    api.create(other)

    answer = api.watch({topic: {"from_seq": 4}, other: {}})

    assert set(answer) >= {"wid", "stream_url", "session_ttl_ms", "topics", "performance"}
    assert re.fullmatch(r"wid_[A-Za-z0-9_-]{22}", answer["wid"])
    assert answer["stream_url"] == f"/v0/watch/{answer['wid']}"
    assert answer["session_ttl_ms"] == 300_000
    at = {
        topic: {"from_seq": 4, "head_seq": 5, "earliest_seq": 3},
        other: {"from_seq": 0, "head_seq": 0, "earliest_seq": 1},
    }
    assert set(answer["topics"]) == set(at)
    assert holds(answer["topics"], at)


def test_a_tail_starts_at_the_head(api: Api, topic: str) -> None:
    api.write(topic, 1, 2, 3)

    started = api.watch({topic: {"tail": True}})["topics"][topic]

    assert holds(started, {"from_seq": 3, "head_seq": 3, "earliest_seq": 1})


def test_a_session_can_start_at_a_time(api: Api, topic: str) -> None:
    api.write(topic, 1, 2, 3)

    at_end = api.watch({topic: {"from_ts": now_ms() + 3_600_000}})["topics"][topic]
    at_start = api.watch({topic: {"from_ts": 0}})["topics"][topic]

    assert at_end["from_seq"] == 3
    assert at_start["from_seq"] == 0


def test_sessions_cannot_be_guessed(api: Api, topic: str) -> None:
    api.create(topic)

    wids = {api.watch([topic])["wid"] for _ in range(30)}

    assert len(wids) == 30
    assert len({wid[4:8] for wid in wids}) > 20


def test_an_unknown_topic_refuses_the_session_unless_lenient(api: Api, topic: str) -> None:
    missing = new_name("missing")
    api.create(topic)
    body = {"topics": {topic: {}, missing: {}}}

    refused(api.post("/v0/watch", body), 404, "topic_not_found", {"topic": missing})
    reply = api.post("/v0/watch?lenient=true", body)

    assert reply.status == 200
    assert set(reply.json["topics"]) == {topic}
    refused(api.get(f"/v0/topics/{missing}"), 404, "topic_not_found")


@pytest.mark.parametrize("consistency", ["eventual", "strong"])
def test_both_consistencies_are_known(api: Api, topic: str, consistency: str) -> None:
    api.create(topic)

    assert api.watch([topic], consistency=consistency)["wid"]


@pytest.mark.parametrize(
    "change",
    [
        {"topics": []},
        {"topics": None},
        {"topics": "T"},
        {"topics": {"T": 5}},
        {"topics": {"T": {"from_seq": -1}}},
        {"topics": {"T": {"from_seq": "0"}}},
        {"topics": {"T": {"tail": "yes"}}},
        {"topics": {"T": {"from_ts": "now"}}},
        {"topics": {"T": {"epoch": "one"}}},
        {"topics": {"T": {"tag": ["tag", "Like", "x"]}}},
        {"tag": 5},
        {"node": 5},
        {"limit": "all"},
        {"max_batch_bytes": -1},
        {"heartbeat_ms": "often"},
        {"include_meta": "yes"},
        {"include_tags": 1},
        {"include_data": "no"},
        {"consistency": "sometimes"},
    ],
    ids=repr,
)
def test_a_session_of_wrong_types_is_invalid(api: Api, topic: str, change: dict[str, Any]) -> None:
    api.create(topic)
    body = {"topics": {topic: {}}} | change
    if isinstance(body["topics"], dict) and "T" in body["topics"]:
        body["topics"] = {topic: body["topics"]["T"]}

    refused(api.post("/v0/watch", body), 400, "invalid_request")


def test_a_pattern_lists_the_topics_it_matches_now(api: Api) -> None:
    prefix = new_name("wild")
    api.write(f"{prefix}:a", 1, 2)
    api.create(f"{prefix}:b")
    api.create(f"{prefix}.c")

    answer = api.watch({f"{prefix}:*": {}})

    at = {
        f"{prefix}:a": {"from_seq": 0, "head_seq": 2, "earliest_seq": 1},
        f"{prefix}:b": {"from_seq": 0, "head_seq": 0, "earliest_seq": 1},
    }
    assert set(answer["topics"]) == set(at)
    assert holds(answer["topics"], at)


def test_a_pattern_may_match_nothing_yet(api: Api) -> None:
    answer = api.watch({f"{new_name('none')}:*": {}})

    assert answer["topics"] == {}


def test_the_settings_of_a_pattern_hold_for_its_matches(api: Api) -> None:
    prefix = new_name("wild")
    api.write(f"{prefix}:a", 1, 2, 3)
    api.write(f"{prefix}:b", 1)

    answer = api.watch({f"{prefix}:*": {"tail": True}})

    assert {name: at["from_seq"] for name, at in answer["topics"].items()} == {
        f"{prefix}:a": 3,
        f"{prefix}:b": 1,
    }
