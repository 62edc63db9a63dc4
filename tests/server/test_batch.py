"""POST /v0/batch: several topics, all of it or nothing."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from tests.server.conftest import Start
from tests.server.support import Api, Later, api_of, at_once, datas_of, holds, new_name, refused
from tests.server.wire import Ended, Reply
from tests.support.serving import eventually


def write(topic: str, *datas: Any, **fields: Any) -> dict[str, Any]:
    return {"topic": topic, "records": [{"data": data} for data in datas], **fields}


def post(api: Api, *writes: Any, **fields: Any) -> Reply:
    return api.post("/v0/batch", {"writes": list(writes), **fields})


@pytest.fixture
def pair(api: Api) -> tuple[str, str]:
    one, two = new_name("one"), new_name("two")
    api.write(one, "old")
    return one, two


def test_a_batch_writes_to_each_topic(api: Api, pair: tuple[str, str]) -> None:
    one, two = pair

    reply = post(api, write(one, 1, 2, node="n"), write(two, 3))

    assert reply.status == 200
    assert set(reply.json) >= {"results", "performance"}
    first, second = reply.json["results"]
    assert holds(
        first,
        {
            "topic": one,
            "first_seq": 2,
            "last_seq": 3,
            "count": 2,
            "head_seq": 3,
            "epoch": api.state(one)["epoch"],
            "created": False,
            "deduped": False,
        },
    )
    assert (second["topic"], second["first_seq"], second["created"]) == (two, 1, True)
    assert datas_of(api.diff(one)) == ["old", 1, 2]
    assert api.diff(one)["records"][1]["$node"] == "n"
    assert datas_of(api.diff(two)) == [3]


def test_each_write_may_bring_its_config_and_say_whether_to_create(
    api: Api, pair: tuple[str, str]
) -> None:
    one, two = pair

    refused(post(api, write(one, 1), write(two, 1, create=False)), 404, "topic_not_found")
    post(api, write(two, 1, 2, 3, config={"cap_records": 2}))

    assert api.state(two)["config"]["cap_records"] == 2
    assert datas_of(api.diff(two)) == [2, 3]
    assert api.state(one)["count"] == 1


def test_one_failure_leaves_every_topic_as_it_was(api: Api, pair: tuple[str, str]) -> None:
    one, two = pair
    full, fresh = new_name("full"), new_name("fresh")
    api.create(full, discard="reject", cap_records=1)
    api.write(full, 1)
    good = write(one, "new")
    failures = [
        (write(two, 1, expected_seq=5), 409, "seq_mismatch"),
        (write(full, 2), 422, "topic_full"),
        (write(full, 2, 3), 400, "record_too_large"),
        (write(fresh, 1, create=False), 404, "topic_not_found"),
        (write(".bad", 1), 400, "invalid_request"),
        ({"topic": fresh, "records": []}, 400, "invalid_request"),
        ({"topic": fresh, "records": [{"tag": "no data"}]}, 400, "invalid_request"),
        (write(fresh, "x" * (1 << 20)), 400, "record_too_large"),
        (write(fresh, *range(10_001)), 400, "batch_too_large"),
        (write(fresh, 1, node="x" * 129), 400, "invalid_request"),
    ]
    for bad, status, code in failures:
        for writes in ((good, bad), (bad, good)):
            refused(post(api, *writes), status, code)

    assert datas_of(api.diff(one)) == ["old"]
    assert api.state(full)["head_seq"] == 1
    for name in (two, fresh):
        reply = api.get(f"/v0/topics/{name}")
        assert reply.status == 404 or reply.json["head_seq"] == 0


def test_a_mismatch_says_which_topic(api: Api, pair: tuple[str, str]) -> None:
    one, two = pair

    reply = post(api, write(two, 1, expected_seq=0), write(one, 1, expected_seq=7))

    refused(reply, 409, "seq_mismatch", {"topic": one, "expected_seq": 7, "head_seq": 1})


def test_expectations_of_several_topics_hold_together(api: Api, pair: tuple[str, str]) -> None:
    one, two = pair
    api.create(two)
    body = [write(one, "x", expected_seq=1), write(two, "x", expected_seq=0)]

    statuses = at_once(8, lambda _: post(api, *body).status)

    assert sorted(statuses) == [200] + [409] * 7
    assert (api.state(one)["head_seq"], api.state(two)["head_seq"]) == (2, 1)


def test_a_batch_has_between_1_and_64_writes_to_different_topics(
    api: Api, pair: tuple[str, str]
) -> None:
    one, two = pair
    prefix = new_name("many")

    refused(post(api), 400, "invalid_request")
    refused(post(api, write(one, 1), write(two, 1), write(one, 2)), 400, "invalid_request")
    refused(post(api, *[write(f"{prefix}.{n}", n) for n in range(65)]), 400, "invalid_request")
    assert api.get(f"/v0/topics?prefix={prefix}.").json["topics"] == []
    reply = post(api, *[write(f"{prefix}.{n}", n) for n in range(64)])
    assert len(reply.json["results"]) == 64
    assert len(api.get(f"/v0/topics?prefix={prefix}.").json["topics"]) == 64


@pytest.mark.parametrize(
    "when",
    [{"deliver_at": 1 << 41}, {"delay_ms": 5}, {"cron": "@daily"}, {"timezone": "UTC"}],
    ids=str,
)
def test_a_batch_cannot_be_delayed(api: Api, pair: tuple[str, str], when: dict[str, Any]) -> None:
    one, two = pair

    reply = post(api, write(one, 1), write(two, 2, **when))

    refused(reply, 400, "invalid_request")
    message = reply.json["error"]["message"]
    assert message.startswith(f"topic {two!r}: a batch over several topics cannot be delayed: ")
    assert datas_of(api.diff(one)) == ["old"]
    refused(api.get(f"/v0/topics/{two}"), 404, "topic_not_found")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"writes": {}},
        {"writes": [5]},
        {"writes": [{"records": [{"data": 1}]}]},
        {"writes": [{"topic": 5, "records": [{"data": 1}]}]},
        {"writes": [{"topic": "t"}]},
        {"writes": [{"topic": "t", "records": [{"data": 1}]}], "idempotency_key": 5},
        {"writes": [{"topic": "t", "records": [{"data": 1}]}], "idempotency_key": "x" * 257},
        {"writes": [{"topic": "t", "records": [{"data": 1}], "expected_seq": "0"}]},
    ],
    ids=repr,
)
def test_a_batch_of_another_shape_is_invalid(api: Api, body: Any) -> None:
    refused(api.post("/v0/batch", body), 400, "invalid_request")


def test_a_batch_sent_again_with_its_key_is_known(api: Api, pair: tuple[str, str]) -> None:
    one, two = pair
    body = [write(one, "x", "y"), write(two, "z", expected_seq=0)]
    first = post(api, *body, idempotency_key="both").json["results"]

    again = post(api, *body, idempotency_key="both").json["results"]

    assert [r["deduped"] for r in first] == [False, False]
    assert [r["deduped"] for r in again] == [True, True]
    assert [r["created"] for r in again] == [False, False]
    assert [(r["topic"], r["first_seq"], r["last_seq"]) for r in again] == [
        (r["topic"], r["first_seq"], r["last_seq"]) for r in first
    ]
    assert (api.state(one)["count"], api.state(two)["count"]) == (3, 1)


def test_batches_with_one_key_at_the_same_time_are_one_batch(
    api: Api, pair: tuple[str, str]
) -> None:
    one, two = pair

    replies = at_once(8, lambda n: post(api, write(one, n), write(two, n), idempotency_key="k"))

    assert {reply.status for reply in replies} == {200}
    assert (api.state(one)["count"], api.state(two)["count"]) == (2, 1)
    assert datas_of(api.diff(one))[1] == datas_of(api.diff(two))[0]


def test_batches_and_writes_at_the_same_time_keep_every_order(
    api: Api, pair: tuple[str, str]
) -> None:
    one, two = pair

    def work(n: int) -> None:
        for step in range(10):
            mark = [n, step]
            if n % 2:
                assert post(api, write(one, mark), write(two, mark)).status == 200
            else:
                assert post(api, write(two, mark), write(one, mark)).status == 200
            api.write(one, mark)

    at_once(6, work)

    ones, twos = datas_of(api.diff(one, limit=1000))[1:], datas_of(api.diff(two, limit=1000))
    assert len(ones) == 120
    assert len(twos) == 60
    for n in range(6):
        assert [mark[1] for mark in twos if mark[0] == n] == list(range(10))


@pytest.mark.parametrize("durability", ["disk", "fsync"])
def test_a_killed_server_has_all_of_a_batch_or_nothing(start: Start, durability: str) -> None:
    """Also of those that were not answered. The topics lie on different shards of the log."""
    server = start(PENSTOCK_WAL_SHARDS="4")
    api = api_of(server)
    names = [f"t{n}" for n in range(6)]
    for name in names:
        api.create(name, durability=durability)
    answered: list[int] = []

    def write_on() -> None:
        with contextlib.suppress(Ended, OSError):
            while True:
                n = len(answered)
                assert post(api, *[write(name, n) for name in names]).status == 200
                answered.append(n)

    with Later(write_on) as writer:
        eventually(lambda: len(answered) > 30, "some batches")
        server.kill()
        writer.result()
    server.start()

    kept = [datas_of(api_of(server).diff(name, limit=1000)) for name in names]
    assert kept == [kept[0]] * 6
    assert kept[0] == list(range(len(kept[0])))
    assert len(kept[0]) >= len(answered)
