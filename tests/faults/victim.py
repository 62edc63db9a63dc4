"""A real server in a process of its own that is there to be hurt."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tests.support.rig import ROOT

Address = tuple[str, int]
T = TypeVar("T")

DEADLINE_S = 300.0  # far above any pause of a busy machine: only what hangs takes so long
_RUNNING = -1000


def eventually(probe: Callable[[], T], what: str, deadline_s: float = DEADLINE_S) -> T:
    """Ask until the answer is true."""
    until = time.monotonic() + deadline_s
    pause = threading.Event()
    while not (found := probe()):
        if time.monotonic() > until:
            raise AssertionError(f"not within {deadline_s:.0f} s: {what}")
        pause.wait(0.005)
    return found


class Launcher:
    """The process that forks servers; see `tests.support.launch`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.launch"],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, do: str, **order: Any) -> int:
        pipe, answers = self._process.stdin, self._process.stdout
        if pipe is None or answers is None:
            raise AssertionError("no pipes")
        pipe.write(json.dumps({"do": do, **order}) + "\n")
        pipe.flush()
        return int(answers.readline())

    def close(self) -> None:
        """What still runs is killed."""
        self._process.communicate()


class Victim:
    """One data directory and the servers that live and die on it. A context manager."""

    def __init__(
        self,
        home: Path,
        *,
        data_dir: Path | None = None,
        mutant: str | None = None,
        nofile: int = 0,
        address_space: int = 0,
        env: Mapping[str, object] | None = None,
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.data_dir = data_dir or home / "data"
        self.env = {name: v for name, v in os.environ.items() if not name.startswith("PENSTOCK_")}
        self.env |= {
            "NO_COLOR": "1",
            "RIG_MUTANT": mutant or "",
            "RIG_NOFILE": str(nofile or ""),
            "RIG_ADDRESS_SPACE": str(address_space or ""),
            "PENSTOCK_PORT": "0",
        }
        self.configure(env or {})
        self.lives = 0
        self._launcher = Launcher()
        self._pid = 0
        self._code: int | None = None
        self._port_file = home / "port"
        self._log = home / "server.log"

    def configure(self, env: Mapping[str, object]) -> None:
        """For the next start."""
        self.env |= {name: str(value) for name, value in env.items()}

    # Life.

    def spawn(self) -> None:
        """Start, and wait for nothing."""
        self.lives += 1
        # A name of its own for every life: a port of an earlier one must not be taken for ours.
        self._port_file = self.home / f"port-{self.lives}"
        self._code = None
        self._pid = self._launcher.ask(
            "spawn",
            args=["serve", str(self.data_dir)],
            env=self.env | {"PENSTOCK_PORT_FILE": str(self._port_file)},
            cwd=str(self.home),
            log=str(self._log),
        )

    def start(self) -> Victim:
        """Start, and wait until it listens and has recovered."""
        self.spawn()
        eventually(self.is_ready, "readiness")
        return self

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to stop; its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        code = self.exit_code
        if code is None:
            os.kill(self.pid, how)
            code = self._launcher.ask("wait", pid=self.pid)
        self._pid = 0
        self._port_file.unlink(missing_ok=True)
        return code

    def __enter__(self) -> Victim:
        return self

    def __exit__(self, *_: object) -> None:
        self._launcher.close()

    # What it is.

    def has_address(self) -> bool:
        """Does it listen? Fails when it has ended instead."""
        if (code := self.exit_code) is not None:
            raise AssertionError(f"ended with {code}\n{self.said()}")
        return self._port_file.exists()

    def is_ready(self) -> bool:
        """Does it listen, and has it recovered? Fails when it has ended instead."""
        if not self.has_address():
            return False
        asked = http.client.HTTPConnection(*self.address, timeout=DEADLINE_S)
        try:
            asked.request("GET", "/v0/ready")
            return asked.getresponse().status == 200
        except OSError:
            return False
        finally:
            asked.close()

    def find_address(self) -> Address | None:
        """Where it listens, if it does."""
        try:
            host, _, port = self._port_file.read_text().rpartition(":")
        except FileNotFoundError:
            return None
        return host, int(port)

    @property
    def address(self) -> Address:
        found = self.find_address()
        if found is None:
            raise AssertionError("it does not listen")
        return found

    @property
    def pid(self) -> int:
        if not self._pid:
            raise AssertionError("it does not run")
        return self._pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        if self._code is None:
            code = self._launcher.ask("poll", pid=self.pid)
            self._code = None if code == _RUNNING else code
        return self._code

    def anonymous_bytes(self) -> int:
        """Memory in use that is its own: mapped files belong to the page cache."""
        return self._memory("RssAnon")

    def virtual_bytes(self) -> int:
        """All addresses that are taken; what RLIMIT_AS bounds."""
        return self._memory("VmSize")

    def _memory(self, name: str) -> int:
        text = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        fields = dict(line.split(":", 1) for line in text.splitlines())
        return int(fields[name].split()[0]) * 1024

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_s(self) -> float:
        """Time on a processor so far."""
        text = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii")
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def said(self) -> str:
        """The end of what all lives wrote."""
        if not self._log.exists():
            return ""
        return self._log.read_bytes()[-4000:].decode(errors="replace")
