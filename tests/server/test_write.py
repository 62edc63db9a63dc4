"""POST /v0/topics/:topic: seqs, creation, full topics, expected seqs."""

from __future__ import annotations

import pytest

from tests.server.support import Api, at_once, datas_of, now_ms, refused, seqs_of

WRITE = {
    "topic",
    "first_seq",
    "last_seq",
    "seqs",
    "head_seq",
    "count",
    "created",
    "deduped",
    "epoch",
    "ts",
    "performance",
}


def test_a_write_answers_with_what_it_did(api: Api, topic: str) -> None:
    reply = api.post(f"/v0/topics/{topic}", {"records": [{"data": n} for n in "abc"]})

    assert reply.status == 201
    answer = reply.json
    assert set(answer) >= WRITE
    assert answer["topic"] == topic
    assert (answer["first_seq"], answer["last_seq"], answer["head_seq"]) == (1, 3, 3)
    assert answer["seqs"] == [1, 2, 3]
    assert answer["count"] == 3
    assert (answer["created"], answer["deduped"]) == (True, False)
    assert abs(answer["ts"] - now_ms()) < 60_000
    assert [r["$ts"] for r in api.diff(topic)["records"]] == [answer["ts"]] * 3
    assert api.state(topic)["epoch"] == answer["epoch"]


def test_seqs_go_on_from_one_write_to_the_next(api: Api, topic: str) -> None:
    api.create(topic)

    replies = [api.post(f"/v0/topics/{topic}", {"records": [{"data": n}] * n}) for n in (1, 3, 2)]

    assert [reply.status for reply in replies] == [200] * 3
    assert [reply.json["seqs"] for reply in replies] == [[1], [2, 3, 4], [5, 6]]
    assert [reply.json["created"] for reply in replies] == [False] * 3
    assert datas_of(api.diff(topic)) == [1, 3, 3, 3, 2, 2]


@pytest.mark.parametrize(
    ("query", "is_there"), [("", True), ("?return_seqs=true", True), ("?return_seqs=false", False)]
)
def test_the_single_seqs_can_be_left_out(api: Api, topic: str, query: str, is_there: bool) -> None:
    body = {"records": [{"data": 1}], "return_seqs": not is_there}

    answer = api.post(f"/v0/topics/{topic}{query}", body).json

    assert ("seqs" in answer) == is_there
    assert answer["last_seq"] == 1


def test_the_node_of_the_batch_is_for_records_without_their_own(api: Api, topic: str) -> None:
    api.write(topic, records=[{"data": 1}, {"data": 2, "node": "own"}], node="batch")

    assert [record["$node"] for record in api.diff(topic)["records"]] == ["batch", "own"]


def test_concurrent_batches_are_whole_and_in_one_order(api: Api, topic: str) -> None:
    answers = at_once(12, lambda n: api.write(topic, *[n] * 20))

    datas = datas_of(api.diff(topic, limit=1000))
    assert sorted(answer["first_seq"] for answer in answers) == list(range(1, 241, 20))
    for n, answer in enumerate(answers):
        assert datas[answer["first_seq"] - 1 : answer["last_seq"]] == [n] * 20


def test_time_does_not_go_back_within_a_topic(api: Api, topic: str) -> None:
    for n in range(20):
        api.write(topic, n)

    times = [record["$ts"] for record in api.diff(topic)["records"]]

    assert times == sorted(times)


# Creation.


def test_a_write_may_not_create_when_it_says_so(api: Api, topic: str) -> None:
    body = {"records": [{"data": 1}], "create": False}

    refused(api.post(f"/v0/topics/{topic}", body), 404, "topic_not_found", {"topic": topic})
    refused(api.get(f"/v0/topics/{topic}"), 404, "topic_not_found")
    api.create(topic)
    assert api.post(f"/v0/topics/{topic}", body).status == 200


def test_a_config_counts_only_for_the_write_that_creates(api: Api, topic: str) -> None:
    api.write(topic, 1, config={"cap_records": 2})
    api.write(topic, 2, 3, config={"cap_records": 99, "ttl_ms": 5})

    config = api.state(topic)["config"]

    assert (config["cap_records"], config["ttl_ms"]) == (2, 0)
    assert seqs_of(api.diff(topic)) == [2, 3]


def test_a_config_without_auto_create_does_not_create_unless_told(api: Api, topic: str) -> None:
    body = {"records": [{"data": 1}], "config": {"auto_create": False}}

    refused(api.post(f"/v0/topics/{topic}", body), 404, "topic_not_found")
    assert api.post(f"/v0/topics/{topic}", {**body, "create": True}).status == 201


