"""One WebSocket to a server, on a blocking socket. The thread that opened it uses it alone;
`wake` and `abort` are for others."""

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
from penstock.sender.bell import Bell
from penstock.sender.hosts import Health
from penstock.sender.profile import Host, Profile
from penstock.sender.tls import tls_context
from penstock.wire import sending
from penstock.wire.sending import Reply, decode_reply

_READ_BYTES: Final = 64 * 1024
_STALL_S: Final = 40.0  # a server that takes nothing for so long is gone
_encode = msgspec.json.Encoder().encode
_clock: Final = SystemClock()  # sockets know no other
# `select` itself fails in processes with more than a thousand open files.
_Selector: Final = getattr(selectors, "PollSelector", selectors.SelectSelector)


class Refused(Exception):
    """No connection. `is_final`: trying again would not help."""

    def __init__(
        self, why: str, health: Health, *, is_final: bool = False, status: int = 0
    ) -> None:
        super().__init__(why)
        self.health = health
        self.is_final = is_final
        self.status = status


class Broken(Exception):
    """The connection ended. `code` is that of the server's close, 0 when it just ended; `is_mute`:
    nothing came from there for too long."""

    def __init__(self, why: str, code: int = 0, *, is_mute: bool = False) -> None:
        super().__init__(why)
        self.code = code
        self.is_mute = is_mute


class Connection:
    """An open connection."""

    def __init__(self, link: socket.socket, protocol: ClientProtocol, host: Host) -> None:
        self.host = host
        self.frame_bytes_max = 0  # what the server takes; 0: it did not say
        self._link = link
        self._protocol = protocol
        self._bell = Bell()
        self._selector = _Selector()
        self._selector.register(link, selectors.EVENT_READ)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._is_closed = threading.Event()
        self._replies: list[Reply] = []
        self.bytes_heard = 0  # of anything, pongs included
        self._is_ended = False
        self._failure = ""  # why nothing can be sent any more

    def send_text(self, value: object) -> None:
        self._check_open()
        self._protocol.send_text(_encode(value))

    def send_frame(self, data: bytes) -> None:
        """Queue a frame; `flush` sends."""
        self._check_open()
        self._protocol.send_binary(data)

    def ping(self) -> None:
        self._check_open()
        self._protocol.send_ping(b"")
        self.flush()

    def flush(self) -> None:
        """Send what is queued. A server that has left may have said why: then that is heard
        first, and the next call fails."""
        chunks = self._protocol.data_to_send()
        try:
            for chunk in chunks:
                if chunk:
                    self._link.sendall(chunk)
        except TimeoutError:
            raise Broken(f"the server took nothing for {_STALL_S:g} s", is_mute=True) from None
        except OSError as error:
            self._failure = f"sending failed: {error}"
            self._hear_last_words()
            if not self._replies:
                raise Broken(self._failure) from None

    def receive(self, timeout_s: float | None) -> list[Reply]:
        """What the server says within this time; returns at once when there is something, or
        when somebody rings."""
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
        if self._bell in ready:
            self._bell.silence()
        if self._link in ready or self._has_pending():
            self._read()
        replies, self._replies = self._replies, []
        return replies

    def wake(self) -> None:
        """End a wait in `receive`. Any thread."""
        self._bell.ring()

    def abort(self) -> None:
        """End everything at once. Any thread."""
        self._is_closed.set()
        with contextlib.suppress(OSError):
            # Not that of TLS, which would let the other thread send in the clear from then on.
            socket.socket.shutdown(self._link, socket.SHUT_RDWR)
        self.wake()

    def forget(self) -> None:
        """In a process that was forked off: the connection is the parent's."""
        with contextlib.suppress(OSError):
            socket.socket.close(self._link)

    def close(self) -> None:
        """Say goodbye and go. May be repeated."""
        if not self._is_closed.is_set():
            with contextlib.suppress(Exception):
                self._protocol.send_close(1000)
                self._link.settimeout(1.0)
                self.flush()
        self._is_closed.set()
        self._selector.close()
        self._bell.close()
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
        self._take(data)
        self._is_ended = not data
        if self._replies:
            return  # those first
        self._check_end()
        self.flush()  # pongs

    def _hear_last_words(self) -> None:
        self._link.settimeout(0.0)
        with contextlib.suppress(OSError, Broken):
            while data := self._link.recv(_READ_BYTES):
                self._take(data)

    def _take(self, data: bytes) -> None:
        self.bytes_heard += len(data)
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
                raise Broken("the server sent a text, and answers are binary")

    def _check_open(self) -> None:
        """Broken when the server has said goodbye, perhaps in one breath with an answer."""
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


