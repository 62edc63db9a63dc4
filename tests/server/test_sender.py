"""GET /v0/sender: frames of senders, each taken once and answered in order."""

from __future__ import annotations

import base64
import threading

import pytest

from penstock.sender.error_policy import SenderError
from penstock.sender.sender import Sender
from penstock.wire.sender_protocol import pack_record, parcel_head
from tests.server.conftest import Start
from tests.server.sending import (
    DURABLE,
    OK,
    PARSE,
    SCHEMA,
    SECURITY,
    WRITE,
    Line,
    frame,
    new_incarnation,
    parcel,
    raw_frame,
)
from tests.server.support import Api, api_of, at_once, datas_of, new_name, refused
from tests.support.serving import DEADLINE_S
from tests.support.sink import conf

HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": base64.b64encode(b"0123456789abcdef").decode(),
}
NAMED = HANDSHAKE | {"X-Penstock-Sender": "edge", "X-Penstock-Fsn": "0"}


def rows(api: Api, topic: str) -> list[object]:
    """All there are."""
    found: list[object] = []
    page = api.diff(topic, limit=1000)
    while page["records"]:
        found += datas_of(page)
        page = api.diff(topic, limit=1000, from_seq=page["next_from_seq"])
    return found


# The handshake.


@pytest.mark.parametrize(
    "headers",
    [
        HANDSHAKE,
        HANDSHAKE | {"X-Penstock-Sender": "edge"},
        HANDSHAKE | {"X-Penstock-Fsn": "0"},
        NAMED | {"X-Penstock-Sender": "a/b"},
        NAMED | {"X-Penstock-Sender": "x" * 129},
        NAMED | {"X-Penstock-Fsn": "-1"},
        NAMED | {"X-Penstock-Fsn": "1" * 20},
        NAMED | {"X-Penstock-Fsn": "one"},
        {"X-Penstock-Sender": "edge", "X-Penstock-Fsn": "0"},
    ],
)
def test_a_handshake_that_says_too_little_is_refused(api: Api, headers: dict[str, str]) -> None:
    refused(api.get("/v0/sender", headers), 400, "invalid_request")


def test_who_may_not_write_is_refused_at_the_door(start: Start) -> None:
    api = api_of(start(PENSTOCK_API_KEYS="reader:read,writer:write"))

    refused(api.get("/v0/sender", NAMED), 401, "unauthorized")
    refused(api.as_key("nobody").get("/v0/sender", NAMED), 401, "unauthorized")
    refused(api.as_key("reader").get("/v0/sender", NAMED), 403, "forbidden")
    with Line(api.as_key("writer")) as line:
        line.send(frame(0, "t", 1))
        line.wait_for(OK, 0)


def test_the_answer_says_what_a_frame_may_weigh_and_whether_syncs_are_told(api: Api) -> None:
    with Line(api) as line:
        assert int(line.answered_headers["x-penstock-frame-bytes-max"]) >= 1 << 20
        assert "x-penstock-durable-ack" not in line.answered_headers
    with Line(api, is_durable=True) as line:
        assert line.answered_headers["x-penstock-durable-ack"] == "enabled"


# Frames.


def test_rows_arrive_in_their_order(api: Api, topic: str) -> None:
    """More than the server has under way at once, and the topic is made on the fly."""
    with Line(api, first=7) as line:
        line.send(*[frame(7 + n, topic, 2 * n, 2 * n + 1) for n in range(500)])

        line.wait_for(OK, 499)

    assert rows(api, topic) == list(range(1000))


def test_a_row_keeps_its_tag_node_and_meta(api: Api, topic: str) -> None:
    payload = parcel_head(topic, 1) + pack_record(1, 2, 3, 4) + b"tagnode{}7"
    with Line(api) as line:
        line.send(raw_frame(0, payload))
        line.wait_for(OK, 0)

    (record,) = api.diff(topic, include_tags=True)["records"]
    assert (record["data"], record["$tag"], record["$node"]) == (7, "tag", "node")


def test_frames_of_several_topics_share_a_connection(api: Api) -> None:
    topics = [new_name() for _ in range(5)]
    with Line(api) as line:
        line.send(*[frame(n, topics[n % 5], n) for n in range(200)])
        line.wait_for(OK, 199)

    for at, topic in enumerate(topics):
        assert rows(api, topic) == list(range(at, 200, 5))


