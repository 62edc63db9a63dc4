"""The official client of QuestDB, unmodified, ingests into our server."""

from __future__ import annotations

import base64
import datetime
import decimal
import ipaddress
import json
import uuid
from pathlib import Path
from typing import Any

import numpy
import pytest
import questdb
import trustme
from questdb import (
    Char,
    DateMillis,
    Geohash,
    Long256,
    QuestDBError,
    QuestDBServerRejectionError,
    Sender,
    ServerTimestamp,
    TimestampMicros,
    TimestampNanos,
)

from tests.server.conftest import Start
from tests.server.support import Api, api_of, datas_of, new_name
from tests.support.mute import MuteProxy
from tests.support.serving import Server, eventually

AT = 1_700_000_000_000_000_000
PATIENT = {"close_flush_timeout_millis": 120_000, "reconnect_max_duration_millis": 600_000}
NUMBER = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")

# Every test has a sender of its own, and the client thinks that too many.
pytestmark = pytest.mark.filterwarnings("ignore:questdb.Sender. Detected a burst:UserWarning")


def conf(server: Server, **options: object) -> str:
    host, port = server.connect_to
    given = "".join(f"{name}={value};" for name, value in (PATIENT | options).items())
    return f"ws::addr={host}:{port};auto_flush=off;{given}"


def at_the_same_port(server: Server) -> Server:
    """It comes back where it was, so that a client finds it again."""
    server.env["PENSTOCK_PORT"] = str(server.connect_to[1])
    return server


@pytest.fixture(params=["memory", "disk"])
def mode(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, object]:
    return {} if request.param == "memory" else {"sf_dir": tmp_path / "slots"}


def all_of(api: Api, topic: str) -> list[Any]:
    found: list[Any] = []
    while True:
        page = api.diff(topic, from_seq=len(found), limit=10_000)
        found += datas_of(page)
        if page["caught_up"]:
            return found


def wait_for(api: Api, topic: str, count: int) -> None:
    """Until so many rows are there."""

    def is_there() -> bool:
        return api.get(f"/v0/topics/{topic}").status == 200 and len(all_of(api, topic)) == count

    eventually(is_there, f"{count} rows")


VALUES: dict[str, tuple[Any, Any]] = {
    "yes": (True, True),
    "no": (False, False),
    "long": (-(1 << 62), -(1 << 62)),
    "double": (0.1, 0.1),
    "huge": (float("inf"), "Infinity"),
    "nan": (float("nan"), None),
    "text": ('naïve "x"\n', 'naïve "x"\n'),
    "blob": (b"\x00\xff", base64.b64encode(b"\x00\xff").decode()),
    "nanos": (TimestampNanos(123), 123),
    "micros": (TimestampMicros(123), 123_000),
    "moment": (datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), 1_577_836_800_000_000_000),
    "date": (DateMillis(77), 77_000_000),
    "decimal": (decimal.Decimal("-12.3400"), "-12.3400"),
    "uuid": (NUMBER, str(NUMBER)),
    "address": (ipaddress.IPv4Address("10.1.2.3"), "10.1.2.3"),
    "char": (Char("é"), "é"),
    "half": (Char("\ud83d"), 0xD83D),
    "wide": (Long256((1 << 255) - 1), hex((1 << 255) - 1)),
    "place": (Geohash(0b11010_00100, 10), "u4"),
    "bits": (Geohash(0b101, 3), "##101"),
    "array": (numpy.array([[1.0, 2.0], [3.5, -0.0]]), [[1.0, 2.0], [3.5, -0.0]]),
    "nothing": (None, None),
}


@pytest.mark.parametrize("name", VALUES)
def test_every_type_arrives_as_the_page_says(shared: Server, api: Api, name: str) -> None:
    topic = new_name()
    given, expected = VALUES[name]
    with Sender.from_conf(conf(shared)) as sender:
        sender.row(topic, columns={"c": given, "n": 1}, at=TimestampNanos(AT))
        sender.flush()

    (found,) = all_of(api, topic)

    assert found.get("c") == expected
    assert type(found.get("c")) is type(expected)
    assert found["timestamp"] == AT


