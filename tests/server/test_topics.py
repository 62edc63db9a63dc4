"""GET and DELETE of a topic, and the list of topics."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest

from tests.server.support import CONFIG, Api, holds, new_name, now_ms, refused

STATE = {
    "topic",
    "type",
    "head_seq",
    "earliest_seq",
    "next_seq",
    "count",
    "bytes",
    "config",
    "effective_priority",
    "last_write_ts",
    "last_read_ts",
    "epoch",
    "performance",
}


def test_a_fresh_topic_is_empty(api: Api, topic: str) -> None:
    made = api.create(topic)

    state = api.state(topic, "?touch=false")

    assert set(state) >= STATE
    assert "queue" not in state
    assert holds(
        state,
        {
            "topic": topic,
            "type": "log",
            "head_seq": 0,
            "earliest_seq": 1,
            "next_seq": 1,
            "count": 0,
            "bytes": 0,
            "config": CONFIG,
            "effective_priority": 0,
            "last_write_ts": None,
            "last_read_ts": None,
            "epoch": made["epoch"],
        },
    )


def test_the_state_counts_records_and_payload_bytes(api: Api, topic: str) -> None:
    """Bytes are those of data and meta as JSON; tag, node and framing do not count."""
    began = now_ms()
    api.write(
        topic,
        records=[
            {"data": {"w": 41}, "tag": "long tag", "node": "long node"},
            {"data": None},
            {"data": "é", "meta": {"m": 1}},
        ],
    )

    state = api.state(topic)

    assert (state["head_seq"], state["earliest_seq"], state["next_seq"]) == (3, 1, 4)
    assert state["count"] == 3
    assert state["bytes"] == len('{"w":41}') + len("null") + len('"é"'.encode()) + len('{"m":1}')
    assert began - 1000 <= state["last_write_ts"] <= now_ms() + 1000


def test_a_look_touches_unless_told_not_to(api: Api, topic: str) -> None:
    api.create(topic)

    untouched = api.state(topic, "?touch=false")
    touched = api.state(topic)

    assert untouched["last_read_ts"] is None
    assert untouched["effective_priority"] == 0
    assert touched["effective_priority"] == 500
    assert abs(touched["last_read_ts"] - now_ms()) < 60_000


def test_a_diff_touches(api: Api, topic: str) -> None:
    api.create(topic)

    api.diff(topic)

    assert api.state(topic, "?touch=false")["last_read_ts"] is not None


@pytest.mark.parametrize(
    ("priority", "effective"), [(7, 7), (-3, -3), (5000, 1000), (-5000, -1000), (0, 0)]
)
def test_a_priority_given_is_the_priority(
    api: Api, topic: str, priority: int, effective: int
) -> None:
    api.create(topic, priority=priority)

    assert api.state(topic)["effective_priority"] == effective


def test_a_missing_topic_is_not_made_by_looking(api: Api, topic: str) -> None:
    for _ in range(2):
        refused(api.get(f"/v0/topics/{topic}"), 404, "topic_not_found", {"topic": topic})


# The list.


def listed(api: Api, query: str) -> Any:
    return api.get(f"/v0/topics?{query}").json


def test_the_list_is_sorted_and_says_the_state_in_short(api: Api) -> None:
    prefix = new_name("list")
    for end in ("b", "a", "B", "c"):
        api.create(f"{prefix}.{end}", durable=end == "a")
    wrote = api.write(f"{prefix}.a", 1, 2)

    answer = listed(api, f"prefix={prefix}.")

    assert [item["topic"] for item in answer["topics"]] == [f"{prefix}.{e}" for e in "Babc"]
    assert holds(
        answer["topics"][1],
        {
            "topic": f"{prefix}.a",
            "head_seq": 2,
            "earliest_seq": 1,
            "count": 2,
            "bytes": 2,
            "durable": True,
            "effective_priority": 0,
            "epoch": wrote["epoch"],
        },
    )
    assert answer["topics"][0]["durable"] is False
    assert "next_cursor" not in answer


def test_pages_follow_one_another(api: Api) -> None:
    prefix = new_name("pages")
    names = [f"{prefix}.{n:02}" for n in range(7)]
    for name in names:
        api.create(name)

    found, query, pages = [], f"prefix={prefix}.&page_size=3", 0
    cursor = ""
    while True:
        answer = listed(api, query + cursor)
        found += [item["topic"] for item in answer["topics"]]
        pages += 1
        if "next_cursor" not in answer:
            break
        assert re.fullmatch(r"[A-Za-z0-9._~=-]+", answer["next_cursor"])
        cursor = f"&cursor={answer['next_cursor']}"

    assert found == names
    assert pages == 3


def test_the_last_full_page_has_no_cursor(api: Api) -> None:
    prefix = new_name("full")
    for n in range(4):
        api.create(f"{prefix}.{n}")

    answer = listed(api, f"prefix={prefix}.&page_size=4")

    assert len(answer["topics"]) == 4
    assert "next_cursor" not in answer


def test_a_cursor_survives_a_topic_that_went(api: Api) -> None:
    prefix = new_name("went")
    for n in range(4):
        api.create(f"{prefix}.{n}")
    page = listed(api, f"prefix={prefix}.&page_size=2")
    api.drop(f"{prefix}.1")
    api.create(f"{prefix}.1x")

    rest = listed(api, f"prefix={prefix}.&cursor={page['next_cursor']}")

    assert [item["topic"] for item in rest["topics"]] == [f"{prefix}.{e}" for e in ("1x", "2", "3")]


@pytest.mark.parametrize(
    "cursor",
    [
        "%%%not-base64%%%",
        "not-base64!",
        "AAAA",
        "%",
        base64.urlsafe_b64encode(b"[]").decode(),
        base64.urlsafe_b64encode(b'{"after":5}').decode(),
        base64.urlsafe_b64encode(b"\xff\xfe\xfd").decode(),
    ],
)
def test_a_cursor_that_is_none_of_ours_is_refused(api: Api, cursor: str) -> None:
    refused(api.get(f"/v0/topics?cursor={cursor}"), 400, "invalid_request")


def test_an_empty_cursor_is_no_cursor(api: Api, topic: str) -> None:
    api.create(topic)

    assert [item["topic"] for item in listed(api, f"prefix={topic}&cursor=")["topics"]] == [topic]


def test_the_prefix_is_literal_and_percent_decoded(api: Api) -> None:
    prefix = new_name("lit")
    api.create(f"{prefix}:a")
    api.create(f"{prefix}.a")

    assert len(listed(api, f"prefix={prefix}")["topics"]) == 2
    assert len(listed(api, f"prefix={prefix}%3A")["topics"]) == 1
    assert listed(api, f"prefix={prefix}*")["topics"] == []


def test_listing_touches_only_when_asked(api: Api, topic: str) -> None:
    api.create(topic)

    listed(api, f"prefix={topic}")
    assert api.state(topic, "?touch=false")["last_read_ts"] is None
    listed(api, f"prefix={topic}&touch=true")

    assert api.state(topic, "?touch=false")["last_read_ts"] is not None


# The end of a topic.


def test_a_topic_that_is_deleted_is_gone(api: Api, topic: str) -> None:
    api.write(topic, 1, 2)

    answer = api.drop(topic)

    assert holds(answer, {"topic": topic, "deleted": True, "routers_removed": []})
    refused(api.get(f"/v0/topics/{topic}"), 404, "topic_not_found")
    refused(api.post(f"/v0/topics/{topic}/diff", {}), 404, "topic_not_found")


def test_deleting_what_is_not_there_is_fine(api: Api, topic: str) -> None:
    answer = api.drop(topic)

    assert holds(answer, {"topic": topic, "deleted": False, "routers_removed": []})


@pytest.mark.parametrize("flag", ["true", "1"])
def test_a_topic_can_be_deleted_only_if_empty(api: Api, topic: str, flag: str) -> None:
    api.write(topic, 1, 2, 3)
    target = f"/v0/topics/{topic}?if_empty={flag}"

    refused(api.delete(target), 409, "topic_not_empty", {"topic": topic, "count": 3})

    assert api.state(topic)["count"] == 3
    api.remove(topic, before_seq=10)
    assert api.delete(target).json["deleted"] is True
    assert api.delete(target).json["deleted"] is False


def test_a_topic_made_again_starts_at_one_with_another_epoch(api: Api, topic: str) -> None:
    old = api.write(topic, *range(5), idempotency_key="k")
    api.remove(topic, before_seq=2)
    api.drop(topic)

    new = api.write(topic, "again", idempotency_key="k")

    assert (new["created"], new["first_seq"], new["deduped"]) == (True, 1, False)
    assert new["epoch"] != old["epoch"]
    state = api.state(topic)
    assert (state["head_seq"], state["earliest_seq"], state["count"]) == (1, 1, 1)
    assert state["epoch"] == new["epoch"]
    assert state["config"] == CONFIG
