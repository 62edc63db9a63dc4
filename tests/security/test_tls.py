"""S17: who is on the other side, and in which language."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import trustme

import penstock
from penstock import AsyncClient, ConnectionFailed, Sender
from tests.server.wire import Connection
from tests.support.serving import DEADLINE_S, Server, eventually

REQUEST = b"GET /v0/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
CA = trustme.CA()
STRANGER = trustme.CA()
PAST = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


class Secret:
    """A TLS server whose certificate can be changed while it runs."""

    def __init__(self, home: Path, **env: str) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.cert, self.key = home / "cert.pem", home / "key.pem"
        self.good = CA.issue_cert("localhost", "127.0.0.1")
        self.write(self.good)
        files = {"PENSTOCK_TLS_CERT": str(self.cert), "PENSTOCK_TLS_KEY": str(self.key)}
        self.server = Server(home / "server", files | env).start(until="bound")

    @property
    def url(self) -> str:
        return f"https://localhost:{self.server.address[1]}"

    def write(self, made: trustme.LeafCert, *, key: trustme.LeafCert | None = None) -> None:
        self.cert.write_bytes(b"".join(pem.bytes() for pem in made.cert_chain_pems))
        self.key.write_bytes((key or made).private_key_pem.bytes())

    def reload(self) -> None:
        self.server.terminate(signal.SIGHUP)

    def show(self, made: trustme.LeafCert) -> None:
        """Have the server use another certificate, and wait until it does."""
        self.write(made)
        self.reload()
        wanted = ssl.PEM_cert_to_DER_cert(made.cert_chain_pems[0].bytes().decode())
        eventually(lambda: self.shown() == wanted, "the other certificate")

    def shown(self) -> bytes | None:
        with (
            socket.create_connection(self.server.address, timeout=DEADLINE_S) as wire,
            _blind().wrap_socket(wire) as secure,
        ):
            return secure.getpeercert(binary_form=True)


def _blind() -> ssl.SSLContext:
    """Looks at any certificate, believes none: for tests of what is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def trusting(ca: trustme.CA = CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    ca.configure_trust(context)
    return context


def ask(secret: Secret, context: ssl.SSLContext, name: str = "localhost") -> bytes:
    """The first line of an answer over TLS."""
    with (
        socket.create_connection(secret.server.address, timeout=DEADLINE_S) as wire,
        context.wrap_socket(wire, server_hostname=name) as secure,
    ):
        secure.sendall(REQUEST)
        found = b""
        while part := secure.recv(4096):
            found += part
    return found.split(b"\r\n")[0]


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secret]:
    made = Secret(tmp_path_factory.mktemp("tls"))
    eventually(lambda: answered(made), "readiness")
    yield made
    made.server.close()


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secret]:
    """One that gives up soon who does not finish a handshake."""
    made = Secret(tmp_path_factory.mktemp("hasty"), PENSTOCK_HEADER_TIMEOUT_MS="1000")
    eventually(lambda: answered(made), "readiness")
    yield made
    made.server.close()


def answered(secret: Secret) -> bool:
    try:
        return ask(secret, trusting()) == b"HTTP/1.1 200 OK"
    except OSError:
        return False


def test_who_trusts_the_authority_is_served(secret: Secret) -> None:
    """S17: the tests below refuse what is wrong, not TLS."""
    secret.show(secret.good)

    assert ask(secret, trusting()) == b"HTTP/1.1 200 OK"
    with penstock.connect(secret.url, tls=trusting(), timeout_s=DEADLINE_S) as client:
        assert client.topics() == []