def test_all_types_at_once_with_symbols_and_nulls(
    shared: Server, api: Api, mode: dict[str, object]
) -> None:
    topic, count = new_name(), 500
    with Sender.from_conf(conf(shared, **mode)) as sender:
        for number in range(count):
            columns = {name: given for name, (given, _) in VALUES.items()}
            sender.row(
                topic,
                symbols={"s": f"s{number % 300}", "rare": "x" if number % 7 == 0 else None},
                columns=columns | {"n": number},
                at=TimestampMicros(number),
            )
            if number % 50 == 49:
                sender.flush()

    known = {name: wanted for name, (_, wanted) in VALUES.items() if wanted is not None}
    for number, found in enumerate(all_of(api, topic)):
        expected = known | {"s": f"s{number % 300}", "n": number, "timestamp": number * 1000}
        if number % 7 == 0:
            expected["rare"] = "x"
        assert found == expected
    assert number == count - 1


def test_the_server_gives_the_time_when_it_is_asked_to(shared: Server, api: Api) -> None:
    topic = new_name()
    with Sender.from_conf(conf(shared)) as sender:
        sender.row(topic, columns={"n": 1}, at=ServerTimestamp)
        sender.flush()

    assert all_of(api, topic) == [{"n": 1}]


def test_several_tables_in_one_flush(shared: Server, api: Api) -> None:
    topics = [new_name() for _ in range(5)]
    with Sender.from_conf(conf(shared)) as sender:
        for number in range(100):
            sender.row(topics[number % 5], columns={"n": number}, at=TimestampNanos(number))
        sender.flush()

    for place, topic in enumerate(topics):
        assert [data["n"] for data in all_of(api, topic)] == list(range(place, 100, 5))


def test_the_pool(shared: Server, api: Api) -> None:
    topic = new_name()
    with questdb.connect(conf(shared), query_pool_min=0) as database, database.sender() as sender:
        sender.row(topic, columns={"n": 1}, at=TimestampNanos(1))
        sender.flush(wait=True)

    assert all_of(api, topic) == [{"n": 1, "timestamp": 1}]


def test_durable_acks_are_heard(shared: Server) -> None:
    topic = new_name()
    with Sender.from_conf(conf(shared, request_durable_ack="on")) as sender:
        for number in range(20):
            sender.row(topic, columns={"n": number}, at=TimestampNanos(number))
            last = sender.flush_and_get_fsn()
        eventually(lambda: sender.acked_fsn() == last, "the last durable ack")


# Keys.


def test_a_key_is_given_as_token(start: Start, mode: dict[str, object]) -> None:
    server = start(PENSTOCK_API_KEYS="all,good:write:own-,reader:read")
    with Sender.from_conf(conf(server, token="good", **mode)) as sender:
        sender.row("own-t", columns={"n": 1}, at=TimestampNanos(1))
        sender.flush()

    assert all_of(api_of(server, "all"), "own-t") == [{"n": 1, "timestamp": 1}]


@pytest.mark.parametrize("options", [{"token": "wrong"}, {"token": "reader"}, {}], ids=str)
def test_a_wrong_key_opens_nothing(start: Start, options: dict[str, object]) -> None:
    server = start(PENSTOCK_API_KEYS="all,reader:read")

    with pytest.raises(QuestDBError, match=r"40[13]"):
        Sender.from_conf(conf(server, **options)).establish()


