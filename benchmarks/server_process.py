"""Starts a server, waits until it answers, and stops it."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

_START_TIMEOUT_S = 20
_STOP_TIMEOUT_S = 15
_POLL_S = 0.02


class Missing(msgspec.Struct, frozen=True):
    """A server that cannot be measured, with the reason."""

    reason: str


class Running(msgspec.Struct, frozen=True):
    """A server that answers. DIR and PORT replace the folder and the port in its command line."""

    name: str
    command: str
    port: int
    pid: int


Server = Running | Missing


class DidNotStart(Exception):
    """The server ended or did not listen in time; with the last line of its output."""


@contextlib.contextmanager
def process(
    name: str,
    command: Sequence[str],
    folder: str,
    *,
    port: Callable[[], int | None],
    environment: Mapping[str, str] | None = None,
) -> Iterator[Running]:
    """Run a server in its folder. `port` returns None until the server is ready."""
    log = os.path.join(folder, "output.txt")
    with open(log, "wb") as output:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        found = _wait(child, port, log)
        shown = shlex.join(command).replace(folder, "DIR").replace(str(found), "PORT")
        yield Running(name, shown, found, child.pid)
    finally:
        _stop(child)


def _wait(child: subprocess.Popen[bytes], port: Callable[[], int | None], log: str) -> int:
    deadline = time.perf_counter() + _START_TIMEOUT_S
    while time.perf_counter() < deadline and child.poll() is None:
        found = port()
        if found is not None:
            return found
        pause()
    with open(log, encoding="utf-8", errors="replace") as output:
        last = output.read().strip().splitlines()[-1:]
    raise DidNotStart("".join(last) or "no output")


def _stop(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        child.send_signal(signal.SIGTERM)
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_STOP_TIMEOUT_S)
    finally:  # also after a second Ctrl-C: its folder is removed next
        if child.poll() is None:
            child.kill()
            child.wait()


def pause() -> None:
    threading.Event().wait(_POLL_S)


def free_port() -> int:
    """A port that no process listens on at the moment."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def listening(port: int) -> Callable[[], int | None]:
    """The port, once it accepts connections."""

    def ask() -> int | None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return None
        return port

    return ask
