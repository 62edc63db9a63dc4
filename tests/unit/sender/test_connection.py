"""One WebSocket on a blocking socket."""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import threading
from pathlib import Path

import pytest
import trustme

from penstock.sender import connection
from penstock.sender.connect_string import parse
from penstock.sender.connection import Broken, Refused, SenderConnection
from penstock.sender.hosts import Health
from penstock.wire.sender_protocol import Reply
from penstock.wire.spool_frame import encode_frame
from tests.support.sink import DEADLINE_S, OK, Sink, Visit, conf, free_port


def connected(text: str, first_fsn: int = 0) -> SenderConnection:
    profile = parse(text)
    return connection.connect(profile, profile.hosts[0], first_fsn)


def refused(text: str) -> Refused:
    with pytest.raises(Refused) as caught:
        connected(text)
    return caught.value


def ended(made: SenderConnection) -> Broken:
    """How it ends."""
    while True:
        try:
            made.receive(DEADLINE_S)
        except Broken as error:
            return error


def test_the_handshake_says_who_calls_and_where_it_goes_on() -> None:
    with Sink(Visit.until_gone, headers={"x-penstock-frame-bytes-max": "77"}) as sink:
        made = connected(conf(sink, sender_id="edge-7", token="t"), 41)
        sink.wait_for(lambda: sink.visits)
        headers = sink.visits[0].headers

        assert headers["x-penstock-sender"] == "edge-7"
        assert headers["x-penstock-fsn"] == "41"
        assert headers["Authorization"] == "Bearer t"
        assert "x-penstock-durable-ack" not in headers
        assert made.frame_bytes_max == 77
        made.close()
        made.close()


def test_a_name_and_a_password_travel_as_basic_credentials() -> None:
    with Sink(Visit.until_gone) as sink:
        connected(conf(sink, username="me", password="a:b")).close()
        sink.wait_for(lambda: sink.visits)

        wanted = "Basic " + base64.b64encode(b"me:a:b").decode()
        assert sink.visits[0].headers["Authorization"] == wanted


def test_frames_go_and_answers_come() -> None:
    def answer(visit: Visit) -> None:
        visit.take()
        visit.take()
        visit.reply((OK, 0), (OK, 1))
        visit.until_gone()

    with Sink(answer) as sink:
        made = connected(conf(sink))
        made.send_frame(encode_frame(0, b"a"))
        made.send_frame(encode_frame(1, b"b"))
        made.flush()

        replies: list[Reply] = []
        while len(replies) < 2:
            replies += made.receive(DEADLINE_S)
        assert replies == [Reply(0, 0), Reply(0, 1)]
        assert made.receive(0) == []
        made.close()


def test_a_wait_ends_when_somebody_rings() -> None:
    with Sink(Visit.until_gone) as sink:
        made = connected(conf(sink))
        threading.Timer(0.05, made.wake).start()

        assert made.receive(None) == []
        made.close()


def test_an_abort_ends_a_wait_for_good() -> None:
    with Sink(Visit.until_gone) as sink:
        made = connected(conf(sink))
        threading.Timer(0.05, made.abort).start()

        assert ended(made).code == 0
        made.close()


@pytest.mark.parametrize("code", [1000, 1001, 1008, 1011])
def test_a_goodbye_has_its_code(code: int) -> None:
    with Sink(lambda visit: (visit.close(code), visit.until_gone())[1]) as sink:
        made = connected(conf(sink))

        assert ended(made).code == code
        made.close()


def test_an_end_without_a_goodbye_has_none() -> None:
    with Sink(lambda visit: None) as sink:
        made = connected(conf(sink))

        assert ended(made).code == 0
        made.close()


def test_nothing_is_sent_after_the_servers_goodbye() -> None:
    def leave(visit: Visit) -> None:
        visit.take()
        visit.reply((OK, 0), close=1001)
        visit.until_gone()

    with Sink(leave) as sink:
        made = connected(conf(sink))
        made.send_frame(encode_frame(0, b"a"))
        made.flush()
        assert made.receive(DEADLINE_S) == [Reply(0, 0)]

        with pytest.raises(Broken) as caught:
            made.send_frame(b"late")
        assert caught.value.code == 1001
        made.close()


def test_pings_are_sent() -> None:
    seen = threading.Event()
    with Sink(lambda visit: (visit.wait_for_ping(), seen.set())[1]) as sink:
        made = connected(conf(sink))
        made.ping()

        assert seen.wait(DEADLINE_S)
        made.close()


# Refusals.


