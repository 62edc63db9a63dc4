"""A scripted peer on a real socket: it does to a client whatever a test says.

An act takes the request and the socket it came on. Acts are used up one request after the
other, whatever connection these come on; the last one is used for all that follow.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from penstock.client import address
from penstock.client.async_client import AsyncClient
from penstock.client.async_transport import AsyncTransport
from penstock.client.client import Client
from penstock.client.http import HttpRequest, HttpResponse
from penstock.client.transport import SocketTransport
from penstock.clock import SystemClock
from penstock.codec import kernel
from penstock.wire import binary_batch

DEADLINE_S = 120.0  # what must happen has happened by then, on however busy a machine
PASSING_S = (0.1, 1.0, 10.0, 60.0)
"""Deadlines that are to pass while the other side is silent. On a busy machine a short one may pass
before the other side has been reached; then the next one is tried."""


@dataclass(frozen=True)
class Asked:
    """A request as the peer received it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Act = Callable[[Asked, socket.socket], bool | None]
"""False ends the connection; anything else keeps it."""


class Peer:
    """Listens until `close`. `asked` holds every request that came whole."""

    def __init__(self, *acts: Act) -> None:
        self.acts = list(acts)
        self.asked: list[Asked] = []
        self.connections = 0
        self.closing = threading.Event()  # for acts that wait
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        host, port = self._listener.getsockname()
        return f"http://{host}:{port}"

    def wait_for_asked(self) -> None:
        """Return when a request has come."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: bool(self.asked), DEADLINE_S)

    def wait_for_closed(self) -> None:
        """Return when the peer has let go of every connection."""
        with self._lock:
            serving = self._threads[1:]
        for thread in serving:
            thread.join(DEADLINE_S)

    def close(self) -> None:
        self.closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            held = list(self._sockets)
        for sock in held:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(DEADLINE_S)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self.connections += 1
                self._sockets.append(sock)
                thread = threading.Thread(target=self._serve, args=(sock, self.connections))
                self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket, number: int) -> None:
        with sock, contextlib.suppress(OSError):
            while (asked := receive(sock, number)) is not None:
                with self._arrived:
                    self.asked.append(asked)
                    self._arrived.notify_all()
                    act = self.acts[0] if len(self.acts) == 1 else self.acts.pop(0)
                if act(asked, sock) is False:
                    return


def receive(sock: socket.socket, number: int = 0) -> Asked | None:
    """The next whole request; None at the end."""
    held = b""
    while b"\r\n\r\n" not in held:
        piece = sock.recv(65536)
        if not piece:
            return None
        held += piece
    head, _, body = held.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        piece = sock.recv(65536)
        if not piece:
            return None
        body += piece
    method, target, _ = first.split(" ")
    return Asked(method, target, headers, body, number)


# Answers.


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Word", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def json_answer(body: Any, status: int = 200, **headers: str) -> bytes:
    return answer(status, json.dumps(body).encode(), content_type="application/json", **headers)


def error_answer(status: int, code: str, detail: Any = None, **headers: str) -> bytes:
    fault = {"code": code, "message": f"it is {code}"} | ({"detail": detail} if detail else {})
    return json_answer({"error": fault}, status, **headers)


def appended_answer(topic: str = "t", first: int = 1, count: int = 1, **more: Any) -> bytes:
    last = first + count - 1
    body = {"topic": topic, "first_seq": first, "last_seq": last, "count": count, "head_seq": last}
    body |= {"created": False, "deduped": False, "epoch": 1, "ts": 5, **more}
    return json_answer(body | {"performance": {"server_total_ms": 0.1, "fsync_ms": 2.5}})


def page_answer(*seqs: int, head: int | None = None, gap: Any = None, epoch: int = 1) -> bytes:
    """A binary page of records whose data is their seq."""
    frames = b"".join(
        kernel.encode_appends(1, seq, 1000 + seq, 0, [b"%d" % seq], None, None, None, None, None)[0]
        for seq in seqs
    )
    last = seqs[-1] if seqs else (head or 0)
    top = last if head is None else head
    told = {"topic": "t", "next_from_seq": last, "head_seq": top, "earliest_seq": 1}
    told |= {"caught_up": last == top, "tombstone": gap, "lag": top - last, "epoch": epoch}
    return answer(
        200,
        binary_batch.encode_page(told, frames, len(seqs)),
        content_type=binary_batch.CONTENT_TYPE,
    )


# Acts.


def say(data: bytes) -> Act:
    """Send this and keep the connection."""
    return lambda asked, sock: sock.sendall(data)


def say_and_close(data: bytes) -> Act:
    def act(asked: Asked, sock: socket.socket) -> bool:
        sock.sendall(data)
        return False

    return act


def hang_up(asked: Asked, sock: socket.socket) -> bool:
    """Close without a word."""
    return False


def reset(asked: Asked, sock: socket.socket) -> bool:
    """Tear the connection down with a reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


