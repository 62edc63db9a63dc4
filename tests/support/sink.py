"""A server for senders that does whatever a test says: one script for each connection.

It speaks the protocol with code of its own, on blocking sockets, a thread for each connection.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from penstock.testing import FakeClock
from tests.support.serving import eventually

DEADLINE_S = 120.0
OK, DURABLE, SCHEMA, PARSE, INTERNAL, SECURITY, WRITE = 0, 2, 3, 5, 6, 8, 9
_PARCEL = struct.Struct("<4sHHI")
_RECORD = struct.Struct("<IIHH")


@dataclass(frozen=True)
class Taken:
    """A frame as it came."""

    fsn: int
    incarnation: str
    payload: bytes

    @property
    def topic(self) -> str:
        return self.payload[12 : 12 + _PARCEL.unpack_from(self.payload)[2]].decode()

    @property
    def rows(self) -> list[bytes]:
        """The payloads of its records."""
        if not self.payload:
            return []
        _, flags, size, count = _PARCEL.unpack_from(self.payload)
        at, found = _PARCEL.size + size + (9 if flags else 0), []
        for _ in range(count):
            data, meta, tag, node = _RECORD.unpack_from(self.payload, at)
            at += _RECORD.size + tag + node + meta
            found.append(self.payload[at : at + data])
            at += data
        return found


class Gone(Exception):
    """The sender went away, or the sink was closed."""


class Visit:
    """One connection, after its handshake."""

    def __init__(
        self,
        sink: Sink,
        number: int,
        link: socket.socket,
        protocol: ServerProtocol,
        request: Request,
    ) -> None:
        self.number = number
        self.headers = request.headers
        self.first_fsn = int(request.headers["x-penstock-fsn"])
        self.sender_id = request.headers["x-penstock-sender"]
        self.taken: list[Taken] = []
        self.pings = 0
        self._sink = sink
        self._link = link
        self._protocol = protocol
        self._incarnation = ""
        self._waiting: list[Taken] = []

    def take(self) -> Taken:
        """The next frame; Gone at the end."""
        while not self._waiting:
            self._receive()
        frame = self._waiting.pop(0)
        assert frame.fsn == self.first_fsn + len(self.taken), "frames come in their order"
        self.taken.append(frame)
        return frame

    def wait_for_ping(self) -> None:
        while not self.pings:
            self._receive()

    def reply(self, *answers: tuple[int, int] | tuple[int, int, str], close: int = 0) -> None:
        """Answers, and perhaps a close, in one write."""
        for status, count, *text in answers:
            data = struct.pack("<BQ", status, count) + "".join(text).encode()
            self._protocol.send_binary(data)
        if close:
            self._protocol.send_close(close)
        self._flush()

    def ok(self) -> None:
        """Everything so far."""
        self.reply((OK, len(self.taken) - 1))

    def keep(self, frame: Taken) -> None:
        """It is the sink's now; one that comes again adds nothing."""
        self._sink.keep(frame)

    def close(self, code: int) -> None:
        self.reply(close=code)

    def send_text(self, text: str) -> None:
        self._protocol.send_text(text.encode())
        self._flush()

    def send_binary(self, data: bytes) -> None:
        self._protocol.send_binary(data)
        self._flush()

    def until_gone(self) -> None:
        """Listen, and say nothing."""
        with contextlib.suppress(Gone):
            while True:
                self.take()

    def _flush(self) -> None:
        with contextlib.suppress(OSError):
            self._link.sendall(b"".join(self._protocol.data_to_send()))

    def _receive(self) -> None:
        try:
            data = self._link.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            raise Gone
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if not isinstance(event, Frame):
                continue
            if event.opcode is Opcode.PING:
                self.pings += 1
            elif event.opcode is Opcode.TEXT:
                self._incarnation = bytes(event.data).decode().split('"')[3]
            elif event.opcode is Opcode.BINARY:
                frame = bytes(event.data)
                fsn = struct.unpack_from("<Q", frame, 8)[0]
                self._waiting.append(Taken(fsn, self._incarnation, frame[20:]))
        self._flush()
        if self._protocol.state is not OPEN and not self._waiting:
            raise Gone


Script = Callable[[Visit], None]


def take_all(visit: Visit) -> None:
    """A server that is well: keep each frame and say so."""
    while True:
        visit.keep(visit.take())
        visit.ok()


