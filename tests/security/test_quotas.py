"""S23: one caller who wants everything, and the others."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest
from websockets.exceptions import InvalidStatus

from tests.server.conftest import Start
from tests.server.support import Api, Later, api_of, new_name
from tests.server.wire import Connection, Reply
from tests.support.rig import say
from tests.support.serving import Server, eventually

IN_FLIGHT = 4


@pytest.fixture(scope="module")
def capped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    env = {
        "PENSTOCK_API_KEYS": "noisy,quiet",
        "PENSTOCK_MAX_INFLIGHT_PER_KEY": str(IN_FLIGHT),
        "PENSTOCK_MAX_SSE_CONNECTIONS_PER_KEY": "2",
        "PENSTOCK_MAX_SSE_CONNECTIONS": "3",
    }
    server = Server(tmp_path_factory.mktemp("capped"), env).start()
    yield server
    server.close()


@pytest.fixture
def noisy(capped: Server) -> Api:
    return api_of(capped, "noisy")


@pytest.fixture
def quiet(capped: Server) -> Api:
    return api_of(capped, "quiet")


def throttled(reply: Reply) -> None:
    assert reply.status == 429
    assert reply.json["error"]["code"] == "throttled"
    assert int(reply.headers["retry-after"]) >= 1


def test_a_key_at_its_cap_waits_and_the_others_are_served(noisy: Api, quiet: Api) -> None:
    """S23: ten times the cap at once: 429 with Retry-After for the noisy, service for the quiet."""
    topic = new_name()
    quiet.create(topic)
    body = b'{"wait_ms":30000}'
    fields = {"Content-Type": "application/json", "Authorization": "Bearer noisy"}
    wires = [Connection(noisy.address) for _ in range(10 * IN_FLIGHT)]
    try:
        for wire in wires[:IN_FLIGHT]:
            wire.send_request("POST", f"/v0/topics/{topic}/diff", body, fields)
        eventually(lambda: noisy.get("/v0/topics").status == 429, "the cap")

        for wire in wires[IN_FLIGHT:]:
            throttled(wire.request("POST", f"/v0/topics/{topic}/diff", body, fields))
        throttled(noisy.post(f"/v0/topics/{topic}", {"records": [{"data": 1}]}))
        throttled(noisy.get(f"/v0/topics/{topic}"))
        for number in range(20):
            assert quiet.diff(topic)["head_seq"] == number
            quiet.write(topic, number)
        answers = [wire.read_reply() for wire in wires[:IN_FLIGHT]]
    finally:
        for wire in wires:
            wire.close()

    assert [reply.status for reply in answers] == [200] * IN_FLIGHT
    assert noisy.get("/v0/topics").status == 200


def test_what_has_been_answered_no_longer_counts(noisy: Api) -> None:
    """S23: whatever its outcome, so that no key is locked out by its own failures."""
    topic = new_name()
    noisy.create(topic, cap_records=5, discard="reject")
    for number in range(10 * IN_FLIGHT):
        noisy.post(f"/v0/topics/{topic}", {"records": [{"data": number}]})
        noisy.post(f"/v0/topics/{topic}", {"records": []})
        noisy.post(f"/v0/topics/{topic}", {"records": [{"data": 1}], "expected_seq": 10**6})
        noisy.post(f"/v0/topics/{topic}/diff", {"from_seq": -1})
        noisy.put(f"/v0/topics/{topic}", {"type": "queue"})
        noisy.get("/v0/topics/absent")
        noisy.get("/v0/nothing")
        noisy.post("/v0/batch", {"writes": [{"topic": topic, "records": [{"data": 1}]}]})
        noisy.call(
            "POST",
            f"/v0/topics/{topic}",
            b"no gzip",
            {"Content-Type": "application/json", "Content-Encoding": "gzip"},
        )

    assert noisy.get("/v0/topics").status == 200


def test_who_leaves_before_the_answer_no_longer_counts(noisy: Api) -> None:
    """S23: a long poll that nobody waits for ends."""
    topic = new_name()
    noisy.create(topic)
    body = b'{"wait_ms":1000}'
    fields = {"Content-Type": "application/json", "Authorization": "Bearer noisy"}

    for _ in range(IN_FLIGHT):
        with Connection(noisy.address) as wire:
            wire.send_request("POST", f"/v0/topics/{topic}/diff", body, fields)

    eventually(lambda: noisy.get("/v0/topics").status == 200, "an end of what was left")


def test_streams_of_a_key_are_capped(noisy: Api, quiet: Api) -> None:
    """S23: streams and sockets together, and room is left for another key."""
    topic = new_name()
    quiet.create(topic)
    wids = [noisy.watch([topic])["wid"] for _ in range(3)]

    with noisy.stream(wids[0]), noisy.socket():
        throttled(noisy.get(f"/v0/watch/{wids[1]}"))
        with pytest.raises(InvalidStatus) as caught:
            noisy.socket()
        assert caught.value.response.status_code == 429
        with quiet.follow([topic]) as stream:
            quiet.write(topic, 1)
            assert stream.one("record").seqs == [1]
    eventually(lambda: reopened(noisy, wids[2]), "room")


def reopened(api: Api, wid: str) -> bool:
    with api.stream(wid) as stream:
        return stream.reply.status == 200


def test_sessions_and_topics_are_capped(start: Start) -> None:
    """S23: with the limit that was met in the answer."""
    noisy = api_of(start(PENSTOCK_MAX_WATCH_SESSIONS="50", PENSTOCK_MAX_TOPICS="60"))
    topic = new_name()
    noisy.create(topic)
    replies = [noisy.post("/v0/watch", {"topics": {topic: {}}}) for _ in range(51)]
    throttled(replies[-1])
    assert replies[-1].json["error"]["detail"] == {"limit": "max_watch_sessions", "max": 50}

    replies = [noisy.put(f"/v0/topics/{new_name('many')}") for _ in range(61)]
    throttled(replies[-1])
    assert replies[-1].json["error"]["detail"] == {"limit": "max_topics", "max": 60}
    assert noisy.post(f"/v0/topics/{topic}", {"records": [{"data": 1}]}).status == 200


def test_bytes_are_capped_and_deleting_makes_room(start: Start) -> None:
    """S23: a disk is not filled by whoever writes most."""
    api = api_of(start(PENSTOCK_MAX_TOTAL_BYTES="10000"))
    api.create("t")
    replies = [api.post("/v0/topics/t", {"records": [{"data": "x" * 900}]}) for _ in range(15)]

    throttled(replies[-1])
    assert api.state("t")["bytes"] <= 10_000
    api.remove("t", before_seq=6)
    assert api.post("/v0/topics/t", {"records": [{"data": "x" * 900}]}).status == 200


def test_positions_are_capped(api: Api, topic: str) -> None:
    """S23: names of consumers are state that is kept."""
    api.create(topic)
    with Connection(api.address) as wire:
        for number in range(1_000):
            reply = wire.request(
                "PUT",
                f"/v0/topics/{topic}/positions/p{number}",
                b'{"seq":0}',
                {"Content-Type": "application/json"},
            )
            assert reply.status == 200

    throttled(api.put(f"/v0/topics/{topic}/positions/one-more", {"seq": 0}))
    assert api.put(f"/v0/topics/{topic}/positions/p7", {"seq": 0}).status == 200


def test_a_key_at_ten_times_the_rate_does_not_keep_another_from_writing(
    capped: Server, quiet: Api
) -> None:
    """S23: every write of the quiet one is taken. How long they took is told, not judged:
    machines have other work."""
    own, other = new_name(), new_name()
    quiet.create(own)
    quiet.create(other)
    with contextlib.ExitStack() as held:
        wires = [held.enter_context(Connection(capped.connect_to)) for _ in range(11)]
        alone = p99_s(wires[0], own)
        over = threading.Event()
        with Later(lambda: noise(wires[1:], other, over)) as load:
            try:
                beside = p99_s(wires[0], own)
            finally:
                over.set()
            assert load.result() > 0

    say(f"S23 p99 of the quiet key: {alone * 1e3:.1f} ms alone, {beside * 1e3:.1f} ms beside")
    assert quiet.state(own)["head_seq"] == 2 * ROUNDS


ROUNDS = 200
PAUSE_S = 0.01


def p99_s(wire: Connection, topic: str) -> float:
    """Of writes at a steady rate of one a pause."""
    took = []
    pause = threading.Event()
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        assert write(wire, topic, "quiet") == 200
        took.append(time.perf_counter() - begun)
        pause.wait(PAUSE_S)
    return sorted(took)[ROUNDS * 99 // 100]


def noise(wires: list[Connection], topic: str, over: threading.Event) -> int:
    """So many writes in every pause as there are connections."""
    count = 0
    while not over.wait(PAUSE_S):
        for wire in wires:
            count += write(wire, topic, "noisy") in (200, 429)
    return count


def write(wire: Connection, topic: str, key: str) -> int:
    fields = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    return wire.request("POST", f"/v0/topics/{topic}", b'{"records":[{"data":1}]}', fields).status


def test_a_flood_of_writes_does_not_starve_a_reader(capped: Server, quiet: Api) -> None:
    """S23: the quiet key is answered all the time."""
    topic, other = new_name(), new_name()
    quiet.create(topic)
    quiet.create(other)
    noisy = api_of(capped, "noisy")
    stop: list[bool] = []

    def flood() -> int:
        count = 0
        while not stop:
            noisy.post(f"/v0/topics/{topic}", {"records": [{"data": "x" * 1000}] * 500})
            count += 1
        return count

    with Later(flood) as one, Later(flood) as two:
        try:
            for number in range(50):
                quiet.write(other, number)
                assert quiet.state(other)["head_seq"] == number + 1
        finally:
            stop.append(True)
        assert one.result() + two.result() > 0