@dataclass
class Hold:
    """Say nothing until let go; `reached` is set when somebody waits."""

    data: bytes = b""
    reached: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)

    def __call__(self, asked: Asked, sock: socket.socket) -> bool:
        self.reached.set()
        self.go.wait(DEADLINE_S)
        sock.sendall(self.data)
        return False


@contextlib.contextmanager
def peer_of(*acts: Act) -> Iterator[Peer]:
    peer = Peer(*acts)
    try:
        yield peer
    finally:
        for act in acts:
            if isinstance(act, Hold):
                act.go.set()
        peer.close()


@contextlib.contextmanager
def no_one_listens() -> Iterator[str]:
    """A URL where nobody answers. The port is taken, so that nobody else gets it meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def at_once() -> float:
    """Chance, without the waiting."""
    return 0.0


class SyncSide:
    """The transport for threads."""

    def __init__(self, url: str) -> None:
        self._transport = SocketTransport(address.parse(url), SystemClock(), None)

    def exchange(self, request: HttpRequest, seconds: float = DEADLINE_S) -> HttpResponse:
        return self._transport.exchange(request, SystemClock().monotonic() + seconds)

    def stream(self, request: HttpRequest, seconds: float = DEADLINE_S) -> tuple[int, list[bytes]]:
        deadline = SystemClock().monotonic() + seconds
        with self._transport.stream(request, deadline) as stream:
            pieces = []
            while piece := stream.read(deadline):
                pieces.append(piece)
            return stream.status, pieces

    def close(self) -> None:
        self._transport.close()


class AsyncSide:
    """The transport for asyncio, in a loop of its own."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self._transport = AsyncTransport(address.parse(url), SystemClock(), None)

    def exchange(self, request: HttpRequest, seconds: float = DEADLINE_S) -> HttpResponse:
        deadline = SystemClock().monotonic() + seconds
        return self._runner.run(self._transport.exchange(request, deadline))

    def stream(self, request: HttpRequest, seconds: float = DEADLINE_S) -> tuple[int, list[bytes]]:
        deadline = SystemClock().monotonic() + seconds

        async def all_of() -> tuple[int, list[bytes]]:
            async with self._transport.stream(request, deadline) as stream:
                pieces = []
                while piece := await stream.read(deadline):
                    pieces.append(piece)
                return stream.status, pieces

        return self._runner.run(all_of())

    def close(self) -> None:
        self._runner.run(self._transport.close())
        self._runner.close()


Side = SyncSide | AsyncSide
SIDES = (SyncSide, AsyncSide)


class SyncCaller:
    """A `Client` whose verbs are called; what it iterates over is gathered."""

    def __init__(self, url: str, token: str | None = None, **told: Any) -> None:
        self.client = Client(url, token, **{"timeout_s": DEADLINE_S, "roll": at_once, **told})

    def __call__(self, verb: str, *given: Any, **named: Any) -> Any:
        return getattr(self.client, verb)(*given, **named)

    def items(self, verb: str, *given: Any, count: int | None = None, **named: Any) -> list[Any]:
        """All there are, or the first `count`."""
        found = getattr(self.client, verb)(*given, **named)
        with contextlib.closing(found):
            return list(itertools.islice(found, count))

    def close(self) -> None:
        self.client.close()


class AsyncCaller:
    """The same with an `AsyncClient`, in a loop of its own."""

    def __init__(self, url: str, token: str | None = None, **told: Any) -> None:
        self.client = AsyncClient(url, token, **{"timeout_s": DEADLINE_S, "roll": at_once, **told})
        self._runner = asyncio.Runner()

    def __call__(self, verb: str, *given: Any, **named: Any) -> Any:
        return self._runner.run(getattr(self.client, verb)(*given, **named))

    def items(self, verb: str, *given: Any, count: int | None = None, **named: Any) -> list[Any]:
        async def gather() -> list[Any]:
            found: list[Any] = []
            async with contextlib.aclosing(getattr(self.client, verb)(*given, **named)) as items:
                if count == 0:
                    return found
                async for item in items:
                    found.append(item)
                    if len(found) == count:
                        break
            return found

        return self._runner.run(gather())

    def close(self) -> None:
        self._runner.run(self.client.close())
        self._runner.close()


Caller = SyncCaller | AsyncCaller
CALLERS = (SyncCaller, AsyncCaller)


@contextlib.contextmanager
def pair(kind: type[Side], *acts: Act) -> Iterator[tuple[Side, Peer]]:
    with peer_of(*acts) as peer, contextlib.closing(kind(peer.url)) as side:
        yield side, peer
