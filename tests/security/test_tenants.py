"""S28: what belongs to one key is of no use to another."""

from __future__ import annotations

import pytest
from websockets.exceptions import InvalidStatus

from tests.server.conftest import Start
from tests.server.sse import encode_cursors
from tests.server.support import Api, api_of, new_name

ONE = [{"data": "secret-of-ann"}]


@pytest.fixture
def pair(full: Api) -> tuple[Api, Api]:
    """Two keys that may use the same topics."""
    return full, full.as_key("writer")


def test_an_idempotency_key_of_another_is_free(pair: tuple[Api, Api]) -> None:
    """S28: guessing it reveals no seqs and suppresses no write."""
    full, writer = pair
    topic = new_name()
    full.create(topic)
    body = {"records": ONE, "idempotency_key": "order-1"}
    first = full.post(f"/v0/topics/{topic}", body).json

    guess = writer.post(f"/v0/topics/{topic}", body).json

    assert guess["deduped"] is False
    assert guess["first_seq"] == first["last_seq"] + 1
    again = full.post(f"/v0/topics/{topic}", body).json
    assert (again["deduped"], again["first_seq"]) == (True, first["first_seq"])


def test_an_idempotency_key_is_its_owners_on_every_way_in(pair: tuple[Api, Api]) -> None:
    """S28: header, body, batch and socket are one space for a key, and another for the next."""
    full, writer = pair
    topic = new_name()
    full.create(topic)
    seqs = set()
    for api in (full, writer):
        header = {"Idempotency-Key": "k"}
        found = [
            api.post(f"/v0/topics/{topic}", {"records": ONE}, header).json,
            api.post(f"/v0/topics/{topic}", {"records": ONE, "idempotency_key": "k"}).json,
        ]
        with api.socket() as socket:
            found.append(socket.ask("publish", topic=topic, records=ONE, idempotency_key="k"))
        assert [one["deduped"] for one in found] == [False, True, True]
        assert len({one["first_seq"] for one in found}) == 1
        seqs.add(found[0]["first_seq"])
        batch = {"writes": [{"topic": topic, "records": ONE}], "idempotency_key": "b"}
        results = [api.post("/v0/batch", batch).json["results"][0] for _ in range(2)]
        assert [one["deduped"] for one in results] == [False, True]
        seqs.add(results[0]["first_seq"])
    assert len(seqs) == 4


def test_idempotency_stays_apart_after_a_restart(start: Start) -> None:
    """S28: the separation is in what is stored."""
    server = start(PENSTOCK_API_KEYS="one,two")
    one = api_of(server, "one")
    one.create("t", durability="fsync")
    first = one.write("t", 1, idempotency_key="k")
    server.kill()
    server.start()

    one, two = api_of(server, "one"), api_of(server, "two")
    assert two.write("t", 2, idempotency_key="k")["deduped"] is False
    assert one.write("t", 1, idempotency_key="k")["first_seq"] == first["first_seq"]


def test_a_session_of_another_is_of_no_use(ann: Api, ben: Api, full: Api) -> None:
    """S28: knowing a wid opens no stream, ends none, and moves no cursor."""
    topic = new_name("ann-")
    ann.create(topic)
    ann.write(topic, 1)
    wid = ann.watch([topic])["wid"]

    with ann.stream(wid) as stream:
        assert stream.one("record").seqs == [1]
        rewind = {"Last-Event-ID": encode_cursors({topic: 0})}
        for other in (ben, full, ann.as_key(None), ann.as_key("wrong")):
            reply = other.get(f"/v0/watch/{wid}", rewind)
            assert reply.status == 401
            assert topic not in reply.body.decode()
            assert other.as_key(None).get(f"/v0/watch/{wid}?token={other.key}").status == 401
        ann.write(topic, 2)
        assert stream.one("record").seqs == [2]


def test_a_ticket_of_another_opens_no_session(ann: Api, ben: Api) -> None:
    """S28: a ticket stands for its own key."""
    topic = new_name("ann-")
    ann.create(topic)
    wid = ann.watch([topic])["wid"]
    ticket = ben.post("/v0/tickets", {}).json["ticket"]

    assert ann.as_key(None).get(f"/v0/watch/{wid}?ticket={ticket}").status == 401
    good = ann.post("/v0/tickets", {}).json["ticket"]
    with ann.as_key(None).stream(f"{wid}?ticket={good}") as stream:
        assert stream.reply.status == 200


def test_sessions_cannot_be_guessed(ann: Api) -> None:
    """S28: 128 random bits each."""
    topic = new_name("ann-")
    ann.create(topic)
    found = [ann.watch([topic])["wid"] for _ in range(50)]

    assert len({wid[:14] for wid in found}) == 50
    assert all(len(wid) == 26 for wid in found)