def test_nobody_there() -> None:
    error = refused(conf(f"127.0.0.1:{free_port()}"))

    assert (error.health, error.is_final) == (Health.UNREACHABLE, False)


@pytest.mark.parametrize(
    ("status", "headers", "health", "is_final"),
    [
        (401, {}, Health.UNREACHABLE, True),
        (403, {}, Health.UNREACHABLE, True),
        (404, {}, Health.UNREACHABLE, False),
        (503, {}, Health.UNREACHABLE, False),
        (421, {}, Health.WRONG_ROLE, False),
        (421, {"X-QuestDB-Role": "REPLICA"}, Health.WRONG_ROLE, False),
        (421, {"X-QuestDB-Role": "PRIMARY_CATCHUP"}, Health.CATCHING_UP, False),
    ],
)
def test_an_answer_that_is_no_connection(
    status: int, headers: dict[str, str], health: Health, is_final: bool
) -> None:
    with Sink(status=status, headers=headers) as sink:
        error = refused(conf(sink, token="hush"))

    assert (error.health, error.is_final, error.status) == (health, is_final, status)
    assert sink.addr in str(error)
    assert "hush" not in str(error)


def test_syncs_that_are_not_offered() -> None:
    with Sink() as sink:
        error = refused(conf(sink, request_durable_ack="on"))

    assert error.is_final
    assert "durable" in str(error)


@pytest.mark.parametrize("answer", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_peer_that_is_no_web_server(answer: bytes) -> None:
    def speak(listener: socket.socket) -> None:
        link, _ = listener.accept()
        with link:
            link.recv(1 << 16)
            link.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=speak, args=(listener,))
        thread.start()
        error = refused(conf(f"127.0.0.1:{listener.getsockname()[1]}"))
        thread.join()

    assert (error.health, error.is_final) == (Health.UNREACHABLE, False)


def test_a_peer_that_says_nothing_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        error = refused(conf(f"127.0.0.1:{listener.getsockname()[1]}", auth_timeout_ms=20))

    assert error.health is Health.UNREACHABLE


# TLS.


@pytest.mark.parametrize("keys", ["", "tls_verify=unsafe_off;", "tls_ca=CA;"])
def test_a_certificate_is_believed_or_not(keys: str, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)

    with Sink(Visit.until_gone) as sink:
        inner = sink._serve

        def secured(link: socket.socket) -> None:
            try:
                inner(context.wrap_socket(link, server_side=True))
            except OSError:
                link.close()

        sink._serve = secured  # type: ignore[method-assign]
        text = conf(sink).replace("ws::", "wss::") + keys.replace("CA", str(tmp_path / "ca.pem"))
        if keys:
            made = connected(text)
            assert made.receive(0.01) == []
            made.close()
        else:
            assert "certificate" in str(refused(text))


def test_an_answer_that_comes_byte_by_byte_ends_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        is_over = threading.Event()

        def dribble() -> None:
            link, _ = listener.accept()
            with link, contextlib.suppress(OSError):
                for _ in range(10_000):
                    link.sendall(b"H")
                    if is_over.wait(0.01):
                        return

        dribbling = threading.Thread(target=dribble)
        dribbling.start()
        port = listener.getsockname()[1]
        error = refused(f"ws::addr=127.0.0.1:{port};auth_timeout_ms=100;")
        is_over.set()
        dribbling.join(DEADLINE_S)

    assert "in time" in str(error) or "timed out" in str(error)


def test_a_server_that_takes_nothing_counts_as_mute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_STALL_S", 0.05)

    def idle(visit: Visit) -> None:
        is_over.wait(DEADLINE_S)

    is_over = threading.Event()
    with Sink(idle) as sink:
        made = connected(conf(sink))
        made.send_frame(bytes(64 << 20))
        with pytest.raises(Broken, match="did not read") as caught:
            made.flush()
        is_over.set()
        made.close()

    assert caught.value.is_timeout


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "no answer"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "not HTTP/1.1"),
        (b"HTTP/1.0 200 OK\r\n\r\nhello", "not HTTP/1.1"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nnope!", "404: nope!"),
    ],
)
def test_whoever_else_answers_is_told_apart(answer: bytes, said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def speak() -> None:
            link, _ = listener.accept()
            with link:
                link.recv(4096)
                link.sendall(answer)

        speaking = threading.Thread(target=speak)
        speaking.start()
        error = refused(f"ws::addr=127.0.0.1:{listener.getsockname()[1]};")
        speaking.join(DEADLINE_S)

    assert said in str(error)
