"""What an attacker has: raw bytes, many sockets, and a look at the victim's memory."""

from __future__ import annotations

import contextlib
import re
import select
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import pytest

from tests.server.wire import Connection, Ended, head
from tests.support.serving import DEADLINE_S, Address, Server

MIB = 1 << 20
GROWTH_MAX = 32 * MIB
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


def say(address: Address, data: bytes, deadline_s: float = DEADLINE_S) -> bytes:
    """Everything that comes back until the server closes. What it does not take is not sent."""
    with Connection(address, deadline_s=deadline_s) as wire:
        wire.send_what_it_takes(data)
        return wire.read_rest()


def statuses(answer: bytes) -> list[int]:
    """The status of each answer in a stream of them."""
    return [int(found) for found in _STATUS.findall(answer)]


def post(
    address: Address,
    target: str,
    body: bytes,
    headers: Mapping[str, str] | None = None,
    kind: str = "application/json",
) -> int:
    """The status of a POST, also of one that is refused before its end."""
    with Connection(address) as wire:
        wanted = {
            "Host": "localhost",
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Connection": "close",
        } | dict(headers or {})
        wire.send_what_it_takes(head("POST", target, wanted) + body)
        return wire.read_reply().status


@contextlib.contextmanager
def small_growth(server: Server, most: int = GROWTH_MAX) -> Iterator[None]:
    """The server's memory, at its peak, grows by less than this."""
    proc = Path(f"/proc/{server.pid}")
    if not (proc / "clear_refs").exists():
        pytest.skip("peaks of memory are asked of Linux")
    (proc / "clear_refs").write_text("5")  # the peak starts anew
    before = _memory(proc, "VmRSS")
    yield
    grown = _memory(proc, "VmHWM") - before
    assert grown < most, f"{grown / MIB:.1f} MiB more"


def _memory(proc: Path, field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", (proc / "status").read_text())
    assert found
    return int(found[1]) * 1024


class Crowd:
    """Many sockets that only ever send a little. A context manager."""

    def __init__(self, address: Address, count: int) -> None:
        self._open = {}
        for _ in range(count):
            one = socket.create_connection(address, timeout=DEADLINE_S)
            one.setblocking(False)
            self._open[one] = b""
        self.said: list[bytes] = []

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._open:
            one.close()

    def __len__(self) -> int:
        return len(self._open)

    def send(self, data: bytes) -> None:
        for one in list(self._open):
            try:
                one.send(data)
            except BlockingIOError:
                continue
            except OSError:
                self._lose(one)

    def listen(self, seconds: float) -> None:
        """Take what comes, and note who was closed."""
        until = time.monotonic() + seconds
        poll = select.poll()
        by_number = {one.fileno(): one for one in self._open}
        for number in by_number:
            poll.register(number, select.POLLIN)
        while by_number and (left := until - time.monotonic()) > 0:
            for number, _ in poll.poll(left * 1000):
                if not self._take(by_number[number]):
                    poll.unregister(number)
                    del by_number[number]

    def _take(self, one: socket.socket) -> bool:
        try:
            data = one.recv(1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if data:
            self._open[one] += data
            return True
        self._lose(one)
        return False

    def _lose(self, one: socket.socket) -> None:
        self.said.append(self._open.pop(one))
        one.close()


def is_alive(address: Address) -> bool:
    """Does a normal client get its answer?"""
    try:
        with Connection(address) as wire:
            return wire.request("GET", "/v0/health").status == 200
    except (OSError, Ended):
        return False


class Http2Peer:
    """An HTTP/2 client that does what it should not. A context manager."""

    def __init__(self, address: Address) -> None:
        config = h2.config.H2Configuration(client_side=True, validate_outbound_headers=False)
        self.h2 = h2.connection.H2Connection(config)
        self.socket = socket.create_connection(address, timeout=DEADLINE_S)
        self.h2.initiate_connection()
        self.flush()
        self.listen()  # for the server's settings

    def __enter__(self) -> Http2Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def begin(self, method: str, path: str, *headers: tuple[str, str], end: bool = False) -> int:
        """Send the head of a request; its stream."""
        stream = self.h2.get_next_available_stream_id()
        first = (":method", method), (":scheme", "http"), (":authority", "localhost")
        self.h2.send_headers(stream, [*first, (":path", path), *headers], end_stream=end)
        return stream

    def flush(self) -> None:
        self.socket.sendall(self.h2.data_to_send())

    def listen(self) -> list[h2.events.Event]:
        """What comes next; nothing at the end."""
        data = self.socket.recv(1 << 16)
        return self.h2.receive_data(data) if data else []

    def outcome(self, stream: int) -> int:
        """The status of the answer; 0 when the stream or the connection was ended instead."""
        while events := self.listen():
            for event in events:
                if isinstance(event, h2.events.ResponseReceived) and event.stream_id == stream:
                    return int(dict(event.headers)[b":status"])
                if isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)):
                    return 0
        return 0