@pytest.mark.parametrize(
    ("topic", "status"), [("foreign", "security"), ("own-two words", "schema")]
)
def test_a_refusal_comes_back_with_its_reason(start: Start, topic: str, status: str) -> None:
    server = start(PENSTOCK_API_KEYS="good:write:own-")
    sender = Sender.from_conf(conf(server, token="good"))
    sender.establish()

    def is_refused() -> QuestDBServerRejectionError | None:
        try:
            sender.row(topic, columns={"n": 1}, at=TimestampNanos(1))
            sender.flush()
        except QuestDBServerRejectionError as error:
            return error
        return None

    error = eventually(is_refused, "the refusal")
    sender.close(flush=False)

    assert error is not None
    assert status in str(error.sender_error.category).lower()
    assert "name" in error.sender_error.message


def test_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    made = authority.issue_cert("localhost", "127.0.0.1")
    root, cert, key = (tmp_path / name for name in ("root.pem", "cert.pem", "key.pem"))
    authority.cert_pem.write_to_path(root)
    made.cert_chain_pems[0].write_to_path(cert)
    made.private_key_pem.write_to_path(key)
    files = {"PENSTOCK_TLS_CERT": str(cert), "PENSTOCK_TLS_KEY": str(key)}
    server = Server(tmp_path / "server", files).start(until="bound")
    text = conf(server, tls_roots=root).replace("ws::", "wss::")
    try:
        with Sender.from_conf(text) as sender:
            sender.row("t", columns={"n": 1}, at=TimestampNanos(1))
            last = sender.flush_and_get_fsn()
            eventually(lambda: sender.acked_fsn() == last, "the ack")
    finally:
        server.close()


# Refusals and what may pass.


def test_a_message_that_grew_too_long_offline_is_refused_with_the_reason(
    start: Start, tmp_path: Path
) -> None:
    """Those before it are in the topic, once, though they have no times of their own."""
    server = at_the_same_port(start(PENSTOCK_MAX_BODY_BYTES=str(1 << 20)))
    address = conf(server, initial_connect_retry="async", sf_dir=tmp_path / "slots")
    server.kill()
    sender = Sender.from_conf(address)
    sender.establish()
    for number in range(5):
        sender.row("t", columns={"n": number}, at=ServerTimestamp)
        sender.flush()
    for _ in range(6):
        sender.row("t", columns={"x": "x" * 500_000}, at=ServerTimestamp)
    last = sender.flush_and_get_fsn()
    server.start()

    def is_refused() -> QuestDBServerRejectionError | None:
        try:
            sender.await_acked_fsn(last, 10)
        except QuestDBServerRejectionError as error:
            return error
        return None

    error = eventually(is_refused, "the refusal")
    sender.close(flush=False)

    assert error is not None
    assert "more than 1048576 bytes" in error.sender_error.message
    assert [data["n"] for data in all_of(api_of(server), "t")] == list(range(5))


def test_a_full_topic_is_waited_for(shared: Server, api: Api) -> None:
    """However often it is tried: the client stops at the first refusal here."""
    topic = new_name()
    api.create(topic, cap_records=10, discard="reject")
    options = {"max_frame_rejections": 1, "poison_min_escalation_window_millis": 0}
    with Sender.from_conf(conf(shared, **options)) as sender:
        for number in range(20):
            sender.row(topic, columns={"n": number}, at=TimestampNanos(number))
            last = sender.flush_and_get_fsn()
        wait_for(api, topic, 10)
        eventually(lambda: sender.acked_fsn() == 9, "all that fit are acknowledged")
        assert not sender.await_acked_fsn(last, 2_500)
        assert sender.acked_fsn() == 9

        api.post(f"/v0/topics/{topic}/delete", {"before_seq": 11})
        eventually(lambda: sender.acked_fsn() == last, "the rest")

    page = api.diff(topic, from_seq=10)
    assert [data["n"] for data in datas_of(page)] == list(range(10, 20))


# Failures.