def test_an_empty_frame_only_counts(api: Api, topic: str) -> None:
    with Line(api) as line:
        line.send(raw_frame(0), frame(1, topic, "a"), raw_frame(2), raw_frame(3))

        line.wait_for(OK, 3)

    assert rows(api, topic) == ["a"]


@pytest.mark.parametrize("fsn", [0, 6, 9, 1 << 62])
def test_a_frame_that_is_not_the_next_ends_the_connection(api: Api, topic: str, fsn: int) -> None:
    with Line(api, first=7) as line:
        line.send(frame(7, topic, "first"))
        line.wait_for(OK, 0)
        line.send(frame(fsn, topic, "wrong"))

        assert line.close_code() == 1008

    assert rows(api, topic) == ["first"]


@pytest.mark.parametrize("text", ["", "{}", '{"incarnation":"00"}', '{"incarnation":"zz"}', "[]"])
def test_frames_of_nobody_end_the_connection(api: Api, topic: str, text: str) -> None:
    with Line(api) as line:
        line.say(text)
        line.send(frame(0, topic, 1))

        assert line.close_code() == 1008

    refused(api.get(f"/v0/topics/{topic}"), 404, "topic_not_found")


# Refusals.


def damaged(topic: str) -> bytes:
    data = bytearray(frame(1, topic, "second"))
    data[-2] ^= 1
    return bytes(data)


REFUSALS = {
    "garbage": (lambda topic: b"garbage", PARSE),
    "nothing": (lambda topic: b"", PARSE),
    "a bit that flipped": (damaged, PARSE),
    "no JSON": (lambda topic: raw_frame(1, parcel(topic, b"{oops")), SCHEMA),
    "no UTF-8": (lambda topic: raw_frame(1, parcel(topic, b'"\xff"')), SCHEMA),
    "one bad row among good ones": (
        lambda topic: raw_frame(1, parcel(topic, b"1", b"2,3", b"4")),
        SCHEMA,
    ),
    "a row too large": (lambda topic: frame(1, topic, "x" * ((1 << 20) + 1)), SCHEMA),
    "rows that end early": (lambda topic: raw_frame(1, parcel(topic, b"1")[:-1]), SCHEMA),
    "bytes behind the rows": (lambda topic: raw_frame(1, parcel(topic, b"1") + b"x"), SCHEMA),
    "a payload of another kind": (lambda topic: raw_frame(1, b"what is this"), SCHEMA),
    "a topic of the log's own": (lambda topic: frame(1, "_audit", 1), SCHEMA),
    "a name that is none": (lambda topic: frame(1, "a b", 1), SCHEMA),
}


@pytest.mark.parametrize("what", REFUSALS)
@pytest.mark.parametrize("is_durable", [False, True])
def test_a_frame_is_refused_and_nothing_behind_it_is_taken(
    api: Api, topic: str, what: str, is_durable: bool
) -> None:
    """What is before it is answered first, syncs included."""
    make, status = REFUSALS[what]
    with Line(api, is_durable=is_durable) as line:
        line.send(frame(0, topic, "first"), make(topic), *[frame(n, topic, n) for n in (2, 3, 4)])
        line.wait_for(DURABLE if is_durable else OK, 0)

        reply = line.refusal()

    assert (reply.status, reply.count) == (status, 1)
    assert reply.text
    assert rows(api, topic) == ["first"]


def test_a_topic_that_the_key_may_not_name_is_refused(start: Start) -> None:
    api = api_of(start(PENSTOCK_API_KEYS="mine:read+write:mine-,all"))
    with Line(api.as_key("mine")) as line:
        line.send(frame(0, "mine-1", 1), frame(1, "yours", 1), frame(2, "mine-1", 2))

        reply = line.refusal()

    assert (reply.status, reply.count) == (SECURITY, 1)
    assert rows(api.as_key("all"), "mine-1") == [1]
    refused(api.as_key("all").get("/v0/topics/yours"), 404, "topic_not_found")