WRONG = {
    "another host": lambda: CA.issue_cert("other.example"),
    "expired": lambda: CA.issue_cert("localhost", not_after=PAST),
    "another authority": lambda: STRANGER.issue_cert("localhost"),
    "self-signed": lambda: SimpleNamespace(
        cert_chain_pems=[STRANGER.cert_pem], private_key_pem=STRANGER.private_key_pem
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_our_clients_refuse_a_server_that_proves_nothing(secret: Secret, kind: str) -> None:
    """S17: both of them, and they say why."""
    secret.show(WRONG[kind]())
    try:
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(secret, trusting())
        with (
            penstock.connect(secret.url, tls=trusting(), timeout_s=DEADLINE_S) as client,
            pytest.raises(penstock.PenstockError, match=r"(?i)certificate"),
        ):
            client.topics()

        async def alone() -> None:
            async with AsyncClient(secret.url, tls=trusting(), timeout_s=DEADLINE_S) as client:
                with pytest.raises(penstock.PenstockError, match=r"(?i)certificate"):
                    await client.topics()

        asyncio.run(alone())
    finally:
        secret.show(secret.good)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("authority") / "ca.pem"
    CA.cert_pem.write_to_path(str(path))
    return path


def sender_conf(secret: Secret, **keys: object) -> str:
    given = "".join(f"{key}={value};" for key, value in keys.items())
    return f"wss::addr=localhost:{secret.server.address[1]};{given}"


def test_senders_bring_rows_over_tls(secret: Secret, authority: Path, tmp_path: Path) -> None:
    """S17: more than fits into one record of TLS, both ways at once."""
    secret.show(secret.good)
    rows = [[n, "x" * 500] for n in range(8000)]
    with Sender(sender_conf(secret, tls_ca=authority, sf_dir=tmp_path)) as sender:
        for at in range(0, len(rows), 400):
            sender.append_batch("secret-rows", rows[at : at + 400])
            sender.flush()
        assert sender.drain(DEADLINE_S)

    found: list[object] = []
    with penstock.connect(secret.url, tls=trusting(), timeout_s=DEADLINE_S) as client:
        while len(found) < len(rows):
            found += [one.data for one in client.read("secret-rows", len(found), 1000).records]
        client.drop("secret-rows")
    assert found == rows


@pytest.mark.parametrize("kind", WRONG)
def test_senders_refuse_a_server_that_proves_nothing(
    secret: Secret, authority: Path, tmp_path: Path, kind: str
) -> None:
    """S17: no row goes to it; they wait for one that does, and whoever asks is told why."""
    secret.show(WRONG[kind]())
    try:
        with pytest.raises(ConnectionFailed, match=r"(?i)certificate"):
            Sender(sender_conf(secret, tls_ca=authority, initial_connect_retry="off"))
        with Sender(sender_conf(secret, tls_ca=authority, sf_dir=tmp_path)) as sender:
            sender.append("secret-waits", 1)
            sender.flush()
            eventually(lambda: sender.status().counters.connect_attempts >= 2, "two attempts")
            assert not sender.status().is_connected
            secret.show(secret.good)
            assert sender.drain(DEADLINE_S)
    finally:
        secret.show(secret.good)
    with penstock.connect(secret.url, tls=trusting(), timeout_s=DEADLINE_S) as client:
        assert [one.data for one in client.read("secret-waits").records] == [1]
        client.drop("secret-waits")


def test_senders_trust_only_the_systems_authorities_unless_told(secret: Secret) -> None:
    """S17: as the other clients do."""
    secret.show(secret.good)

    with pytest.raises(ConnectionFailed, match=r"(?i)certificate"):
        Sender(sender_conf(secret, initial_connect_retry="off"))
    with Sender(sender_conf(secret, initial_connect_retry="off", tls_verify="unsafe_off")):
        pass


def test_our_clients_trust_only_the_systems_authorities_unless_told(secret: Secret) -> None:
    """S17: verification is on without asking for it."""
    secret.show(secret.good)

    with (
        penstock.connect(secret.url, timeout_s=DEADLINE_S) as client,
        pytest.raises(penstock.PenstockError, match=r"(?i)certificate"),
    ):
        client.topics()

    async def alone() -> None:
        async with AsyncClient(secret.url, timeout_s=DEADLINE_S) as client:
            with pytest.raises(penstock.PenstockError, match=r"(?i)certificate"):
                await client.topics()

    asyncio.run(alone())


def test_the_command_line_trusts_no_more_than_that(secret: Secret, tmp_path: Path) -> None:
    """S17: the system's authorities, or those the caller names; there is no switch to look away."""
    secret.show(secret.good)
    CA.cert_pem.write_to_path(tmp_path / "ca.pem")

    def run(*words: str, **told: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "penstock.cli.main", "topics", *words]
        env = secret.server.env | told
        return subprocess.run(
            command, env=env, capture_output=True, timeout=DEADLINE_S, check=False
        )

    refused = run("--url", secret.url)
    assert refused.returncode != 0
    assert b"certificate" in refused.stderr
    assert run("--url", secret.url, SSL_CERT_FILE=str(tmp_path / "ca.pem")).returncode == 0
    assert not re.search(rb"--\S*(insecure|verify)", run("--help").stdout)


def test_our_clients_speak_nothing_old_either() -> None:
    """S17: their context verifies, names the host, and begins with TLS 1.2."""
    with penstock.connect("https://localhost:1") as client:
        context = client._options.tls

    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1"])
def test_old_protocols_are_refused(secret: Secret, version: str) -> None:
    """S17: TLS 1.2 is the oldest."""
    context = _blind()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]

    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask(secret, context)


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_new_protocols_are_spoken(secret: Secret, version: str) -> None:
    """S17: with the same settings otherwise, so the test above is about the version."""
    context = _blind()
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]

    assert ask(secret, context) == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize("ciphers", ["aNULL", "eNULL", "RC4", "3DES", "EXPORT"])
def test_weak_ciphers_are_refused(secret: Secret, ciphers: str) -> None:
    """S17: where the library still knows them at all."""
    context = _blind()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    except ssl.SSLError:
        return  # this library cannot even ask

    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask(secret, context)


