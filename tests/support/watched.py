"""A command that runs in an empty directory with a temporary folder of its own.

For the tests of scratch files: `penstock bench`, `penstock demo` and `python -m benchmarks`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from tests.integration.test_cli_main import Cli

ROOT = Path(__file__).resolve().parents[2]
PENSTOCK = "penstock.cli.main"
BENCHMARKS = "benchmarks"

_EVENT = struct.Struct("iIII")  # of inotify
_CREATE, _MOVED = 0x100, 0x80


class Arrivals:
    """The names that come up in some folders, however soon they are gone: where the kernel tells
    of them, which is Linux, nobody has to look at the right moment."""

    def __init__(self, *folders: Path) -> None:
        self._names: dict[Path, set[str]] = {folder: set() for folder in folders}
        self._folders: dict[int, Path] = {}
        self._told = -1
        if sys.platform == "linux":
            libc = ctypes.CDLL(None, use_errno=True)
            self._told = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            for folder in folders:
                number = libc.inotify_add_watch(self._told, os.fsencode(folder), _CREATE | _MOVED)
                if number < 0:
                    raise OSError(ctypes.get_errno(), "inotify_add_watch")
                self._folders[number] = folder

    def of(self, folder: Path) -> set[str]:
        """The names so far."""
        with contextlib.suppress(BlockingIOError):
            while self._told >= 0:
                self._take(os.read(self._told, 1 << 16))
        return self._names[folder]

    def _take(self, data: bytes) -> None:
        while data:
            number, _, _, size = _EVENT.unpack_from(data)
            name = data[_EVENT.size : _EVENT.size + size].rstrip(b"\0")
            if number in self._folders:  # else the kernel says that it forgot some
                self._names[self._folders[number]].add(os.fsdecode(name))
            data = data[_EVENT.size + size :]

    def close(self) -> None:
        if self._told >= 0:
            os.close(self._told)


class Watched:
    """The command, in a session of its own. Lists both directories while the command runs."""

    def __init__(
        self, home: Path, *words: object, module: str = PENSTOCK, first_path: Path | None = None
    ) -> None:
        self.current, self.temporary = home / "current", home / "temporary"
        self.current.mkdir()
        self.temporary.mkdir()
        self.seen: set[str] = set()
        self.strayed: set[str] = set()
        cli = Cli(home / "data")
        places = [str(first_path)] if first_path is not None else []
        paths = os.pathsep.join([*places, str(ROOT), cli.env["PYTHONPATH"]])
        self._arrivals = Arrivals(self.current, self.temporary)
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, words)],
            cwd=self.current,
            env=cli.env | {"TMPDIR": str(self.temporary), "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # A shell that put the tests into the background has told them not to hear it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def __enter__(self) -> Watched:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)
        self.process.communicate()
        self._arrivals.close()

    def runs_on(self) -> bool:
        """Look, and wait a moment."""
        self.strayed.update(os.listdir(self.current), self._arrivals.of(self.current))
        self.seen.update(os.listdir(self.temporary), self._arrivals.of(self.temporary))
        try:
            self.process.wait(0.02)
        except subprocess.TimeoutExpired:
            return True
        return False

    def ends(self) -> int:
        while self.runs_on():
            pass
        self.runs_on()
        return self.process.returncode

    def pids(self) -> list[int]:
        """Of the command and of what it started."""
        ours = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, _, _, session, *_ = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended meanwhile
            if int(session) == self.process.pid and state != "Z":
                ours.append(int(path.parent.name))
        return ours

    def left(self) -> list[Path]:
        return [*self.current.iterdir(), *self.temporary.iterdir()]
