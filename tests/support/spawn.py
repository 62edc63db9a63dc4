"""Processes of the command line, forked from a process that has everything imported.

A fresh interpreter that imports Penstock costs half a second of a core, and the tests start such
processes by the thousand; a fork costs a few milliseconds. `spawn` takes what `subprocess.Popen`
takes and gives a process of the same shape. It runs `penstock.cli.main` as `python -m` does, to the
interpreter's own end. A process whose environment changes the interpreter itself (PYTHONHASHSEED,
LC_ALL, …) is started afresh by `subprocess` instead.

`python -m tests.support.spawn FD` is the forking process: one for each process of pytest. When
pytest ends, whatever it forked is killed.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import functools
import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Union

ROOT = Path(__file__).resolve().parents[2]
MODULE = "penstock.cli.main"
PRELOADED = (
    "uvloop",
    "penstock.server.app",
    *(f"penstock.cli.{verb}" for verb in ("append", "read", "tail", "delete", "queue", "topics")),
    *(f"penstock.cli.{verb}" for verb in ("create", "drop", "router", "spool", "wal", "fsck")),
    *(f"penstock.cli.{verb}" for verb in ("serve", "key", "repair", "compact", "cold", "demo")),
    "rich.console",
    "rich.table",
)
# Variables that the interpreter reads at its start, before any code of ours could set them.
_OF_THE_INTERPRETER = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "PENSTOCK_PURE")
_SOURCE = str(ROOT / "src")
_STATUS = struct.Struct("<i")

Stream = int | IO[Any] | None
Running = Union["Process", subprocess.Popen[Any]]


def needs_a_fresh_interpreter(env: Mapping[str, str]) -> bool:
    """Does the environment differ from ours in something that a fork has fixed already?"""
    names = {name for name in (*env, *os.environ) if name.startswith(_OF_THE_INTERPRETER)}
    names -= {"PYTHONPATH", "PYTHONUNBUFFERED"}  # seen to here
    if env.get("PYTHONPATH", _SOURCE) not in (_SOURCE, os.environ.get("PYTHONPATH")):
        return True  # a folder of a test, with a sitecustomize of its own
    return any(env.get(name) != os.environ.get(name) for name in names)


def spawn(
    words: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | str | None = None,
    stdin: Stream = None,
    stdout: Stream = None,
    stderr: Stream = None,
    text: bool = False,
    module: str = MODULE,
) -> Running:
    """Start `penstock WORDS`. The streams are as for `subprocess.Popen`."""
    if module != MODULE or needs_a_fresh_interpreter(env):
        return subprocess.Popen(
            [sys.executable, "-m", module, *words],
            env=env,
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=text,
        )
    return Process(_forker(), words, env, cwd or os.getcwd(), (stdin, stdout, stderr), text)


def run(
    words: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | str | None = None,
    stdin: str = "",
    timeout: float,
) -> subprocess.CompletedProcess[str]:
    """Run `penstock WORDS` to its end."""
    pipe = subprocess.PIPE
    with spawn(words, env=env, cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            out, err = process.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return subprocess.CompletedProcess(list(words), process.wait(timeout), out, err)


class Process:
    """A forked process, with the methods of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        forker: Forker,
        words: Sequence[str],
        env: Mapping[str, str],
        cwd: Path | str,
        streams: tuple[Stream, Stream, Stream],
        text: bool,
    ) -> None:
        self.args = list(words)
        self.returncode: int | None = None
        self._lock = threading.Lock()  # guards returncode and the end of the status pipe
        theirs: list[int] = []
        ours: list[IO[Any] | None] = []
        made: list[int] = []
        for number, stream in enumerate(streams):
            fd, file = _open(stream, number, text, theirs, made)
            theirs.append(fd)
            ours.append(file)
        self.stdin, self.stdout, self.stderr = ours
        self._status, told = os.pipe()
        made.append(told)
        order = {"args": self.args, "env": dict(env), "cwd": str(cwd)}
        self.pid = forker.fork(order, [*theirs, told])
        for fd in made:
            os.close(fd)

    def poll(self) -> int | None:
        with self._lock:
            if self.returncode is None and _is_readable(self._status, 0):
                self._read_status()
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        until = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            left = None if until is None else max(until - time.monotonic(), 0)
            if not _is_readable(self._status, left):
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.poll()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        """Write all, read all, and wait for the end."""
        found: dict[int, Any] = {}

        def write() -> None:
            if self.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    self.stdin.write(
                        input or ("" if isinstance(self.stdin, io.TextIOBase) else b"")
                    )
                with contextlib.suppress(BrokenPipeError):
                    self.stdin.close()

        def read(number: int, stream: IO[Any] | None) -> None:
            if stream is not None:
                found[number] = stream.read()

        jobs = [
            threading.Thread(target=write, daemon=True),
            threading.Thread(target=read, args=(1, self.stdout), daemon=True),
            threading.Thread(target=read, args=(2, self.stderr), daemon=True),
        ]
        for job in jobs:
            job.start()
        until = None if timeout is None else time.monotonic() + timeout
        for job in jobs:
            job.join(None if until is None else max(until - time.monotonic(), 0))
            if job.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(None if until is None else max(until - time.monotonic(), 0.001))
        return found.get(1), found.get(2)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self.wait()

    def _read_status(self) -> None:
        data = os.read(self._status, _STATUS.size)
        os.close(self._status)
        if len(data) < _STATUS.size:
            raise ConnectionError("the forking process is gone")
        self.returncode = _STATUS.unpack(data)[0]