def test_plain_http_is_not_answered(hasty: Secret) -> None:
    """S17: a downgrade by leaving TLS out gets no answer, whatever it asks."""
    for data in (REQUEST, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x00", b"\0" * 100):
        with Connection(hasty.server.address) as wire:
            wire.send(data)
            assert b"HTTP/1.1 2" not in wire.read_rest()


def test_a_handshake_that_is_not_finished_has_a_deadline(hasty: Secret) -> None:
    """S12: the one of the head; before the handshake nothing else counts the time."""
    for first in (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"):
        with Connection(hasty.server.address) as wire:
            wire.send(first)
            assert wire.read_rest() in (b"", b"\x15\x03\x03\x00\x02\x022")
    eventually(lambda: answered(hasty), "who finishes it is served")


def test_a_new_certificate_is_taken_without_a_failed_request(secret: Secret) -> None:
    """S17: twenty reloads under load; connections that are open stay open."""
    certs = [CA.issue_cert("localhost") for _ in range(4)]
    context = trusting()
    failed: list[BaseException] = []
    served: list[int] = []
    stop = threading.Event()

    def load() -> None:
        count = 0
        try:
            with (
                socket.create_connection(secret.server.address, timeout=DEADLINE_S) as wire,
                context.wrap_socket(wire, server_hostname="localhost") as kept,
            ):
                while not (count and stop.is_set()):
                    assert ask(secret, context) == b"HTTP/1.1 200 OK"
                    kept.sendall(REQUEST.replace(b"close", b"keep-alive"))
                    assert kept.recv(65_536).startswith(b"HTTP/1.1 200 OK")
                    count += 1
        except BaseException as error:  # noqa: BLE001 - counted below
            failed.append(error)
        served.append(count)

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(20):
            secret.show(certs[number % len(certs)])
    finally:
        stop.set()
        for thread in threads:
            thread.join()

    assert failed == []
    assert min(served) > 0


def test_a_pair_that_does_not_fit_changes_nothing(secret: Secret) -> None:
    """S17: half of a renewal must not close the server to everybody."""
    secret.show(secret.good)
    other = CA.issue_cert("localhost")
    before = secret.server.said()

    attempts = [
        lambda: secret.write(other, key=secret.good),
        lambda: secret.write(secret.good, key=other),
        lambda: secret.cert.write_bytes(b"no certificate"),
        secret.cert.unlink,
    ]
    for number, spoil in enumerate(attempts, 1):
        spoil()
        secret.reload()
        eventually(
            lambda n=number: said_again(secret, before).count("stays in use") == n,
            "a line in the log",
        )
        assert answered(secret)
    secret.show(other)
    assert "BEGIN" not in secret.server.said()


def said_again(secret: Secret, before: str) -> str:
    return secret.server.said().removeprefix(before)


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secret]:
    """A server that wants to see a certificate of its clients."""
    home = tmp_path_factory.mktemp("mutual")
    CA.cert_pem.write_to_path(home / "clients.pem")
    made = Secret(home / "tls", PENSTOCK_TLS_CLIENT_CA=str(home / "clients.pem"))
    yield made
    made.server.close()


def test_clients_can_be_made_to_prove_who_they_are(mutual: Secret) -> None:
    """S17: no certificate, or one of another authority, is no client."""
    proven = trusting()
    CA.issue_cert("client@example.org").configure_cert(proven)
    eventually(lambda: served_with(mutual, proven), "readiness")

    assert not served_with(mutual, trusting())
    foreign, old = trusting(), trusting()
    STRANGER.issue_cert("client@example.org").configure_cert(foreign)
    CA.issue_cert("client@example.org", not_after=PAST).configure_cert(old)
    assert not served_with(mutual, foreign)
    assert not served_with(mutual, old)
    with penstock.connect(mutual.url, tls=proven, timeout_s=DEADLINE_S) as client:
        assert client.topics() == []


def served_with(secret: Secret, context: ssl.SSLContext) -> bool:
    with contextlib.suppress(OSError):
        return ask(secret, context) == b"HTTP/1.1 200 OK"
    return False


def test_a_wrong_pair_stops_the_start(tmp_path: Path) -> None:
    """S17: with a message and without a stack of calls; nothing is served in the clear instead."""
    (tmp_path / "cert.pem").write_text("nothing")
    files = {"PENSTOCK_TLS_CERT": "cert.pem", "PENSTOCK_TLS_KEY": "absent.pem"}
    for env in (files, {"PENSTOCK_TLS_CERT": "cert.pem"}):
        server = Server(tmp_path, env)
        server.start(until="nothing")
        assert server.wait() != 0
        assert "tls_cert" in server.said()
        assert "Traceback" not in server.said()