def test_a_foreign_topic_is_forbidden_whether_it_exists_or_not(ann: Api, ben: Api) -> None:
    """S28: so its existence is no answer."""
    there = new_name("ben-")
    ben.create(there)
    ben.write(there, 1)

    def ask(name: str) -> list[tuple[int, str]]:
        replies = [
            ann.get(f"/v0/topics/{name}"),
            ann.put(f"/v0/topics/{name}"),
            ann.delete(f"/v0/topics/{name}"),
            ann.post(f"/v0/topics/{name}", {"records": ONE}),
            ann.post(f"/v0/topics/{name}/diff", {}),
            ann.get(f"/v0/topics/{name}/positions"),
            ann.get(f"/v0/topics/{name}/positions/p"),
            ann.put(f"/v0/topics/{name}/positions/p", {"seq": 0}),
            ann.delete(f"/v0/topics/{name}/positions/p"),
            ann.get(f"/v0/topics/{name}/delayed"),
            ann.delete(f"/v0/topics/{name}/delayed/1"),
            ann.post("/v0/watch", {"topics": {name: {}}}),
            ann.post("/v0/watch?lenient=true", {"topics": {name: {}}}),
            ann.post("/v0/batch", {"writes": [{"topic": name, "records": ONE}]}),
        ]
        assert {reply.status for reply in replies} == {403}
        return [(reply.status, reply.body.decode().replace(name, "NAME")) for reply in replies]

    assert ask(there) == ask(new_name("ben-"))
    assert ben.state(there)["head_seq"] == 1


def test_lists_patterns_and_metrics_show_ones_own_only(ann: Api, ben: Api) -> None:
    """S28: everything that speaks of many topics leaves out the others'."""
    mine, theirs = new_name("ann-"), new_name("ben-")
    ann.create(mine)
    ben.create(theirs)

    assert theirs not in ann.get("/v0/topics").body.decode()
    assert theirs not in ann.get("/v0/topics?prefix=ben-").body.decode()
    assert theirs not in ann.get("/v0/metrics").body.decode()
    assert mine in ann.get("/v0/metrics").body.decode()
    for pattern in ("*", "ben-*", "b*", f"{theirs}*"):
        reply = ann.post("/v0/watch", {"topics": {pattern: {}}})
        assert theirs not in reply.body.decode()
    with ann.follow({"*": {}}) as stream, ann.socket() as socket:
        socket.ask("subscribe", topics={"*": {}})
        later = new_name("ben-")
        ben.create(later)
        ben.write(later, "secret")
        ann.write(mine, "own")
        assert {frame.json["topic"] for frame in stream.until("record")} <= own(ann)
        heard = {socket.one("record")["topic"]}
        while mine not in heard:
            heard.add(socket.one("record")["topic"])
        assert heard <= own(ann)


def own(api: Api) -> set[str]:
    return {row["topic"] for row in api.get("/v0/topics?page_size=1000").json["topics"]}


def test_a_foreign_name_in_a_configuration_is_forbidden(ann: Api) -> None:
    """S28: records must not be sent where their owner may not write (S3: the target counts)."""
    mine, theirs = new_name("ann-"), new_name("ben-")
    queue = {"type": "queue", "dead_letter": theirs}

    assert ann.put(f"/v0/topics/{mine}", queue).status == 403
    assert ann.post(f"/v0/topics/{mine}", {"records": ONE, "config": queue}).status == 403
    batch = {"writes": [{"topic": mine, "records": ONE, "config": queue}]}
    assert ann.post("/v0/batch", batch).status == 403
    with ann.socket() as socket:
        answer = socket.ask("publish", topic=mine, records=ONE, config=queue)
        assert answer["code"] == "forbidden"
    assert ann.get(f"/v0/topics/{mine}").status == 404
    assert ann.put(f"/v0/topics/{mine}", queue | {"dead_letter": f"{mine}-dead"}).status == 201


def test_a_batch_with_one_foreign_name_writes_nothing(ann: Api, ben: Api) -> None:
    """S28: everything or nothing holds for rights too."""
    mine, theirs = new_name("ann-"), new_name("ben-")
    ann.create(mine)
    ben.create(theirs)
    writes = [{"topic": mine, "records": ONE}, {"topic": theirs, "records": ONE}]

    assert ann.post("/v0/batch", {"writes": writes}).status == 403
    assert ann.post("/v0/batch", {"writes": writes[::-1]}).status == 403

    assert ann.state(mine)["head_seq"] == ben.state(theirs)["head_seq"] == 0


def test_a_cursor_of_a_list_is_no_way_round_the_prefix(ann: Api, ben: Api) -> None:
    """S28: a cursor says where to go on, not what may be seen."""
    theirs = new_name("ben-")
    ben.create(theirs)
    for _ in range(3):
        ben.create(new_name("ben-"))
    cursor = ben.get("/v0/topics?page_size=1").json["next_cursor"]

    text = ann.get(f"/v0/topics?cursor={cursor}").body.decode()

    assert "ben-" not in text


def test_a_socket_keeps_the_rights_of_its_key(ann: Api, ben: Api) -> None:
    """S28: each message is checked, not only the handshake."""
    theirs = new_name("ben-")
    ben.create(theirs)
    with ann.socket() as socket:
        for message in (
            {"op": "subscribe", "topic": theirs},
            {"op": "subscribe", "topics": {theirs: {}}},
            {"op": "subscribe", "topic": theirs, "lenient": True},
            {"op": "publish", "topic": theirs, "records": ONE},
        ):
            op = str(message.pop("op"))
            assert socket.ask(op, **message)["code"] == "forbidden"
    with pytest.raises(InvalidStatus):
        ann.as_key(None).socket()
    assert ben.state(theirs)["head_seq"] == 0
