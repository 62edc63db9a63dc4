"""One WebSocket connection to a server, on a blocking socket. One thread uses it; `wake` and
`abort` may be called from any thread."""

from __future__ import annotations

import base64
import contextlib
import selectors
import socket
import ssl
import threading
from typing import Final

import msgspec
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from penstock.clock import SystemClock
from penstock.errors import InvalidArgument
from penstock.sender.connect_string import ConnectOptions, Endpoint
from penstock.sender.hosts import Health
from penstock.sender.tls import tls_context
from penstock.sender.wake_pipe import WakePipe
from penstock.wire import sender_protocol
from penstock.wire.sender_protocol import Reply, decode_reply

_READ_BYTES: Final = 64 * 1024
_STALL_S: Final = 40.0  # the timeout of a blocked send
_encode = msgspec.json.Encoder().encode
_clock: Final = SystemClock()  # sockets use no other clock
# `select` fails in processes with more than a thousand open files.
_Selector: Final = getattr(selectors, "PollSelector", selectors.SelectSelector)


class Refused(Exception):
    """The connection was not opened. `is_final`: a retry would not help."""

    def __init__(
        self, why: str, health: Health, *, is_final: bool = False, status: int = 0
    ) -> None:
        super().__init__(why)
        self.health = health
        self.is_final = is_final
        self.status = status


class Broken(Exception):
    """The connection ended. `code` is the server's close code, 0 without a close frame;
    `is_timeout`: the server did not answer in time."""

    def __init__(self, why: str, code: int = 0, *, is_timeout: bool = False) -> None:
        super().__init__(why)
        self.code = code
        self.is_timeout = is_timeout


class SenderConnection:
    """An open connection."""

    def __init__(self, link: socket.socket, protocol: ClientProtocol, host: Endpoint) -> None:
        self.host = host
        self.frame_bytes_max = 0  # the maximum of the server; 0: not announced
        self._link = link
        self._protocol = protocol
        self._wake_pipe = WakePipe()
        self._selector = _Selector()
        self._selector.register(link, selectors.EVENT_READ)
        self._selector.register(self._wake_pipe, selectors.EVENT_READ)
        self._is_closed = threading.Event()
        self._replies: list[Reply] = []
        self.bytes_received = 0  # including pongs
        self._is_ended = False
        self._failure = ""  # why sending is not possible any more

    def send_text(self, value: object) -> None:
        self._check_open()
        self._protocol.send_text(_encode(value))

    def send_frame(self, data: bytes) -> None:
        """Queue a frame; `flush` sends it."""
        self._check_open()
        self._protocol.send_binary(data)

    def ping(self) -> None:
        self._check_open()
        self._protocol.send_ping(b"")
        self.flush()

    def flush(self) -> None:
        """Send the queued frames. If that fails and the server has sent replies, the next `receive`
        returns them, and the call after it fails."""
        chunks = self._protocol.data_to_send()
        try:
            for chunk in chunks:
                if chunk:
                    self._link.sendall(chunk)
        except TimeoutError:
            raise Broken(f"the server did not read for {_STALL_S:g} s", is_timeout=True) from None
        except OSError as error:
            self._failure = f"sending failed: {error}"
            self._read_remaining()
            if not self._replies:
                raise Broken(self._failure) from None

    def receive(self, timeout_s: float | None) -> list[Reply]:
        """The replies that arrive within `timeout_s`. Returns early after a reply or `wake`."""
        if self._failure and self._replies:
            replies, self._replies = self._replies, []
            return replies
        self._check_end()
        if self._has_pending():
            timeout_s = 0
        try:
            ready = [key.fileobj for key, _ in self._selector.select(timeout_s)]
        except (OSError, ValueError) as error:
            raise Broken(f"waiting failed: {error}") from None
        if self._wake_pipe in ready:
            self._wake_pipe.clear()
        if self._link in ready or self._has_pending():
            self._read()
        replies, self._replies = self._replies, []
        return replies

    def wake(self) -> None:
        """End a wait in `receive`. Any thread."""
        self._wake_pipe.wake()

    def abort(self) -> None:
        """End the connection at once. Any thread."""
        self._is_closed.set()
        with contextlib.suppress(OSError):
            # Not SSLSocket.shutdown: after it the other thread would send without TLS.
            socket.socket.shutdown(self._link, socket.SHUT_RDWR)
        self.wake()

    def leave_to_parent(self) -> None:
        """In a forked child: the connection belongs to the parent."""
        with contextlib.suppress(OSError):
            socket.socket.close(self._link)

    def close(self) -> None:
        """Send a close frame and close the socket. May be called again."""
        if not self._is_closed.is_set():
            with contextlib.suppress(Exception):
                self._protocol.send_close(1000)
                self._link.settimeout(1.0)
                self.flush()
        self._is_closed.set()
        self._selector.close()
        self._wake_pipe.close()
        with contextlib.suppress(OSError):
            self._link.close()

    def _has_pending(self) -> bool:
        return isinstance(self._link, ssl.SSLSocket) and self._link.pending() > 0

    def _read(self) -> None:
        try:
            data = self._link.recv(_READ_BYTES)
        except (TimeoutError, ssl.SSLWantReadError):
            return
        except OSError as error:
            raise Broken(f"receiving failed: {error}") from None
        self._feed(data)
        self._is_ended = not data
        if self._replies:
            return  # the caller handles the replies first
        self._check_end()
        self.flush()  # sends pongs

    def _read_remaining(self) -> None:
        self._link.settimeout(0.0)
        with contextlib.suppress(OSError, Broken):
            while data := self._link.recv(_READ_BYTES):
                self._feed(data)

    def _feed(self, data: bytes) -> None:
        self.bytes_received += len(data)
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and event.opcode is Opcode.BINARY:
                try:
                    self._replies.append(decode_reply(bytes(event.data)))
                except InvalidArgument as error:
                    raise Broken(str(error)) from None
            elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                raise Broken("the server sent a text message: expected a binary reply")

    def _check_open(self) -> None:
        """Raises Broken when the server has closed the connection."""
        if self._failure or self._protocol.state is not OPEN:
            self._check_end()
            raise Broken("the connection is closing")

    def _check_end(self) -> None:
        received = self._protocol.close_rcvd
        if received is not None:
            raise Broken(f"the server closed: {received.code} {received.reason}", received.code)
        if self._failure:
            raise Broken(self._failure)
        if self._is_ended:
            raise Broken("the server ended the connection")


