"""A small process with everything imported, which forks the processes that are to be killed.

A fork costs 3 ms where a fresh interpreter costs 200, and pytest itself, with its threads and
its open files, is no good parent for one.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from tests.support.rig import ROOT

_PIPE_BYTES = 1 << 20
_SILENCE_S = 300.0
_F_SETPIPE_SZ = 1031


class Child:
    """A forked process and what it said."""

    def __init__(self, pid: int, pipe: int, zygote: Zygote) -> None:
        self.pid = pid
        self._pipe = pipe
        self._zygote = zygote
        self._heard = b""

    def wait_for(self, word: str) -> bool:
        """True once the child has said it; false when it ended without."""
        wanted = f'["{word}"'.encode()
        deadline = time.monotonic() + _SILENCE_S
        while wanted not in self._heard:
            ready, _, _ = select.select([self._pipe], [], [], deadline - time.monotonic())
            if not ready:
                raise TimeoutError(f"the child said nothing of {word!r} in {_SILENCE_S} s")
            data = os.read(self._pipe, _PIPE_BYTES)
            if not data:
                return False
            self._heard += data
        return True

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def end(self) -> tuple[int, list[list[Any]]]:
        """Wait for its end: (exit code, negative for a signal; everything it said)."""
        status = self._zygote.reap(self.pid)
        while data := os.read(self._pipe, _PIPE_BYTES):
            self._heard += data
        os.close(self._pipe)
        lines = self._heard.split(b"\n")
        return os.waitstatus_to_exitcode(status), [json.loads(line) for line in lines if line]


class Zygote:
    """Start and stop the forking process. A context manager. `modules` have roles of their own:
    the role is the name of the module, and its `run` does it."""

    def __init__(self, *modules: str) -> None:
        self._modules = modules

    def __enter__(self) -> Zygote:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.support.zygote",
                    str(theirs.fileno()),
                    *self._modules,
                ],
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._control.close()
        self._process.wait()

    def spawn(self, role: str, order: dict[str, Any], *fds: int) -> Child:
        """Fork a process that does `role` as `order` says. It gets a pipe, then `fds`."""
        ours, theirs = os.pipe()
        with contextlib.suppress(OSError):  # a bound on pipes: the child may then have to wait
            fcntl.fcntl(ours, _F_SETPIPE_SZ, _PIPE_BYTES)
        text = json.dumps({"role": role, **order}).encode()
        socket.send_fds(self._control, [text], [theirs, *fds])
        os.close(theirs)
        return Child(self._answer(), ours, self)

    def reap(self, pid: int) -> int:
        self._control.send(json.dumps({"reap": pid}).encode())
        return self._answer()

    def _answer(self) -> int:
        data = self._control.recv(64)
        if not data:
            raise ConnectionError("the forking process is gone")
        return int(data)


Role = Callable[[dict[str, Any], list[int]], None]


def _serve(control: socket.socket, roles: dict[str, Role]) -> None:
    while True:
        data, fds, _, _ = socket.recv_fds(control, 1 << 16, 8)
        if not data:
            return
        order = json.loads(data)
        if "reap" in order:
            control.send(str(os.waitpid(order["reap"], 0)[1]).encode())
            continue
        pid = os.fork()
        if pid == 0:
            control.close()
            code = 4
            try:
                roles[order["role"]](order, fds)
                code = 0
            except BaseException:  # noqa: BLE001 - a forked child must not go on in our loop
                traceback.print_exc()
            os._exit(code)
        for fd in fds:
            os.close(fd)
        control.send(str(pid).encode())


def _main() -> None:
    from tests.support import reference, writers

    roles: dict[str, Role] = {"write": writers.run, "reference": reference.run}
    roles |= {name: importlib.import_module(name).run for name in sys.argv[2:]}
    gc.collect()
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])), roles)


if __name__ == "__main__":
    _main()
