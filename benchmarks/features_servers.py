"""The two servers of the feature benchmark: ours, and beava from its PyPI wheel."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from typing import Final, Protocol

from benchmarks import features_events as made
from benchmarks.load_job import COUNT, Pour
from benchmarks.server_own import calls, own_server
from benchmarks.server_process import (
    DidNotStart,
    Missing,
    Running,
    Server,
    free_port,
    listening,
    process,
)

PEER: Final = "beava"
_MISSING: Final = Missing("beava is not installed; pip install beava==0.0.6")
_NOT_READY: Final = b'"table_not_ready"'
_ACKNOWLEDGED: Final = b'"ack_lsn"'
_TIMEOUT_S: Final = 30


def peer_path() -> str | None:
    """The server binary of the wheel, beside this interpreter or on the path."""
    beside = os.path.join(os.path.dirname(sys.executable), PEER)
    return beside if os.path.exists(beside) else shutil.which(PEER)


def peer_version() -> str:
    """Empty if it is not installed."""
    try:
        return metadata.version(PEER) if peer_path() else ""
    except metadata.PackageNotFoundError:
        return "of unknown version"


@contextlib.contextmanager
def ours(folder: str, features: dict[str, made.Feature] | None) -> Iterator[Server]:
    """Our server with these features; None: those that are in its folder."""
    with own_server(folder) as server:
        if isinstance(server, Running) and features is not None:
            with calls(server.port) as call:
                body = {**made.definition(features), "wait_ms": 10_000}
                call.json("POST", "/v0/features/definition", body)
        yield server


@contextlib.contextmanager
def theirs(
    folder: str, features: dict[str, made.Feature] | None, http_port: int | None = None
) -> Iterator[Server]:
    """The peer with its defaults: its log on disk, synced every 20 ms. Its port is that for frames;
    it serves HTTP, too."""
    path = peer_path()
    if path is None:
        yield _MISSING
        return
    http, tcp, admin = http_port or free_port(), free_port(), free_port()
    command = [path, "--config", "/dev/null", "--http-addr", f"127.0.0.1:{http}"]
    command += ["--tcp-addr", f"127.0.0.1:{tcp}", "--data-dir", os.path.join(folder, "data")]
    environment = {"BEAVA_ADMIN_ADDR": f"127.0.0.1:{admin}"}
    with contextlib.ExitStack() as held:
        try:
            server: Server = held.enter_context(
                process(PEER, command, folder, port=listening(tcp), environment=environment)
            )
            if features is not None:
                made.check_registered(ask(tcp, made.register_frame(features)))
        except DidNotStart as error:
            server = Missing(f"beava did not start: {error}")
        yield server


class Start(Protocol):
    """How a server is started in a folder; features None: those that are in it."""

    def __call__(
        self, folder: str, features: dict[str, made.Feature] | None
    ) -> contextlib.AbstractContextManager[Server]: ...


def ask(port: int, frame: bytes) -> bytes:
    """The payload of the peer's answer to one frame."""
    with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S) as held:
        held.sendall(frame)
        size, _, _ = struct.unpack(">IHB", _exactly(held, made.FRAME_HEAD_BYTES))
        return _exactly(held, size - 3)


def _exactly(held: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = held.recv(size - len(data))
        if not more:
            raise DidNotStart("beava closed the connection")
        data += more
    return data


def first_row(server: Running) -> bytes:
    """The marked row, as soon as it is answered."""
    deadline = time.perf_counter() + _TIMEOUT_S
    while time.perf_counter() < deadline:
        if server.name == PEER:
            return ask(server.port, made.get_frame())
        with socket.create_connection(("127.0.0.1", server.port), timeout=_TIMEOUT_S) as held:
            held.sendall(made.get_request())
            answer = held.recv(65_536)
        if _NOT_READY not in answer:
            return answer
        threading.Event().wait(0.005)
    raise DidNotStart("no row in time")


def kill(server: Running) -> None:
    """End it as a crash does."""
    os.kill(server.pid, signal.SIGKILL)


def push_all(server: Running, batches: Iterable[Sequence[bytes]]) -> None:
    """Push each batch once, when the one before is answered, and return when the last is folded.
    With more of them in flight the peer now and then writes a log that it cannot read again."""
    if server.name != PEER:
        with calls(server.port) as call:
            for batch in batches:
                body = b"[" + b",".join(batch) + b"]"
                call.raw("POST", f"/v0/features/push/{made.EVENT}", body)
    else:
        _push_frames(server.port, batches)
    first_row(server)


def _push_frames(port: int, batches: Iterable[Sequence[bytes]]) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S) as held:
        for batch in batches:
            held.sendall(made.push_frames(batch))
            answers = b""
            while answers.count(_ACKNOWLEDGED) < len(batch):
                if b'"error"' in answers:
                    raise DidNotStart(f"beava refused a push: {answers[:300]!r}")
                # It waits for our acknowledgement of a packet before it sends a shorter one.
                held.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
                answers += held.recv(1 << 20)


def own_pour(batches: list[list[bytes]], seconds: float, connections: int) -> Pour:
    return Pour(
        requests=[made.push_request(batch) for batch in batches],
        connections=connections,
        seconds=seconds,
        mark=b"HTTP/1.1 200",
        marks=1,
        error=b'"error"',
        check=made.get_request(),
        check_end=b"}",
        seen=b'"orders":' + COUNT + b",",
        again=_NOT_READY,
    )


def their_pour(batches: list[list[bytes]], seconds: float, connections: int) -> Pour:
    """A thousand frames in flight on each connection, and twice that."""
    return Pour(
        requests=[made.push_frames(batch) for batch in batches],
        connections=connections,
        seconds=seconds,
        mark=_ACKNOWLEDGED,
        marks=made.BATCH,
        error=b'"error"',
        check=made.get_frame(),
        check_end=b"}",
        seen=b'"orders":' + COUNT + b",",
        again=b"",
        in_flight=2,
    )
