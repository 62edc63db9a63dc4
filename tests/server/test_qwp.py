"""QWP over WebSocket, against a real server: a small client of our own."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.server.conftest import Start, patiently
from tests.server.support import Api, api_of, datas_of, new_name, refused
from tests.server.wire import Connection
from tests.support import qwp
from tests.support.qwp import Block, Client, Column, DeafClient, longs, message
from tests.support.serving import DEADLINE_S, Server, eventually

PATHS = ("/api/v4/write", "/write/v4")
HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "X-QWP-Max-Version": "1",
}
DURABLE = {"X-QWP-Request-Durable-Ack": "true"}


def numbers(api: Api, topic: str) -> list[Any]:
    found: list[Any] = []
    while True:
        page = api.diff(topic, from_seq=len(found), limit=10_000)
        found += [data["n"] for data in datas_of(page)]
        if page["caught_up"]:
            return found


@pytest.fixture
def server(shared: Server) -> Server:
    return shared


@pytest.fixture
def client(server: Server) -> Any:
    with Client(server.connect_to) as one:
        yield one


# The handshake.


@pytest.mark.parametrize("path", PATHS)
def test_both_paths_lead_to_the_same(server: Server, api: Api, path: str) -> None:
    topic = new_name()
    with Client(server.connect_to, path) as client:
        said = client.ask(longs(topic, 1, 2))

        headers = client.connection.response.headers  # type: ignore[union-attr]

    assert said == qwp.Heard(0, 0, {topic: 2}, "")
    assert numbers(api, topic) == [1, 2]
    assert headers["X-QWP-Version"] == "1"
    assert headers["X-QuestDB-Role"] == "STANDALONE"
    assert headers["X-QWP-Max-Batch-Size"] == str(16 * 1024 * 1024)
    assert "X-QWP-Durable-Ack" not in headers


def test_the_longest_message_is_no_longer_than_a_body(start: Start) -> None:
    server = start(PENSTOCK_MAX_BODY_BYTES="1000")
    with Client(server.connect_to) as client:
        assert client.connection.response is not None
        assert client.connection.response.headers["X-QWP-Max-Batch-Size"] == "1000"

        client.connection.send(message(longs("t", 1)).ljust(1000, b"\0"))
        assert client.until(0).tables == {"t": 1}
        client.send(longs("t", 2))
        client.connection.send(bytes(1001))

        assert client.until(1).tables == {"t": 2}
        said = client.next()
        assert (said.status, said.seq, said.reason) == (5, 2, "a message has more than 1000 bytes")
        with pytest.raises(ConnectionClosed):
            client.next()
        assert client.connection.close_code == 1009


def shaken(server: Server, **change: str | None) -> Any:
    headers = HANDSHAKE | {name.replace("_", "-"): value for name, value in change.items()}
    with Connection(server.connect_to) as connection:
        wanted = {name: value for name, value in headers.items() if value is not None}
        return connection.request("GET", PATHS[0], None, wanted)


def test_a_handshake_that_is_none_is_refused(server: Server) -> None:
    refused(shaken(server, Upgrade="h2c"), 400, "invalid_request")
    refused(shaken(server, Connection="close"), 400, "invalid_request")
    for key in (None, "short", "AAAA"):
        refused(shaken(server, Sec_WebSocket_Key=key), 400, "invalid_request")
    for version in (None, "12", "14"):
        reply = shaken(server, Sec_WebSocket_Version=version)
        refused(reply, 426, "upgrade_required")
        assert reply.headers["sec-websocket-version"] == "13"
    for newest in ("0", "", "x", "-1"):
        refused(shaken(server, X_QWP_Max_Version=newest), 400, "invalid_request")
    host, port = server.connect_to
    refused(shaken(server, Origin=f"http://{host}:{port}"), 400, "invalid_request")
    refused(shaken(server, Origin="http://elsewhere.example"), 403, "forbidden")
    refused(shaken(server, Host="elsewhere.example"), 421, "misdirected_request")


def test_whoever_knows_later_versions_gets_this_one(server: Server) -> None:
    with Client(server.connect_to, headers={"X-QWP-Max-Version": "9"}) as client:
        assert client.connection.response is not None
        assert client.connection.response.headers["X-QWP-Version"] == "1"


def test_keys_need_the_scope_and_the_name(start: Start) -> None:
    server = start(PENSTOCK_API_KEYS="all,reader:read,writer:write:own-")

    for key, status in ((None, 401), ("wrong", 401), ("reader", 403)):
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        with pytest.raises(InvalidStatus) as caught:
            Client(server.connect_to, headers=headers)
        assert caught.value.response.status_code == status
    with Client(server.connect_to, headers={"Authorization": "Bearer writer"}) as client:
        assert client.ask(longs("own-a", 1)).tables == {"own-a": 1}
        client.send(longs("own-a", 2), longs("foreign", 2))
        said = client.next()

    assert (said.status, said.seq) == (8, 1)
    assert numbers(api_of(server, "all"), "own-a") == [1]
    refused(api_of(server, "all").get("/v0/topics/foreign"), 404, "topic_not_found")


# Rows.


def test_answers_are_cumulative_and_in_order(client: Client, api: Api) -> None:
    topic, count = new_name(), 500

    for number in range(count):
        client.send(longs(topic, number))
    said = client.until(count - 1)

    assert said.seq == count - 1
    assert said.tables == {topic: count}
    assert numbers(api, topic) == list(range(count))


def test_a_message_with_several_tables_is_one_step(client: Client, api: Api) -> None:
    one, two = new_name(), new_name()

    said = client.ask(longs(one, 1), longs(two, 2, 3), longs(one, 4))

    assert said.tables == {one: 2, two: 2}
    assert numbers(api, one) == [1, 4]
    assert numbers(api, two) == [2, 3]


def test_symbols_and_empty_messages_are_answered_too(client: Client, api: Api) -> None:
    topic = new_name()

    client.send(symbols=(0, ["a", "b"]))
    assert client.until(0).tables == {}
    client.send(Block(topic, [Column("n", qwp.SYMBOL, [1, None, 0])]), symbols=(2, []))
    assert client.until(1).tables == {topic: 3}
    client.send(longs(new_name()))  # no rows, no topic
    assert client.until(2).tables == {}

    assert datas_of(api.diff(topic)) == [{"n": "b"}, {}, {"n": "a"}]


def test_more_rows_than_a_batch_may_have(client: Client, api: Api) -> None:
    one, two = new_name(), new_name()

    said = client.ask(longs(one, *range(25_000)), longs(two, *range(12_000)))

    assert said.tables == {one: 25_000, two: 12_000}
    assert numbers(api, one) == list(range(25_000))


def test_large_messages_keep_their_place_among_small_ones(client: Client, api: Api) -> None:
    topic = new_name()
    sent: list[int] = []
    for number in range(40):
        rows = [number] * (9_000 if number % 4 == 0 else 3)
        sent += rows
        client.send(longs(topic, *rows))
    client.until(39)

    assert numbers(api, topic) == sent


def test_a_ping_is_answered(client: Client) -> None:
    assert client.connection.ping().wait(DEADLINE_S)


# Groups.


def test_a_deferred_group_is_seen_when_it_is_committed(client: Client, api: Api) -> None:
    one, two = new_name(), new_name()
    client.send(longs(one, 1), flags=qwp.DEFER)
    client.send(longs(two, 2), flags=qwp.DEFER)
    assert client.is_silent()
    refused(api.get(f"/v0/topics/{one}"), 404, "topic_not_found")

    client.send(longs(one, 3))

    assert client.next() == qwp.Heard(0, 2, {one: 2, two: 1}, "")
    assert numbers(api, one) == [1, 3]
    client.send(longs(one, 4), flags=qwp.DEFER)
    client.send()
    assert client.next() == qwp.Heard(0, 4, {one: 3}, "")


def test_a_group_that_is_not_committed_never_was(server: Server, api: Api) -> None:
    topic = new_name()
    with Client(server.connect_to) as client:
        client.ask(longs(topic, 1))
        client.send(longs(topic, 2), flags=qwp.DEFER)
        assert client.is_silent()
    with Client(server.connect_to) as client:
        client.ask(longs(topic, 3))

    assert numbers(api, topic) == [1, 3]


def test_a_group_is_dropped_with_the_message_that_fails(client: Client, api: Api) -> None:
    topic = new_name()
    client.send(longs(topic, 0))
    client.send(longs(topic, 1), flags=qwp.DEFER)
    client.send(longs("not a topic", 2))

    heard = [client.next(), client.next()]

    assert [(one.status, one.seq) for one in heard] == [(0, 0), (3, 2)]
    assert numbers(api, topic) == [0]


# Refusals.


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (message(magic=b"ILP1"), 5),
        (message(version=2), 5),
        (b"short", 5),
        (message(longs("t", 1))[:-3], 5),
        (message(Block("t", [Column("c", 0x08, [])])), 5),
        (message(Block("t", [Column("c", qwp.SYMBOL, [3])]), symbols=(0, ["a"])), 5),
        (message(longs("n" * 128, 1)), 5),
        (message(symbols=(7, ["a"])), 0x0D),
        (message(longs("two words", 1)), 3),
        (message(longs("_own", 1)), 3),
        (message(Block("t", [Column('quo"te', qwp.LONG, [1])])), 3),
        (message(Block("t", [Column("c", qwp.VARCHAR, ["x" * (1 << 20)])])), 5),
    ],
    ids=range(12),
)
def test_a_refusal_ends_the_conversation(
    client: Client, api: Api, data: bytes, status: int
) -> None:
    topic = new_name()
    client.send(longs(topic, 1))
    client.connection.send(data)
    client.send(longs(topic, 2))

    first, second = client.next(), client.next()

    assert (first.status, first.seq) == (0, 0)
    assert (second.status, second.seq) == (status, 1)
    assert second.reason
    assert client.is_silent()
    assert numbers(api, topic) == [1]


def test_a_full_topic_asks_for_another_try(client: Client, api: Api) -> None:
    topic = new_name()
    api.create(topic, cap_records=2, discard="reject")
    client.ask(longs(topic, 1, 2))

    with contextlib.suppress(ConnectionClosed):  # it may be so before everything is sent
        for number in range(3, 100):
            client.send(longs(topic, number))
    with pytest.raises(ConnectionClosed):
        client.next()
    assert client.connection.close_code == 1001
    assert "is full" in (client.connection.close_reason or "")
    assert numbers(api, topic) == [1, 2]


def test_texts_are_not_taken(client: Client) -> None:
    client.connection.send("hello")

    with pytest.raises(ConnectionClosed):
        client.next()
    assert client.connection.close_code == 1003


# Sending again.


def test_timed_rows_sent_again_on_another_connection_are_there_once(patient: Server) -> None:
    one, two = new_name(), new_name()
    messages = [
        [longs(one, 1, 2, at=[10, 11])],
        [longs(one, 3, at=[12]), longs(two, 4, at=[12])],
        [longs(one, *range(12_000), at=range(12_000))],
    ]
    for blocks in messages:
        for _ in range(3):
            with DeafClient(patient.connect_to) as deaf:
                deaf.send(*blocks)
                deaf.wait_for_ok(0)
        with Client(patient.connect_to) as client:
            client.ask(*blocks)

    assert numbers(api_of(patient), one) == [1, 2, 3, *range(12_000)]
    assert numbers(api_of(patient), two) == [4]


def test_equal_rows_on_one_connection_are_meant(patient: Server) -> None:
    topic = new_name()
    for _ in range(2):
        with DeafClient(patient.connect_to) as deaf:
            for _ in range(3):
                deaf.send(longs(topic, 1, at=[10]))
            deaf.wait_for_ok(2)

    assert numbers(api_of(patient), topic) == [1, 1, 1]


def test_rows_that_equal_acknowledged_ones_are_new(server: Server, api: Api) -> None:
    """The client has let go of the first, so what comes next is another, however equal."""
    topic = new_name()
    for _ in range(3):
        with Client(server.connect_to) as client:
            client.ask(longs(topic, 1, at=[10]))

    with Client(server.connect_to) as one, Client(server.connect_to) as two:
        for seq in range(2):
            for client in (one, two):
                client.ask(longs(topic, 2, at=[10]), seq=seq)
                client.connection.ping().wait(DEADLINE_S)  # with it the system confirms the OK

    assert numbers(api, topic) == [1, 1, 1, 2, 2, 2, 2]


def test_the_second_of_two_equal_ones_is_sent_again_and_there_once(patient: Server) -> None:
    topic = new_name()
    with Client(patient.connect_to) as client:
        client.ask(longs(topic, 1, at=[10]))
    for _ in range(2):
        with DeafClient(patient.connect_to) as deaf:
            deaf.send(longs(topic, 1, at=[10]))
            deaf.wait_for_ok(0)

    assert numbers(api_of(patient), topic) == [1, 1]


def test_after_a_kill_what_was_sent_once_is_there_once(start: Start) -> None:
    server = start()
    for _ in range(3):
        with Client(server.connect_to) as client:
            client.ask(longs("t", 1, 2, at=[10, 11]), longs("u", 1, at=[10]))
        server.kill()
        server.start()

    assert numbers(api_of(server), "t") == [1, 2]
    assert numbers(api_of(server), "u") == [1]


def test_after_a_kill_rows_that_were_meant_several_times_are_never_lost(start: Start) -> None:
    server = start()
    with Client(server.connect_to) as client:
        for seq in range(3):
            client.ask(longs("t", 1, at=[10]), seq=seq)
    server.kill()
    server.start()
    with Client(server.connect_to) as client:
        for seq in range(2):
            client.ask(longs("t", 1, at=[10]), seq=seq)

    assert numbers(api_of(server), "t") == [1] * 5


def test_rows_without_a_time_of_their_own_may_be_there_twice(server: Server, api: Api) -> None:
    topic = new_name()
    for _ in range(2):
        with Client(server.connect_to) as client:
            client.ask(longs(topic, 1))

    assert numbers(api, topic) == [1, 1]


def test_keys_of_others_do_not_hide_rows(tmp_path: Path) -> None:
    with contextlib.closing(patiently(tmp_path, PENSTOCK_API_KEYS="one,two")) as server:
        server.start()
        for key in ("one", "two", "one"):
            with DeafClient(server.connect_to, {"Authorization": f"Bearer {key}"}) as deaf:
                deaf.send(longs("t", 1, at=[10]))
                deaf.wait_for_ok(0)

        assert numbers(api_of(server, "one"), "t") == [1, 1]


def test_acknowledged_rows_survive_a_kill_and_others_are_sent_again(start: Start) -> None:
    """A client that replays what was not acknowledged, as the official one does."""
    server = start()
    api = api_of(server)
    sent, acked = 0, -1

    for _ in range(3):
        with Client(server.connect_to) as client:
            base = acked + 1
            for number in range(base, base + 200):
                client.send(longs("t", number, at=[number]))
            sent = max(sent, base + 200)
            acked = base + client.next().seq
            server.kill()
        server.start()
        api = api_of(server)
        assert numbers(api, "t")[: acked + 1] == list(range(acked + 1))
    with Client(server.connect_to) as client:
        for number in range(acked + 1, sent):
            client.send(longs("t", number, at=[number]))
        client.until(sent - acked - 2)

    assert numbers(api, "t") == list(range(sent))


# Syncs.


def test_a_client_that_asks_hears_of_syncs(server: Server) -> None:
    one, two = new_name(), new_name()
    with Client(server.connect_to, headers=DURABLE) as client:
        assert client.connection.response is not None
        assert client.connection.response.headers["X-QWP-Durable-Ack"] == "enabled"
        client.send(longs(one, 1, 2), longs(two, 3))

        assert client.next() == qwp.Heard(0, 0, {one: 2, two: 1}, "")
        synced: dict[str, int] = {}
        while len(synced) < 2:  # at once, or each table by itself
            heard = client.next()
            assert heard.status == 2
            synced |= heard.tables
        assert synced == {one: 2, two: 1}


def test_syncs_reach_the_last_row(server: Server) -> None:
    topic, reached = new_name(), 0
    with Client(server.connect_to, headers=DURABLE) as client:
        for number in range(300):
            client.send(longs(topic, number))
        while reached < 300:
            heard = client.next()
            if heard.status == 2:
                assert heard.tables[topic] > reached
                reached = heard.tables[topic]


def test_syncs_reach_the_last_row_when_old_ones_are_sent_again_behind_it(patient: Server) -> None:
    """A repetition has the seq of its first time, and takes nothing back."""
    for number in range(20):
        topic = new_name()
        with DeafClient(patient.connect_to) as deaf:
            deaf.send(longs(topic, 1, at=[10]))
            deaf.wait_for_ok(0)
        with Client(patient.connect_to, headers=DURABLE) as client:
            for block in (longs(topic, 2), longs(topic, 3), longs(topic, 1, at=[10])):
                client.send(block)
                threading.Event().wait(0.0005 * (number % 4))  # now together, now one by one
            acked, committed, synced = -1, 0, 0
            while acked < 2 or synced < 3:
                heard = client.next()
                if heard.status == 2:
                    synced = max(synced, heard.tables[topic])
                    continue
                acked, committed = heard.seq, max(committed, heard.tables[topic])
                assert committed == min(acked + 2, 3)


# Whole server.


def test_a_stop_closes_in_order(start: Start) -> None:
    server = start()
    with Client(server.connect_to) as client:
        client.ask(longs("t", 1))
        server.terminate()
        with pytest.raises(ConnectionClosed):
            client.next()

        assert client.connection.close_code == 1001
    assert server.wait() == 0


def test_many_clients_at_once(server: Server, api: Api) -> None:
    topic, count = new_name(), 200

    def work(node: int) -> None:
        with Client(server.connect_to) as client:
            for number in range(count):
                client.send(longs(topic, node * count + number))
            client.until(count - 1)

    threads = [threading.Thread(target=work, args=(node,)) for node in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    found = numbers(api, topic)
    assert sorted(found) == list(range(6 * count))
    for node in range(6):
        own = [number for number in found if number // count == node]
        assert own == sorted(own)


def test_streams_are_counted(start: Start) -> None:
    server = start(PENSTOCK_MAX_SSE_CONNECTIONS="1")
    with Client(server.connect_to) as client:
        client.ask(longs("t", 1))
        with pytest.raises(InvalidStatus) as caught:
            Client(server.connect_to)
        assert caught.value.response.status_code == 429

    def opens() -> bool:
        try:
            with Client(server.connect_to):
                return True
        except InvalidStatus:
            return False

    eventually(opens, "room for another stream")