def connect(options: ConnectOptions, host: Endpoint, first_fsn: int) -> SenderConnection:
    """Connect and perform the WebSocket handshake. Raises Refused."""
    try:
        link = socket.create_connection((host.name, host.port), options.connect_timeout / 1000)
    except OSError as error:
        raise Refused(f"{host}: {error}", Health.UNREACHABLE) from None
    try:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        until_s = _clock.monotonic() + options.auth_timeout_ms / 1000
        link.settimeout(options.auth_timeout_ms / 1000)
        context = tls_context(options)
        if context is not None:
            link = context.wrap_socket(link, server_hostname=host.name)
        protocol, response = _handshake(options, link, host, first_fsn, until_s)
        _check(options, host, response, protocol.handshake_exc)
        link.settimeout(_STALL_S)
        connection = SenderConnection(link, protocol, host)
    except (OSError, InvalidArgument) as error:
        link.close()
        raise Refused(f"{host}: {error}", Health.UNREACHABLE) from None
    except BaseException:
        link.close()
        raise
    with contextlib.suppress(ValueError):
        connection.frame_bytes_max = int(response.headers.get(sender_protocol.FRAME_BYTES_MAX, "0"))
    return connection


def _handshake(
    options: ConnectOptions, link: socket.socket, host: Endpoint, first_fsn: int, until_s: float
) -> tuple[ClientProtocol, Response]:
    """Send the request and read the response until `until_s`."""
    schema = "wss" if options.is_tls else "ws"
    protocol = ClientProtocol(parse_uri(f"{schema}://{host}{sender_protocol.PATH}"))
    request = protocol.connect()
    request.headers[sender_protocol.SENDER] = options.sender_id
    request.headers[sender_protocol.FSN] = str(first_fsn)
    if options.request_durable_ack:
        request.headers[sender_protocol.DURABLE_ACK] = "on"
    if options.token:
        request.headers["Authorization"] = f"Bearer {options.token}"
    elif options.username:
        secret = base64.b64encode(f"{options.username}:{options.password}".encode()).decode()
        request.headers["Authorization"] = f"Basic {secret}"
    protocol.send_request(request)
    for chunk in protocol.data_to_send():
        link.sendall(chunk)
    received = False
    while True:
        left_s = until_s - _clock.monotonic()
        if left_s <= 0:
            raise TimeoutError("no complete answer to the handshake in time")
        link.settimeout(left_s)
        data = link.recv(_READ_BYTES)
        if data:
            protocol.receive_data(data)
        else:
            protocol.receive_eof()
        for event in protocol.events_received():
            if isinstance(event, Response):
                return protocol, event
        if not data:
            said = "the answer to the handshake is not HTTP/1.1" if received else "no answer"
            raise Refused(f"{host}: {said}", Health.UNREACHABLE)
        received = True


def _check(
    options: ConnectOptions, host: Endpoint, response: Response, flaw: Exception | None
) -> None:
    """Raises Refused unless the handshake succeeded."""
    status = response.status_code
    if status in (401, 403):
        why = f"{host}: the server rejected the credentials ({status}){_body_text(response)}"
        raise Refused(why, Health.UNREACHABLE, is_final=True, status=status)
    if status == 421:
        role = response.headers.get("X-QuestDB-Role", "")
        health = Health.CATCHING_UP if role == "PRIMARY_CATCHUP" else Health.WRONG_ROLE
        raise Refused(
            f"{host}: the server does not accept writes in its role ({role or 421})",
            health,
            status=status,
        )
    if status != 101:
        why = f"{host}: the handshake was answered with {status}{_body_text(response)}"
        raise Refused(why, Health.UNREACHABLE, status=status)
    if flaw is not None:  # a 101 that is not a valid WebSocket handshake
        raise Refused(f"{host}: {flaw}", Health.UNREACHABLE, status=status)
    if (
        options.request_durable_ack
        and response.headers.get(sender_protocol.DURABLE_ACK) != "enabled"
    ):
        why = f"{host}: request_durable_ack=on, but the server offers no durable acknowledgements"
        raise Refused(why, Health.UNREACHABLE, is_final=True, status=status)


def _body_text(response: Response) -> str:
    text = bytes(response.body or b"")[:200].decode("utf-8", "replace")
    return f": {text}" if text else ""