def test_a_stored_auto_create_does_not_matter_later(api: Api, topic: str) -> None:
    api.create(topic, auto_create=False)

    assert api.write(topic, 1)["last_seq"] == 1


# Full topics.


def test_a_topic_that_rejects_says_it_is_full_and_uses_no_seq(api: Api, topic: str) -> None:
    api.create(topic, discard="reject", cap_records=3)
    api.write(topic, 1, 2)

    reply = api.post(f"/v0/topics/{topic}", {"records": [{"data": 3}, {"data": 4}]})

    detail = refused(reply, 422, "topic_full")
    assert detail == {
        "topic": topic,
        "cap_records": 3,
        "cap_bytes": 0,
        "head_seq": 2,
        "earliest_seq": 1,
    }
    assert api.write(topic, 3)["seqs"] == [3]
    refused(api.post(f"/v0/topics/{topic}", {"records": [{"data": 4}]}), 422, "topic_full")
    api.remove(topic, before_seq=2)
    assert api.write(topic, 4)["seqs"] == [4]
    assert api.diff(topic)["tombstone"] is None


def test_a_topic_that_rejects_is_full_by_bytes_too(api: Api, topic: str) -> None:
    api.create(topic, discard="reject", cap_bytes=100)
    api.write(topic, "x" * 58)

    reply = api.post(f"/v0/topics/{topic}", {"records": [{"data": "x" * 58}]})

    refused(reply, 422, "topic_full", {"cap_bytes": 100, "head_seq": 1})
    assert api.write(topic, "x" * 38)["last_seq"] == 2


def test_a_batch_that_can_never_fit_is_too_large(api: Api, topic: str) -> None:
    api.create(topic, discard="reject", cap_records=2, cap_bytes=100)

    for records in ([{"data": 1}] * 3, [{"data": "x" * 99}]):
        refused(api.post(f"/v0/topics/{topic}", {"records": records}), 400, "record_too_large")


def test_a_race_for_the_last_place_has_one_winner(api: Api, topic: str) -> None:
    api.create(topic, discard="reject", cap_records=5)

    replies = at_once(
        12, lambda n: api.post(f"/v0/topics/{topic}", {"records": [{"data": n}]}).status
    )

    assert sorted(replies) == [200] * 5 + [422] * 7
    assert seqs_of(api.diff(topic)) == [1, 2, 3, 4, 5]


def test_a_topic_that_discards_takes_a_batch_larger_than_its_cap(api: Api, topic: str) -> None:
    api.create(topic, cap_records=2)

    assert api.write(topic, 1, 2, 3, 4, 5)["last_seq"] == 5
    assert datas_of(api.diff(topic)) == [4, 5]


# An expected seq.


def test_a_write_can_ask_for_the_head_it_expects(api: Api, topic: str) -> None:
    assert api.write(topic, "a", expected_seq=0)["created"] is True
    assert api.write(topic, "b", "c", expected_seq=1)["last_seq"] == 3
    body = {"records": [{"data": "d"}], "expected_seq": 1}

    reply = api.post(f"/v0/topics/{topic}", body)

    refused(reply, 409, "seq_mismatch", {"topic": topic, "expected_seq": 1, "head_seq": 3})
    assert datas_of(api.diff(topic)) == ["a", "b", "c"]
    refused(api.post(f"/v0/topics/{topic}", {**body, "expected_seq": 4}), 409, "seq_mismatch")
    assert api.write(topic, "d", expected_seq=3)["last_seq"] == 4


def test_a_race_with_one_expectation_has_one_winner(api: Api, topic: str) -> None:
    api.create(topic)

    for head in range(5):
        statuses = at_once(
            8,
            lambda n, head=head: (
                api.post(
                    f"/v0/topics/{topic}", {"records": [{"data": n}], "expected_seq": head}
                ).status
            ),
        )

        assert sorted(statuses) == [200] + [409] * 7
    assert api.state(topic)["head_seq"] == 5


def test_deleted_records_do_not_change_what_is_expected(api: Api, topic: str) -> None:
    api.write(topic, 1, 2, 3)
    api.remove(topic, before_seq=10)

    assert api.write(topic, 4, expected_seq=3)["last_seq"] == 4


def test_a_write_repeated_with_its_key_meets_its_own_expectation(api: Api, topic: str) -> None:
    fields = {"expected_seq": 0, "idempotency_key": "once"}
    first = api.write(topic, "a", **fields)

    again = api.write(topic, "a", **fields)

    assert again["deduped"] is True
    assert again["seqs"] == first["seqs"]
