"""Writes with a key: once, however often they are sent."""

from __future__ import annotations

import pytest

from tests.server.conftest import Start
from tests.server.support import Api, api_of, at_once, datas_of, new_name
from tests.support.serving import eventually


def test_a_key_seen_before_gives_the_first_answer(api: Api, topic: str) -> None:
    first = api.write(topic, "a", "b", idempotency_key="k")
    api.write(topic, "between")

    reply = api.post(
        f"/v0/topics/{topic}", {"records": [{"data": "other"}], "idempotency_key": "k"}
    )

    assert reply.status == 200
    again = reply.json
    assert again["deduped"] is True
    assert again["created"] is False
    for field in ("first_seq", "last_seq", "seqs", "count", "epoch"):
        assert again[field] == first[field]
    assert datas_of(api.diff(topic)) == ["a", "b", "between"]


def test_the_answer_to_a_repetition_has_the_head_of_the_first(api: Api, topic: str) -> None:
    first = api.write(topic, "a", idempotency_key="k")

    assert api.write(topic, "a", idempotency_key="k")["head_seq"] == first["head_seq"]


def test_the_key_may_stand_in_a_header_and_the_body_wins(api: Api, topic: str) -> None:
    body = {"records": [{"data": 1}]}
    path, header = f"/v0/topics/{topic}", {"Idempotency-Key": "header"}
    api.post(path, body, header)

    assert api.post(path, body, header).json["deduped"] is True
    assert api.post(path, {**body, "idempotency_key": "header"}).json["deduped"] is True
    assert api.post(path, {**body, "idempotency_key": "body"}, header).json["deduped"] is False
    assert api.post(path, {**body, "idempotency_key": "body"}, header).json["deduped"] is True
    assert api.state(topic)["count"] == 2


def test_a_key_belongs_to_its_topic(api: Api, topic: str) -> None:
    other = new_name()
    api.write(topic, 1, idempotency_key="k")

    assert api.write(other, 1, idempotency_key="k")["deduped"] is False


def test_writes_with_one_key_at_the_same_time_are_one_write(api: Api, topic: str) -> None:
    for round_ in range(5):
        answers = at_once(8, lambda n, r=round_: api.write(topic, n, n, idempotency_key=f"key {r}"))

        assert [a["deduped"] for a in answers].count(False) == 1
        assert len({tuple(a["seqs"]) for a in answers}) == 1
    assert api.state(topic)["count"] == 10


def test_a_key_is_forgotten_after_its_window(api: Api, topic: str) -> None:
    api.create(topic, idempotency_window_ms=1)
    api.write(topic, 1, idempotency_key="k")

    eventually(lambda: not api.write(topic, 1, idempotency_key="k")["deduped"], "it is forgotten")


def test_a_refused_write_leaves_its_key_free(api: Api, topic: str) -> None:
    api.create(topic, discard="reject", cap_records=1)
    api.write(topic, 1)
    body = {"records": [{"data": 2}], "idempotency_key": "k"}
    assert api.post(f"/v0/topics/{topic}", body).status == 422
    api.remove(topic, before_seq=2)

    answer = api.write(topic, 2, idempotency_key="k")

    assert (answer["deduped"], answer["last_seq"]) == (False, 2)


def test_a_repetition_is_known_also_when_its_records_are_gone(api: Api, topic: str) -> None:
    api.create(topic, cap_records=1)
    first = api.write(topic, "a", idempotency_key="k")
    api.write(topic, "b")

    again = api.write(topic, "a", idempotency_key="k")

    assert (again["deduped"], again["seqs"]) == (True, first["seqs"])
    assert datas_of(api.diff(topic)) == ["b"]


@pytest.mark.parametrize("durability", ["disk", "fsync"])
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_key_outlives_the_server(start: Start, durability: str, how: str) -> None:
    server = start()
    api = api_of(server)
    api.create("t", durability=durability, idempotency_window_ms=3_600_000)
    first = api.write("t", "a", "b", idempotency_key="k")
    batch = {"writes": [{"topic": "t", "records": [{"data": "c"}]}], "idempotency_key": "many"}
    together = api.post("/v0/batch", batch).json["results"]
    if how == "stop":
        server.stop()
    else:
        server.kill()

    server.start()
    api = api_of(server)
    again = api.write("t", "a", "b", idempotency_key="k")
    repeated = api.post("/v0/batch", batch).json["results"]

    assert (again["deduped"], again["seqs"]) == (True, first["seqs"])
    assert [r["deduped"] for r in repeated] == [True]
    assert repeated[0]["first_seq"] == together[0]["first_seq"]
    assert datas_of(api.diff("t")) == ["a", "b", "c"]