def test_a_full_topic_refuses_and_takes_the_frame_when_there_is_room(api: Api, topic: str) -> None:
    """A smaller frame behind it, which would fit, is not taken: the number of the larger one
    would then be thought to be there."""
    api.create(topic, discard="reject", cap_records=4)
    frames = [frame(0, topic, 1, 2, 3), frame(1, topic, 4, 5), frame(2, topic, 6)]
    with Line(api) as line:
        line.send(*frames)
        reply = line.refusal()
    assert (reply.status, reply.count) == (WRITE, 1)
    assert rows(api, topic) == [1, 2, 3]

    api.remove(topic, before_seq=4)
    with Line(api, line.incarnation, first=1) as again:
        again.send(*frames[1:])
        again.wait_for(OK, 1)

    assert rows(api, topic) == [4, 5, 6]


def test_a_full_topic_never_takes_a_frame_behind_a_refused_one(api: Api, topic: str) -> None:
    api.create(topic, discard="reject", cap_records=12)
    sizes = [7, 1, 3, 2, 11, 1] * 5
    first, incarnation = 0, new_incarnation()
    while first < len(sizes):
        with Line(api, incarnation, first=first) as line:
            line.send(*[frame(n, topic, *[n] * sizes[n]) for n in range(first, len(sizes))])
            reply = line.reply()
            while reply.status == OK and first + reply.count < len(sizes) - 1:
                reply = line.reply()
        taken = first + reply.count + (reply.status == OK)
        assert rows(api, topic) == [n for n in range(first, taken) for _ in range(sizes[n])]
        first = taken
        api.remove(topic, before_seq=1 << 40)
    assert reply.status == OK


def test_refusals_reach_a_sender_that_is_still_sending(start: Start) -> None:
    """A connection that the server has left loses what it brings, not what it brought."""
    server = start()
    api = api_of(server)
    api.create("full", discard="reject", cap_records=1)
    api.write("full", "x")
    host, port = server.address
    errors: list[SenderError] = []
    with Sender(conf(f"{host}:{port}"), error_handler=errors.append) as sender:
        row = b'"' + b"x" * 500_000 + b'"'
        for number in range(30):
            sender.append("full" if number % 3 == 1 else "good", row)
            sender.flush()
        assert sender.drain(DEADLINE_S)

        assert sender.status().counters.connects == 11  # one more for each refusal
    assert [error.fsn for error in errors] == list(range(1, 30, 3))
    assert len(rows(api, "good")) == 20


def test_a_topic_in_memory_is_refused_to_who_wants_syncs(api: Api, topic: str) -> None:
    api.create(topic, durability="ephemeral")

    with Line(api, is_durable=True) as line:
        line.send(frame(0, topic, 1))
        assert line.refusal().status == SCHEMA
    with Line(api) as line:
        line.send(frame(0, topic, 2))
        line.wait_for(OK, 0)

    assert rows(api, topic) == [2]


# Syncs.


@pytest.mark.parametrize("durability", ["disk", "fsync"])
def test_syncs_are_told_behind_the_answers_and_only_when_asked_for(
    api: Api, topic: str, durability: str
) -> None:
    api.create(topic, durability=durability)
    with Line(api, is_durable=True) as line:
        line.send(*[frame(n, topic, n) for n in range(50)])
        told = line.wait_for(DURABLE, 49)
    answered = -1
    for reply in told:
        if reply.status == OK:
            answered = reply.count
        else:
            assert reply.count <= answered, told

    with Line(api) as line:
        line.send(*[frame(n, topic, n) for n in range(50)])
        told = line.wait_for(OK, 49)
        line.send(*[frame(n, topic, n) for n in range(50, 60)])
        told += line.wait_for(OK, 59)
    assert {reply.status for reply in told} == {OK}


# Once.


def test_frames_that_come_again_add_nothing(api: Api, topic: str) -> None:
    frames = [frame(n, topic, n) for n in range(20)]
    with Line(api) as line:
        line.send(*frames)
        line.wait_for(OK, 19)

    for first in (0, 5, 19):
        with Line(api, line.incarnation, first=first) as again:
            again.send(*frames[first:])
            again.wait_for(OK, 19 - first)
    with Line(api, line.incarnation, first=15) as again:
        again.send(*frames[15:], frame(20, topic, 20))
        again.wait_for(OK, 5)

    assert rows(api, topic) == list(range(21))


