"""Named places of consumers, kept by the server, with their lag."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.conftest import Start
from tests.server.support import Api, api_of, new_name, now_ms, refused
from tests.support.serving import eventually

FIELDS = {"name", "seq", "epoch", "ts", "lag_records", "lag_ms"}


def path(topic: str, name: str = "") -> str:
    return f"/v0/topics/{topic}/positions" + (f"/{name}" if name else "")


def keep(api: Api, topic: str, name: str, seq: int, **fields: Any) -> Any:
    reply = api.put(path(topic, name), {"seq": seq, **fields})
    assert reply.status == 200, reply
    return reply.json


def kept(api: Api, topic: str, name: str) -> Any:
    reply = api.get(path(topic, name))
    assert reply.status == 200, reply
    return reply.json


def test_a_position_is_kept_and_given_back(api: Api, topic: str) -> None:
    wrote = api.write(topic, *range(5))

    put = keep(api, topic, "worker", 2)
    got = kept(api, topic, "worker")

    assert set(put) >= FIELDS | {"topic", "head_seq", "performance"}
    assert (put["topic"], put["name"], put["seq"]) == (topic, "worker", 2)
    assert (put["epoch"], put["head_seq"], put["lag_records"]) == (wrote["epoch"], 5, 3)
    assert abs(put["ts"] - now_ms()) < 60_000
    for field in ("topic", "name", "seq", "epoch", "ts", "lag_records"):
        assert got[field] == put[field]


def test_a_position_can_move_both_ways(api: Api, topic: str) -> None:
    api.write(topic, *range(5))

    seqs = [keep(api, topic, "p", seq)["seq"] for seq in (0, 5, 3)]

    assert seqs == [0, 5, 3]
    assert kept(api, topic, "p")["seq"] == 3
    assert len(api.get(path(topic)).json["positions"]) == 1


def test_all_positions_of_a_topic_are_listed_by_name(api: Api, topic: str) -> None:
    api.write(topic, *range(3))
    for name, seq in (("b", 1), ("a", 3), ("B", 2)):
        keep(api, topic, name, seq)

    answer = api.get(path(topic)).json

    assert set(answer) >= {"topic", "positions", "head_seq", "performance"}
    assert (answer["topic"], answer["head_seq"]) == (topic, 3)
    assert [p["name"] for p in answer["positions"]] == ["B", "a", "b"]
    assert [p["lag_records"] for p in answer["positions"]] == [1, 0, 2]
    assert all(set(p) >= FIELDS for p in answer["positions"])


def test_a_topic_without_positions_has_an_empty_list(api: Api, topic: str) -> None:
    api.create(topic)

    assert api.get(path(topic)).json["positions"] == []


def test_a_position_can_be_removed(api: Api, topic: str) -> None:
    api.create(topic)
    keep(api, topic, "p", 0)

    first, again = api.delete(path(topic, "p")).json, api.delete(path(topic, "p")).json

    assert (first["topic"], first["name"], first["deleted"]) == (topic, "p", True)
    assert again["deleted"] is False
    refused(api.get(path(topic, "p")), 404, "position_not_found", {"topic": topic, "name": "p"})


def test_a_missing_topic_is_found_out_first(api: Api, topic: str) -> None:
    for reply in (
        api.put(path(topic, "p"), {"seq": 0}),
        api.get(path(topic, "p")),
        api.get(path(topic)),
        api.delete(path(topic, "p")),
    ):
        refused(reply, 404, "topic_not_found", {"topic": topic})
    refused(api.get(f"/v0/topics/{topic}"), 404, "topic_not_found")


@pytest.mark.parametrize(
    "body", [{}, {"seq": -1}, {"seq": "1"}, {"seq": 1.5}, {"seq": None}, {"seq": 0, "epoch": "x"}]
)
def test_a_position_of_wrong_types_is_invalid(api: Api, topic: str, body: Any) -> None:
    api.create(topic)

    refused(api.put(path(topic, "p"), body), 400, "invalid_request")


def test_a_position_is_not_past_the_head(api: Api, topic: str) -> None:
    api.write(topic, 1, 2)

    refused(api.put(path(topic, "p"), {"seq": 3}), 400, "invalid_request")
    assert keep(api, topic, "p", 2)["lag_records"] == 0


@pytest.mark.parametrize("name", [".p", "a b", "a>b", "x" * 256, "é"])
def test_a_position_is_named_like_a_topic(api: Api, topic: str, name: str) -> None:
    api.create(topic)
    text = "".join(f"%{byte:02x}" for byte in name.encode())

    refused(api.put(path(topic, text), {"seq": 0}), 400, "invalid_request")
    assert keep(api, topic, "A.b_c:d-9", 0)["name"] == "A.b_c:d-9"


# Lag.


def test_lag_counts_the_live_records_past_the_position(api: Api, topic: str) -> None:
    api.create(topic, cap_records=6)
    api.tagged(topic, *"aabbccdd")
    keep(api, topic, "p", 3)
    assert kept(api, topic, "p")["lag_records"] == 5

    api.remove(topic, match="c")
    assert kept(api, topic, "p")["lag_records"] == 3
    api.remove(topic, before_seq=8)
    assert kept(api, topic, "p")["lag_records"] == 1
    api.tagged(topic, "e")
    assert kept(api, topic, "p")["lag_records"] == 2


def test_lag_in_time_is_the_age_of_the_oldest_unread_record(api: Api, topic: str) -> None:
    first = api.write(topic, 1)
    eventually(lambda: api.write(topic, 2)["ts"] >= first["ts"] + 30, "some time has passed")

    behind = keep(api, topic, "behind", 0)
    at_head = keep(api, topic, "at-head", api.state(topic)["head_seq"])

    assert behind["lag_ms"] >= 30
    assert behind["lag_ms"] >= kept(api, topic, "at-head")["lag_ms"]
    assert (at_head["lag_records"], at_head["lag_ms"]) == (0, 0)


def test_lag_grows_while_nobody_reads(api: Api, topic: str) -> None:
    api.write(topic, 1)
    before = keep(api, topic, "p", 0)["lag_ms"]

    eventually(lambda: kept(api, topic, "p")["lag_ms"] > before, "it grows")


def test_an_empty_topic_has_no_lag(api: Api, topic: str) -> None:
    api.write(topic, 1, 2)
    keep(api, topic, "p", 0)
    api.remove(topic, before_seq=10)

    got = kept(api, topic, "p")

    assert (got["lag_records"], got["lag_ms"]) == (0, 0)


# Life.


def test_positions_belong_to_their_topic(api: Api, topic: str) -> None:
    other = new_name()
    api.create(topic)
    api.create(other)

    keep(api, topic, "p", 0)

    refused(api.get(path(other, "p")), 404, "position_not_found", {"topic": other, "name": "p"})


def test_a_position_in_a_topic_made_anew_is_not_taken_for_one_of_it(api: Api, topic: str) -> None:
    api.write(topic, 1, 2)
    old = keep(api, topic, "p", 2)
    api.drop(topic)
    new = api.write(topic, "a", "b", "c")

    reply = api.get(path(topic, "p"))

    if reply.status == 200:
        assert reply.json["epoch"] == old["epoch"] != new["epoch"]
    else:
        refused(reply, 404, "position_not_found")


def test_a_position_does_not_change_the_topic(api: Api, topic: str) -> None:
    api.write(topic, 1)
    before = api.state(topic)

    keep(api, topic, "p", 1)

    after = api.state(topic)
    for field in ("head_seq", "count", "bytes", "epoch", "last_write_ts"):
        assert after[field] == before[field]
    assert api.get(f"/v0/topics?prefix={topic}").json["topics"][0]["topic"] == topic
    assert len(api.get(f"/v0/topics?prefix={topic}").json["topics"]) == 1


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_positions_outlive_the_server(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    api.write("t", *range(10))
    keep(api, "t", "a", 4)
    keep(api, "t", "b", 1)
    keep(api, "t", "b", 9)
    keep(api, "t", "gone", 1)
    api.delete(path("t", "gone"))
    before = api.get(path("t")).json
    assert server.stop() == 0 if how == "stop" else server.kill() is None

    server.start()

    after = api_of(server).get(path("t")).json
    fields = ("name", "seq", "epoch", "ts", "lag_records")
    assert [[p[f] for f in fields] for p in after["positions"]] == [
        [p[f] for f in fields] for p in before["positions"]
    ]
    assert [p["name"] for p in after["positions"]] == ["a", "b"]
    topics = [item["topic"] for item in api_of(server).get("/v0/topics").json["topics"]]
    assert topics == ["t"]