class Sink:
    """Listens until `close`. Scripts are used one connection after the other, the last for all
    that follow. A script that returns ends its connection, without a goodbye."""

    def __init__(
        self,
        *scripts: Script,
        status: int = 101,
        headers: Mapping[str, str] | None = None,
        port: int = 0,
    ) -> None:
        self.scripts = list(scripts) or [take_all]
        self.status = status
        self.headers = dict(headers or {})
        self.visits: list[Visit] = []
        self.requests = 0
        self.kept: list[Taken] = []
        self.errors: list[BaseException] = []
        self._known: set[tuple[str, int]] = set()
        self._changed = threading.Condition()
        self._links: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._is_closed = False
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        self._run(self._accept)

    @property
    def addr(self) -> str:
        return f"127.0.0.1:{self.port}"

    def keep(self, frame: Taken) -> None:
        with self._changed:
            if (frame.incarnation, frame.fsn) not in self._known:
                self._known.add((frame.incarnation, frame.fsn))
                self.kept.append(frame)
            self._changed.notify_all()

    def rows(self, topic: str | None = None) -> list[bytes]:
        """What was kept, in its order."""
        frames = [frame for frame in self.kept if frame.payload]
        return [row for f in frames if topic in (None, f.topic) for row in f.rows]

    def wait_for(self, is_so: Callable[[], Any], what: str = "what was waited for") -> None:
        eventually(lambda: is_so() or self.errors, what, DEADLINE_S)
        if self.errors:
            raise self.errors[0]

    def close(self) -> None:
        """Stop listening and end every connection."""
        self._is_closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._changed:
            links = list(self._links)
            self._changed.notify_all()
        for link in links:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(DEADLINE_S)

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        if kind is None and self.errors:
            raise self.errors[0]

    def _run(self, work: Callable[..., None], *given: Any) -> None:
        thread = threading.Thread(target=work, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                if self._is_closed:  # it came too late for `close` to end it
                    link.close()
                    return
                self.requests += 1
                self._links.append(link)
                self._changed.notify_all()
            self._run(self._serve, link)

    def _serve(self, link: socket.socket) -> None:
        with link, contextlib.suppress(OSError, Gone):
            visit = self._shake(link)
            if visit is None:
                return
            with self._changed:
                self.visits.append(visit)
                script = self.scripts[0] if len(self.scripts) == 1 else self.scripts.pop(0)
                self._changed.notify_all()
            try:
                script(visit)
            except (Gone, OSError):
                return
            except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
                self.errors.append(error)

    def _shake(self, link: socket.socket) -> Visit | None:
        protocol = ServerProtocol(max_size=None)
        request = next(self._read_request(link, protocol))
        if self.status == 101:
            response = protocol.accept(request)
            for name, value in self.headers.items():
                if name in response.headers:
                    del response.headers[name]
                response.headers[name] = value
        else:
            response = protocol.reject(self.status, "not today")
            for name, value in self.headers.items():
                response.headers[name] = value
        protocol.send_response(response)
        link.sendall(b"".join(protocol.data_to_send()))
        if self.status != 101:
            return None
        return Visit(self, len(self.visits), link, protocol, request)

    def _read_request(self, link: socket.socket, protocol: ServerProtocol) -> Iterator[Request]:
        while True:
            data = link.recv(1 << 16)
            if not data:
                raise Gone
            protocol.receive_data(data)
            for event in protocol.events_received():
                if isinstance(event, Request):
                    yield event


def conf(*sinks: Sink | str, **keys: object) -> str:
    """A connect string for these sinks, in a hurry: nobody rests for long."""
    wanted: dict[str, object] = {
        "addr": ",".join(sink if isinstance(sink, str) else sink.addr for sink in sinks),
        "reconnect_initial_backoff_millis": 1,
        "reconnect_max_backoff_millis": 5,
        "auto_flush": "off",
        **keys,
    }
    return "ws::" + "".join(f"{key}={value};" for key, value in wanted.items())


def free_port() -> int:
    """One that nobody listens on, and that the system gives to no outgoing connection: one that
    calls a port where nobody listens would now and then meet itself. Each process of a test run
    has ports of its own."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 12
    while True:
        port = random.randrange(20_000 + 1_000 * worker, 21_000 + 1_000 * worker)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class Ticking:
    """Fake time that goes on by itself, a thousand times as fast. A context manager."""

    def __init__(self, clock: FakeClock, step_ms: float = 50) -> None:
        self._clock = clock
        self._step_ms = step_ms
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Ticking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(DEADLINE_S)

    def _run(self) -> None:
        while not self._end.wait(0.001):
            self._clock.advance(self._step_ms)