def test_a_kill_in_the_middle_costs_nothing_and_doubles_nothing(
    start: Start, mode: dict[str, object]
) -> None:
    server = at_the_same_port(start())
    flushes, rows = 300, 20
    patient = {"reconnect_max_backoff_millis": 50}

    with Sender.from_conf(conf(server, **patient, **mode)) as sender:
        for number in range(flushes):
            for row in range(rows):
                at = number * rows + row
                table = "one" if row % 2 else "two"
                sender.row(
                    table, symbols={"s": f"s{row}"}, columns={"n": at}, at=TimestampNanos(at)
                )
            sender.flush()
            if number % 100 == 50:
                server.kill()
                server.start()
        last = sender.published_fsn()
        eventually(lambda: sender.acked_fsn() == last, "all acknowledged")

    api = api_of(server)
    for table, first in (("one", 1), ("two", 0)):
        expected = list(range(first, flushes * rows, 2))
        found = all_of(api, table)
        assert [data["n"] for data in found] == expected
        assert [data["timestamp"] for data in found] == expected
        assert {data["s"] for data in found} == {f"s{row}" for row in range(first, rows, 2)}


def test_durable_acks_reach_the_end_when_rows_are_sent_again(start: Start) -> None:
    """With times of their own they have old seqs then, without them new ones."""
    server, count = at_the_same_port(start()), 60
    with MuteProxy(server.connect_to) as proxy:
        host, port = proxy.address
        text = f"ws::addr={host}:{port};auto_flush=off;request_durable_ack=on;"
        for _ in range(5):
            topic = new_name()
            proxy.is_mute = True
            sender = Sender.from_conf(text + "reconnect_max_backoff_millis=50;")
            sender.establish()
            for number in range(count):
                at = TimestampNanos(number + 1) if number % 3 == 2 else ServerTimestamp
                sender.row(topic, columns={"n": number}, at=at)
                last = sender.flush_and_get_fsn()
            wait_for(api_of(server), topic, count)
            server.kill()
            proxy.is_mute = False
            server.start()

            eventually(lambda: sender.acked_fsn() == last, "the last durable ack")  # noqa: B023
            sender.close()
            found = [data["n"] for data in all_of(api_of(server), topic)]
            assert sorted(set(found)) == list(range(count))
            assert all(found.count(number) == 1 for number in range(2, count, 3))


def test_what_was_flushed_to_disk_while_nobody_served_arrives_later(
    start: Start, tmp_path: Path
) -> None:
    server = at_the_same_port(start())
    options = {"sf_dir": tmp_path / "slots", "initial_connect_retry": "async"}
    text = conf(server, close_flush_timeout_millis=0, **options)
    server.kill()
    sender = Sender.from_conf(text)
    sender.establish()
    for number in range(10):
        sender.row("t", symbols={"s": f"s{number}"}, columns={"n": number}, at=TimestampNanos(1))
        sender.flush()
    sender.close()  # undelivered, and still on disk

    server.start()
    with Sender.from_conf(conf(server, **options)) as again:
        again.row("t", columns={"n": 10}, at=TimestampNanos(1))
        again.flush()

    found = all_of(api_of(server), "t")
    assert [data["n"] for data in found] == list(range(11))
    assert [data.get("s") for data in found] == [*(f"s{number}" for number in range(10)), None]


def test_a_stop_and_a_start_cost_nothing(start: Start) -> None:
    server = at_the_same_port(start())
    patient = {"reconnect_max_backoff_millis": 50}

    with Sender.from_conf(conf(server, **patient)) as sender:
        for number in range(100):
            sender.row("t", columns={"n": number}, at=TimestampNanos(number))
            sender.flush()
            if number == 50:
                assert server.stop() == 0
                server.start()

    assert [data["n"] for data in all_of(api_of(server), "t")] == list(range(100))


def test_json_holds_what_was_given(shared: Server, api: Api) -> None:
    """The bytes of a record are plain JSON with members in the order of the columns."""
    topic = new_name()
    with Sender.from_conf(conf(shared)) as sender:
        sender.row(topic, columns={"a": 1.0, "b": "x"}, at=TimestampNanos(5))
        sender.flush()

    assert json.dumps(all_of(api, topic)) == '[{"a": 1.0, "b": "x", "timestamp": 5}]'
