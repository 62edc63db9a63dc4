"""A real `penstock serve` in a process of its own: start, wait, stop, kill, and what it said.

The server gets a free port from the system and tells it through its port file. What it writes to
stderr is drained by a thread, since a full pipe would stop it.
"""

from __future__ import annotations

import collections
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import penstock
from tests.support import spawn
from tests.support.spawn import Running

# For whatever must happen: no test may fail because a machine is slow. It is far above what a busy
# machine takes, and far below pytest's own limit.
DEADLINE_S = 120.0
MANY_SYNCS_S = 4 * DEADLINE_S  # for a hundred of them, a second each
LOG_LINES_MAX = 400
# A client of a test may be paused at any moment, so its server does not hurry it. A test of a
# deadline sets that one itself.
PATIENT = {
    "PENSTOCK_HEADER_TIMEOUT_MS": "300000",
    "PENSTOCK_BODY_TIMEOUT_MS": "300000",
    "PENSTOCK_BODY_MIN_RATE": "0",
    "PENSTOCK_IDLE_TIMEOUT_MS": "600000",
    "PENSTOCK_STREAM_STALL_MS": "300000",
}

T = TypeVar("T")
Address = tuple[str, int]

RUNNING: list[Server] = []  # for the report of a failed test


class Failed(Exception):
    """The server did not do what it was started for; the message ends with what it said."""


def eventually(probe: Callable[[], T], what: str, deadline_s: float = DEADLINE_S) -> T:
    """Ask until the answer is true; for what happens in another process."""
    until = time.monotonic() + deadline_s
    pause = threading.Event()
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        pause.wait(0.01)


class Server:
    """One server process on one data directory; `start` may be called again after a stop."""

    def __init__(
        self,
        home: Path,
        env: Mapping[str, str] | None = None,
        *,
        args: Sequence[str] = (),
        module: str = spawn.MODULE,
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.data_dir = home / "data"
        self.port_file = home / "port"
        self.args = tuple(args)
        self.module = module  # what is run as a program
        self.env = _environment() | PATIENT
        self.env |= {
            "PENSTOCK_HOST": "127.0.0.1",
            "PENSTOCK_PORT": "0",
            "PENSTOCK_PORT_FILE": str(self.port_file),
            "PENSTOCK_DATA_DIR": str(self.data_dir),
        }
        self.env |= env or {}
        self._process: Running | None = None
        self._said: collections.deque[bytes] = collections.deque(maxlen=LOG_LINES_MAX)
        self._drain: threading.Thread | None = None

    # Life.

    def start(self, *, until: str = "ready") -> Server:
        """Start, and wait until "ready", until "bound" (the port file is there), or not at all."""
        if self._process is not None:
            raise AssertionError("already started")
        self.port_file.unlink(missing_ok=True)
        self._process = spawn.spawn(
            ["serve", *self.args],
            module=self.module,
            env=self.env,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._drain = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
        self._drain.start()
        RUNNING.append(self)
        if until in ("bound", "ready"):
            self._wait_for(self.port_file.exists, "a port file")
        if until == "ready":
            self._wait_for(self._is_ready, "readiness")
        return self

    def terminate(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to stop, and do not wait."""
        self._alive().send_signal(how)

    def stop(self, deadline_s: float = DEADLINE_S) -> int:
        """Ask it to stop and wait; its exit code."""
        self.terminate()
        return self.wait(deadline_s)

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self._alive().kill()
        self.wait()

    def wait(self, deadline_s: float = DEADLINE_S) -> int:
        """Wait for its end; its exit code."""
        process = self._alive()
        try:
            code = process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise Failed(f"still running after {deadline_s} s\n{self.said()}") from None
        self._gone()
        return code

    def close(self) -> None:
        """For the end of a test, in whatever state it left the server."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._gone()

    # What it is.

    @property
    def address(self) -> Address:
        host, _, port = self.port_file.read_text().strip().rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def pid(self) -> int:
        return self._alive().pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def said(self) -> str:
        """The last lines it wrote."""
        return b"".join(list(self._said)).decode(errors="replace")

    # Inside.

    def _alive(self) -> Running:
        if self._process is None:
            raise AssertionError("not started")
        return self._process

    def _listen(self, process: Running) -> None:
        if process.stdout is None:
            raise AssertionError("no pipe")
        for line in process.stdout:
            self._said.append(line)

    def _gone(self) -> None:
        process, self._process = self._alive(), None
        if self._drain is not None:
            self._drain.join(DEADLINE_S)
        if process.stdout is not None:
            process.stdout.close()
        RUNNING.remove(self)

    def _wait_for(self, probe: Callable[[], bool], what: str) -> None:
        def done() -> bool:
            code = self._alive().poll()
            if code is not None:
                self._gone()
                raise Failed(f"ended with {code} before {what}\n{self.said()}")
            return probe()

        try:
            eventually(done, what)
        except AssertionError as error:
            raise Failed(f"{error}\n{self.said()}") from None

    def _is_ready(self) -> bool:
        """A bare exchange, so that this file needs no client. A server whose probes need a key
        answers 401, and it does so only when it is up."""
        request = b"GET /v0/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        try:
            with socket.create_connection(self.connect_to, timeout=DEADLINE_S) as wire:
                wire.sendall(request)
                answer = wire.recv(64)
        except OSError:
            return False
        return answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 401"))

    @property
    def connect_to(self) -> Address:
        """The address to connect to: a wildcard is reached over loopback."""
        host, port = self.address
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port


def _environment() -> dict[str, str]:
    """This one's, without settings that somebody may have for servers of their own."""
    clean = {name: v for name, v in os.environ.items() if not name.startswith("PENSTOCK_")}
    return clean | {
        "PYTHONPATH": str(Path(penstock.__file__).parents[1]),
        "PYTHONUNBUFFERED": "1",
        "NO_COLOR": "1",
    }