def connect(profile: Profile, host: Host, first_fsn: int) -> Connection:
    """Connect and shake hands, or Refused."""
    try:
        link = socket.create_connection((host.name, host.port), profile.connect_timeout / 1000)
    except OSError as error:
        raise Refused(f"{host}: {error}", Health.UNREACHABLE) from None
    try:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        until_s = _clock.monotonic() + profile.auth_timeout_ms / 1000
        link.settimeout(profile.auth_timeout_ms / 1000)
        context = tls_context(profile)
        if context is not None:
            link = context.wrap_socket(link, server_hostname=host.name)
        protocol, response = _shaken(profile, link, host, first_fsn, until_s)
        _check(profile, host, response, protocol.handshake_exc)
        link.settimeout(_STALL_S)
        connection = Connection(link, protocol, host)
    except (OSError, InvalidArgument) as error:
        link.close()
        raise Refused(f"{host}: {error}", Health.UNREACHABLE) from None
    except BaseException:
        link.close()
        raise
    with contextlib.suppress(ValueError):
        connection.frame_bytes_max = int(response.headers.get(sending.FRAME_BYTES_MAX, "0"))
    return connection


def _shaken(
    profile: Profile, link: socket.socket, host: Host, first_fsn: int, until_s: float
) -> tuple[ClientProtocol, Response]:
    """By then: an answer may come byte by byte."""
    schema = "wss" if profile.is_tls else "ws"
    protocol = ClientProtocol(parse_uri(f"{schema}://{host}{sending.PATH}"))
    request = protocol.connect()
    request.headers[sending.SENDER] = profile.sender_id
    request.headers[sending.FSN] = str(first_fsn)
    if profile.request_durable_ack:
        request.headers[sending.DURABLE_ACK] = "on"
    if profile.token:
        request.headers["Authorization"] = f"Bearer {profile.token}"
    elif profile.username:
        secret = base64.b64encode(f"{profile.username}:{profile.password}".encode()).decode()
        request.headers["Authorization"] = f"Basic {secret}"
    protocol.send_request(request)
    for chunk in protocol.data_to_send():
        link.sendall(chunk)
    heard = False
    while True:
        left_s = until_s - _clock.monotonic()
        if left_s <= 0:
            raise TimeoutError("the answer to the handshake did not end in time")
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
            said = "what answered the handshake is no such server" if heard else "no answer"
            raise Refused(f"{host}: {said}", Health.UNREACHABLE)
        heard = True


def _check(profile: Profile, host: Host, response: Response, flaw: Exception | None) -> None:
    """Refused, unless this is what was asked for."""
    status = response.status_code
    if status in (401, 403):
        why = f"{host}: the server refuses these credentials ({status}){_said(response)}"
        raise Refused(why, Health.UNREACHABLE, is_final=True, status=status)
    if status == 421:
        role = response.headers.get("X-QuestDB-Role", "")
        health = Health.CATCHING_UP if role == "PRIMARY_CATCHUP" else Health.WRONG_ROLE
        raise Refused(f"{host}: not the server for this ({role or 421})", health, status=status)
    if status != 101:
        why = f"{host}: the handshake was answered with {status}{_said(response)}"
        raise Refused(why, Health.UNREACHABLE, status=status)
    if flaw is not None:  # not every 101 is a WebSocket
        raise Refused(f"{host}: {flaw}", Health.UNREACHABLE, status=status)
    if profile.request_durable_ack and response.headers.get(sending.DURABLE_ACK) != "enabled":
        why = f"{host}: request_durable_ack=on, and this server offers no durable acknowledgement"
        raise Refused(why, Health.UNREACHABLE, is_final=True, status=status)


def _said(response: Response) -> str:
    text = bytes(response.body or b"")[:200].decode("utf-8", "replace")
    return f": {text}" if text else ""
