"""S10: bodies that are too long, too deep, too many, or not what they say."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator

import pytest

from tests.security.support import MIB, is_alive, post, small_growth, statuses
from tests.server.conftest import Start
from tests.server.support import BATCH, Api, api_of
from tests.server.wire import Connection, head
from tests.support.serving import Server

JSON = {"Host": "localhost", "Content-Type": "application/json"}
DEEP = 100_000


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with settings as they come. Nothing that is sent to it is ever to be kept."""
    server = Server(tmp_path_factory.mktemp("victim")).start()
    api_of(server).create("t")
    yield server
    server.close()


def flood(server: Server, first: bytes, more: bytes, most: int) -> bytes:
    """Send `more` until the server has had enough; what it said."""
    with Connection(server.address) as wire:
        wire.send_what_it_takes(first)
        for _ in range(most // len(more)):
            try:
                wire.socket.sendall(more)
            except OSError:
                break
        else:
            raise AssertionError(f"{most} bytes were taken")
        return wire.read_rest()


def test_a_chunked_body_without_end_is_cut_at_the_limit(start: Start) -> None:
    """S10: the limit is on bytes received, whatever the head says of them."""
    server = start(PENSTOCK_MAX_BODY_BYTES=str(MIB))
    first = head("POST", "/v0/topics/t", JSON | {"Transfer-Encoding": "chunked"})
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"

    with small_growth(server):
        answer = flood(server, first, chunk, 1 << 30)

    assert statuses(answer) in ([413], [])
    assert is_alive(server.address)


def test_a_length_over_the_limit_is_refused_before_the_body(victim: Server) -> None:
    """S10: a length that lies upwards costs nothing."""
    first = head("POST", "/v0/topics/t", JSON | {"Content-Length": str(1 << 40)})

    with small_growth(victim), Connection(victim.address) as wire:
        wire.send(first)
        assert wire.read_reply().status == 413
        assert wire.read_rest() == b""


def test_a_length_too_small_ends_the_body_there(victim: Server) -> None:
    """S10: a length that lies downwards is believed; the rest is no part of the record."""
    body = b'{"records":[{"data":1}]}'
    first = head("POST", "/v0/topics/t", JSON | {"Content-Length": str(len(body) - 3)})

    with Connection(victim.address) as wire:
        wire.send_what_it_takes(first + body)
        answer = wire.read_rest()

    assert statuses(answer)[0] == 400
    assert b'"head_seq"' not in answer
    assert api_of(victim).state("t")["head_seq"] == 0


@pytest.mark.parametrize("end", [b"0\r\nX-Trailer: ", b"1;x="], ids=["trailer", "extension"])
def test_bytes_around_the_body_count_too(victim: Server, end: bytes) -> None:
    """S10: a trailer or an extension without end is a body by another name."""
    first = head("POST", "/v0/topics/t", JSON | {"Transfer-Encoding": "chunked"})

    with small_growth(victim):
        answer = flood(victim, first + b"1\r\nx\r\n" + end, b"y" * 65_536, 1 << 30)

    assert statuses(answer) in ([431], [])
    assert is_alive(victim.address)


def test_a_body_in_tiny_chunks_takes_no_more_memory_than_it_has_bytes(start: Start) -> None:
    """S10: pieces of two bytes are not kept as pieces."""
    server = start(PENSTOCK_MAX_BODY_BYTES=str(4 * MIB))
    first = head("POST", "/v0/topics/t", JSON | {"Transfer-Encoding": "chunked"})

    with small_growth(server):
        answer = flood(server, first, b"2\r\nxx\r\n" * 8192, 1 << 30)

    assert statuses(answer) in ([413], [])


def test_strangers_cannot_make_the_server_hold_their_bodies(start: Start) -> None:
    """S10: who may not write is told so before the body is read."""
    server = start(PENSTOCK_API_KEYS="sesame,reader:read")
    body = b"x" * (16 * MIB)
    headers = JSON | {"Content-Length": str(len(body) + 1)}  # one byte is always missing

    with small_growth(server), contextlib.ExitStack() as held:
        for key in (None, "wrong", "reader", None, "wrong", "reader"):
            more = {} if key is None else {"Authorization": f"Bearer {key}"}
            wire = held.enter_context(Connection(server.address))
            wire.send_what_it_takes(head("POST", "/v0/topics/t", headers | more) + body)
            assert wire.read_reply().status == (403 if key == "reader" else 401)


def test_requests_without_records_have_small_bodies(victim: Server) -> None:
    """S10: a watch, a diff or a delete of many megabytes is refused unread."""
    names = ",".join(f'"t{n}":{{}}' for n in range(200_000))
    lists = ",".join('"abcdefg"' for _ in range(200_000))

    with small_growth(victim):
        for target, text in {
            "/v0/watch": f'{{"topics":{{{names}}}}}',
            "/v0/topics/t/diff": f'{{"node":[{lists}]}}',
            "/v0/topics/t/delete": f'{{"match":[{lists}]}}',
        }.items():
            assert post(victim.address, target, text.encode()) == 413


def test_millions_of_tiny_records_are_refused_before_they_are_objects(victim: Server) -> None:
    """S10: one megabyte more on the wire is not a hundred in memory."""
    many = b",".join([b'{"data":1}'] * 2_000_000)
    size = len(many)
    escaped = b",".join([b'{"d\\u0061ta":1}'] * 1_000_000)

    with small_growth(victim, size + 2 * size):  # the body itself, received and whole
        assert post(victim.address, "/v0/topics/t", b'{"records":[%b]}' % many) == 400
        assert post(victim.address, "/v0/topics/t", b'{"records":[%b]}' % escaped) == 400
        batch = b'{"writes":[{"topic":"t","records":[%b]}]}' % many
        assert post(victim.address, "/v0/batch", batch) == 400


TEXTS = {
    "NaN": b"NaN",
    "Infinity": b"Infinity",
    "-Infinity": b"-Infinity",
    "a number with a leading zero": b"01",
    "a number in hex": b"0x10",
    "a lone surrogate": b'"\\ud800"',
    "a lone low surrogate": b'"\\udc00"',
    "a surrogate in UTF-8": b'"\xed\xa0\x80"',
    "overlong UTF-8": b'"\xc0\xaf"',
    "UTF-8 cut short": b'"\xe2\x82"',
    "UTF-16": '"x"'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf1",
    "a control character": b'"a\x01b"',
    "a line feed in a string": b'"a\nb"',
    "a zero byte": b'"a\x00b"',
    "a comment": b"1/*x*/",
    "a trailing comma": b"[1,]",
    "single quotes": b"'a'",
    "two values": b"1 2",
    "nothing": b"",
    "an open string": b'"a',
    "an open escape": b'"\\u12"',
    "deep arrays": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "deep arrays without an end": b"[" * DEEP,
}
PLACES: dict[str, Callable[[bytes], tuple[str, bytes]]] = {
    "data": lambda text: ("/v0/topics/t", b'{"records":[{"data":%b}]}' % text),
    "meta": lambda text: ("/v0/topics/t", b'{"records":[{"data":1,"meta":%b}]}' % text),
    "tag": lambda text: ("/v0/topics/t", b'{"records":[{"data":1,"tag":%b}]}' % text),
    "key": lambda text: (
        "/v0/topics/t",
        b'{"idempotency_key":%b,"records":[{"data":1}]}' % text,
    ),
    "an unknown field": lambda text: (
        "/v0/topics/t",
        b'{"zzz":%b,"records":[{"data":1}]}' % text,
    ),
    "a seq": lambda text: ("/v0/topics/t/diff", b'{"from_seq":%b}' % text),
    "a filter": lambda text: ("/v0/topics/t/diff", b'{"tag":%b}' % text),
    "a batch": lambda text: (
        "/v0/batch",
        b'{"writes":[{"topic":"t","records":[{"data":%b}]}]}' % text,
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_what_is_not_json_is_refused_and_nothing_is_kept(victim: Server, place: str) -> None:
    """S10: in every place where a value may stand."""
    with small_growth(victim):
        found = {name: post(victim.address, *PLACES[place](text)) for name, text in TEXTS.items()}

    assert set(found.values()) == {400}, found
    assert api_of(victim).state("t")["head_seq"] == 0
    assert victim.said().count("Traceback") == 0


@pytest.mark.parametrize("text", [b"1" * 5_000, b"1" * 1_000_000, b"1e999", b"-1", b"1.5"])
def test_numbers_that_are_no_seq_are_refused(victim: Server, text: bytes) -> None:
    """S10: a number of a million digits is not computed."""
    for field in (b"from_seq", b"from_ts", b"epoch", b"limit", b"wait_ms", b"max_batch_bytes"):
        assert post(victim.address, "/v0/topics/t/diff", b'{"%b":%b}' % (field, text)) == 400


@pytest.mark.parametrize(
    "data", [b"1" * 5_000, b"1e999", b'{"a":1,"a":2}', b'"\\u0000"', b"[" * 60 + b"]" * 60]
)
def test_odd_json_is_kept_as_it_was_sent_and_harms_no_neighbour(
    api: Api, topic: str, data: bytes
) -> None:
    """S10: payloads are texts to the server; it does not compute with them."""
    api.create(topic)
    body = b'{"records":[{"data":"before"},{"data":%b},{"data":"after"}]}' % data

    assert post(api.address, f"/v0/topics/{topic}", body) == 200

    with Connection(api.address) as wire:
        answer = wire.request(
            "POST", f"/v0/topics/{topic}/diff", b"{}", {"Content-Type": "application/json"}
        )
    assert b'"data":%b}' % data in answer.body
    assert answer.body.count(b'"$seq":') == 3


def test_of_two_fields_with_one_name_one_holds_and_it_is_always_the_last(
    api: Api, topic: str
) -> None:
    """S10: a duplicate key cannot pass one check as one value and be used as another."""
    api.create(topic)
    body = b'{"records":[{"data":1}],"records":[{"data":2},{"data":3}]}'

    assert post(api.address, f"/v0/topics/{topic}", body) == 200

    assert [one["data"] for one in api.diff(topic)["records"]] == [2, 3]


def test_a_binary_batch_is_checked_like_json(victim: Server) -> None:
    """S10: lengths that lie and texts that are no JSON."""
    whole = b"PSB1" + (2).to_bytes(4, "little") + b"{}"
    huge = (0xFFFFFFFF).to_bytes(4, "little")

    def record(data: bytes) -> bytes:
        return len(data).to_bytes(4, "little") + bytes(8) + data

    attacks = {
        "nothing": b"",
        "a head longer than the body": b"PSB1" + huge + b"{}",
        "four milliards of records": whole + huge,
        "a record longer than the body": whole + (1).to_bytes(4, "little") + huge + bytes(8),
        "bytes behind the end": whole + (1).to_bytes(4, "little") + record(b"1") + b"x",
        **{
            f"data: {name}": whole + (1).to_bytes(4, "little") + record(text)
            for name, text in TEXTS.items()
        },
    }

    with small_growth(victim):
        found = {
            name: post(victim.address, "/v0/topics/t", body, kind=BATCH)
            for name, body in attacks.items()
        }

    assert set(found.values()) == {400}, found
    assert api_of(victim).state("t")["head_seq"] == 0


def test_errors_about_bodies_do_not_repeat_them(victim: Server) -> None:
    """S10: a refusal is short, however long what it refuses."""
    text = json.dumps({"records": [{"data": 1, "tag": "x" * 900_000}]}).encode()

    with Connection(victim.address) as wire:
        wire.send_what_it_takes(
            head("POST", "/v0/topics/t", JSON | {"Content-Length": str(len(text))}) + text
        )
        reply = wire.read_reply()

    assert reply.status == 400
    assert len(reply.body) < 1_000