def test_another_incarnation_has_numbers_of_its_own(api: Api, topic: str) -> None:
    """Also on one connection."""
    with Line(api) as line:
        line.send(frame(0, topic, "a"), frame(1, topic, "b"))
        line.say(f'{{"incarnation":"{new_incarnation()}"}}')
        line.send(frame(2, topic, "c"))
        line.wait_for(OK, 2)
    with Line(api) as line:
        line.send(frame(0, topic, "d"))
        line.wait_for(OK, 0)

    assert rows(api, topic) == ["a", "b", "c", "d"]


def test_frames_over_two_connections_at_once_are_taken_once(api: Api, topic: str) -> None:
    incarnation = new_incarnation()
    frames = [frame(n, topic, n) for n in range(300)]

    def send(_: int) -> None:
        with Line(api, incarnation) as line:
            line.send(*frames)
            line.wait_for(OK, 299)

    at_once(4, send)

    assert rows(api, topic) == list(range(300))


@pytest.mark.parametrize("how", ["kill", "stop"])
@pytest.mark.parametrize("durability", ["disk", "fsync"])
def test_frames_that_come_again_after_a_restart_add_nothing(
    start: Start, how: str, durability: str
) -> None:
    """Also when a checkpoint has made that part of the log needless."""
    small = {"PENSTOCK_CHECKPOINT_WAL_BYTES": "32768", "PENSTOCK_WAL_FILE_BYTES": "65536"}
    server = start(**small, PENSTOCK_UPKEEP_INTERVAL_MS="5")
    topic, incarnation = "t", new_incarnation()
    api_of(server).create(topic, durability=durability)
    frames = [frame(n, topic, n, "x" * 500) for n in range(200)]
    for _ in range(3):
        with Line(api_of(server), incarnation) as line:
            line.send(*frames)
            line.wait_for(OK, 199)
        server.kill() if how == "kill" else server.stop()
        server.start()

    api = api_of(server)
    assert [row for row in rows(api, topic) if isinstance(row, int)] == list(range(200))
    assert len(rows(api, topic)) == 400


def test_a_server_that_stops_says_so(start: Start) -> None:
    server = start()
    with Line(api_of(server)) as line:
        line.send(frame(0, "t", 1))
        line.wait_for(OK, 0)
        server.terminate()

        assert line.close_code() == 1001


def test_a_server_that_stops_under_way_gets_the_rest_later(start: Start) -> None:
    server = start()
    incarnation = new_incarnation()
    frames = [frame(n, "t", n) for n in range(2000)]
    with Line(api_of(server), incarnation) as line:
        sending = threading.Thread(target=line.send, args=frames)
        sending.start()
        line.reply()
        server.terminate()
        line.until_gone()
        sending.join()
    server.wait()
    server.start()

    with Line(api_of(server), incarnation) as line:
        line.send(*frames)
        line.wait_for(OK, 1999)

    assert rows(api_of(server), "t") == list(range(2000))


def test_batches_over_several_topics_go_on_meanwhile(api: Api) -> None:
    topics = [new_name() for _ in range(3)]
    over = threading.Event()

    def write(_: int) -> int:
        count = 0
        while not over.is_set():
            writes = [{"topic": topic, "records": [{"data": "other"}]} for topic in topics]
            assert api.post("/v0/batch", {"writes": writes}).status == 200
            count += 1
        return count

    def send(number: int) -> int:
        if number:
            return write(number)
        with Line(api) as line:
            line.send(*[frame(n, topics[n % 3], n) for n in range(600)])
            line.wait_for(OK, 599)
        over.set()
        return 0

    counts = at_once(3, send)

    for at, topic in enumerate(topics):
        found = rows(api, topic)
        assert [row for row in found if row != "other"] == list(range(at, 600, 3))
        assert found.count("other") == sum(counts)


def test_a_topic_that_is_dropped_and_comes_back_takes_what_comes(api: Api, topic: str) -> None:
    with Line(api) as line:
        line.send(frame(0, topic, "old"))
        line.wait_for(OK, 0)
        api.drop(topic)
        line.send(frame(1, topic, "new"))
        line.wait_for(OK, 1)

    assert rows(api, topic) == ["new"]


def test_too_many_topics_are_refused_for_now(start: Start) -> None:
    api = api_of(start(PENSTOCK_MAX_TOPICS="1"))
    with Line(api) as line:
        line.send(frame(0, "one", 1), frame(1, "two", 1))
        reply = line.refusal()

    assert (reply.status, reply.count) == (WRITE, 1)