def _is_readable(fd: int, timeout_s: float | None) -> bool:
    """By `poll`: `select` refuses the high numbers of a test that holds a thousand sockets."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))


def _open(
    stream: Stream, number: int, text: bool, theirs: list[int], made: list[int]
) -> tuple[int, IO[Any] | None]:
    """The descriptor that the process gets, and our end of it if there is one."""
    if stream is None:
        return number, None
    if stream == subprocess.PIPE:
        reading, writing = os.pipe()
        fd, kept = (reading, writing) if number == 0 else (writing, reading)
        made.append(fd)
        return fd, open(kept, ("w" if number == 0 else "r") + ("" if text else "b"))
    if stream == subprocess.DEVNULL:
        fd = os.open(os.devnull, os.O_RDWR)
        made.append(fd)
        return fd, None
    if stream == subprocess.STDOUT:
        return theirs[1], None
    return (stream if isinstance(stream, int) else stream.fileno()), None


class Forker:
    """This process's end of the forking process. Safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.spawn", str(theirs.fileno())],
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
                env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # a Ctrl-C is for pytest
            )

    def fork(self, order: dict[str, Any], fds: list[int]) -> int:
        data = json.dumps(order).encode()
        with self._lock:
            packed = array.array("i", fds)
            self._control.sendmsg(
                [struct.pack("<I", len(data))],
                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, packed)],
            )
            self._control.sendall(data)
            answer = self._control.recv(_STATUS.size, socket.MSG_WAITALL)
        if len(answer) < _STATUS.size:
            raise ConnectionError("the forking process is gone")
        return int(_STATUS.unpack(answer)[0])

    def close(self) -> None:
        self._control.close()
        self._process.wait()


@functools.cache
def _forker() -> Forker:
    forker = Forker()
    atexit.register(forker.close)
    return forker


# The forking process.


class _Nursery:
    """Takes orders, forks, and tells each child's exit code over the pipe that came with it."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._told: dict[int, int] = {}  # pid -> the descriptor that waits for its exit code
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._woken, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)

    def take_orders(self) -> Callable[[], None] | None:
        """Until the orders end: None. In a forked child: what it has to do."""
        while True:
            ready, _, _ = select.select([self._control, self._woken], [], [])
            if self._woken in ready:
                self._reap()
            if self._control in ready:
                head, fds, _, _ = socket.recv_fds(self._control, 4, 4)
                if len(head) < 4:
                    return None
                size = struct.unpack("<I", head)[0]
                order = json.loads(self._control.recv(size, socket.MSG_WAITALL))
                child = self._fork(order, fds)
                if child is not None:
                    return child

    def _fork(self, order: dict[str, Any], fds: list[int]) -> Callable[[], None] | None:
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return lambda: _become(order, fds[:3])
        *streams, self._told[pid] = fds
        for fd in streams:
            os.close(fd)
        self._control.sendall(_STATUS.pack(pid))
        return None

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 4096)
        for pid, told in list(self._told.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                del self._told[pid]
                with contextlib.suppress(BrokenPipeError):
                    os.write(told, _STATUS.pack(os.waitstatus_to_exitcode(status)))
                os.close(told)

    def kill_all(self) -> None:
        for pid in self._told:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in self._told:
            os.waitpid(pid, 0)


def _become(order: dict[str, Any], fds: list[int]) -> None:
    """The streams, environment and folder of a process that was started for this order."""
    kept = [os.dup(fd) for fd in fds]  # a stream may have the number of another
    for number, fd in enumerate(kept):
        os.dup2(fd, number)
    os.closerange(3, 1 << 16)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    for number, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        stream = _stream(number, getattr(sys, f"__{name}__"))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.argv = ["penstock", *order["args"]]
    importlib.import_module(MODULE).main()


def _stream(number: int, old: io.TextIOWrapper) -> io.TextIOWrapper:
    """As the interpreter makes them: unbuffered if the environment says so."""
    is_unbuffered = number > 0 and bool(os.environ.get("PYTHONUNBUFFERED"))
    mode = "rb" if number == 0 else "wb"
    return io.TextIOWrapper(
        open(number, mode, buffering=0 if is_unbuffered else -1, closefd=False),
        encoding=old.encoding,
        errors=old.errors,
        line_buffering=number == 2 or os.isatty(number),
        write_through=is_unbuffered,
    )


def preload() -> None:
    """Import what a command imports, also what it imports when it first runs."""
    for name in PRELOADED:
        importlib.import_module(name)
    with open(os.devnull, "w") as nothing, contextlib.redirect_stderr(nothing):
        importlib.import_module(MODULE).run(["topics", "--data-dir", os.devnull])
    gc.collect()
    gc.freeze()


def _main() -> None:
    preload()
    nursery = _Nursery(socket.socket(fileno=int(sys.argv[1])))
    child = nursery.take_orders()
    if child is None:
        nursery.kill_all()
        return
    # From here on this is the child. It ends in the order in which an interpreter ends, but without
    # freeing all it has imported, object by object.
    code: object = 0
    try:
        child()
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 - shown as a fresh interpreter would show it
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    _main()
