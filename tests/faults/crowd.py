"""Many clients that do nothing, and some that do not even read."""

from __future__ import annotations

import base64
import json
import os
import resource
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.faults.exchange import linked
from tests.faults.victim import DEADLINE_S, Address
from tests.support import requirements

CONNECTS_AT_ONCE = 200
ADDRESSES = 8  # 127.0.0.1 and so on: one address alone may run short of ports


@contextmanager
def room_for(descriptors: int) -> Iterator[None]:
    """Let this process have that many open files for a while."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, descriptors)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(hard, wanted)))
    except (ValueError, OSError):
        requirements.lacking(f"{descriptors} open files", f"{hard} are allowed: raise `ulimit -n`")
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def idlers(address: Address, count: int) -> Iterator[list[socket.socket]]:
    """Open connections; every fifth has asked for something once."""
    found: list[socket.socket] = []
    try:
        while len(found) < count:
            some = [
                _connecting(address, len(found) + n)
                for n in range(min(CONNECTS_AT_ONCE, count - len(found)))
            ]
            found += some
            for sock in some:
                _finish(sock)
        request = b"GET /v0/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for sock in found[::5]:
            sock.sendall(request)
        for sock in found[::5]:
            if not sock.recv(4096).startswith(b"HTTP/1.1 200"):
                raise AssertionError("an idler was not answered")
        yield found
    finally:
        for sock in found:
            sock.close()


def _connecting(address: Address, number: int) -> socket.socket:
    sock = socket.socket()
    sock.setblocking(False)
    sock.bind((f"127.0.0.{1 + number % ADDRESSES}", 0))
    sock.connect_ex(address)
    return sock


def _finish(sock: socket.socket) -> None:
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    if not poll.poll(1000 * DEADLINE_S):
        raise AssertionError("a connection was not accepted")
    error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, os.strerror(error))
    sock.settimeout(DEADLINE_S)


class Deaf:
    """A reader that asked for everything and reads nothing, with little room on its side."""

    def __init__(self, address: Address) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        self.socket.settimeout(DEADLINE_S)
        self.socket.connect(address)

    def watch(self, session: str) -> None:
        self.socket.sendall(f"GET {session} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    def subscribe(self, topic: str) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            "GET /v0/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        text = json.dumps({"op": "subscribe", "topic": topic}).encode()
        mask = b"\0\0\0\0"  # of no effect, and allowed
        self.socket.sendall(bytes((0x81, 0x80 | len(text))) + mask + text)

    def close(self) -> None:
        self.socket.close()


async def latencies_ms(address: Address, count: int, topic: str = "others") -> list[float]:
    """Of small appends, one after the other; sorted."""
    found = []
    async with linked(address) as link:
        for number in range(count):
            started = time.perf_counter()
            reply = await link.post(f"/v0/topics/{topic}", {"records": [{"data": number}]})
            found.append((time.perf_counter() - started) * 1000)
            if reply.status not in (200, 201):
                raise AssertionError(f"an append was answered {reply}")
    return sorted(found)


def p99(sorted_values: list[float]) -> float:
    return sorted_values[len(sorted_values) * 99 // 100]
