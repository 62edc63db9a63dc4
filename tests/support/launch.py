"""Servers to be hurt, forked from a process that has everything imported.

`python -m tests.support.launch` takes orders as lines of JSON and answers each with a number. The
forked process runs the command line as a fresh one would, with bounds on it when the environment
says so (RIG_NOFILE, RIG_ADDRESS_SPACE), or with one of its promises broken (RIG_MUTANT). When the
orders end, nothing is left running.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
import traceback
from typing import Any

from penstock.cli.main import main
from tests.support import server_mutants, spawn

_RUNNING = -1000  # the answer for a process that has not ended


def _bound(kind: int, name: str) -> None:
    text = os.environ.get(name)
    if text:
        resource.setrlimit(kind, (int(text), int(text)))


def _become(order: dict[str, Any]) -> None:
    """Never returns. The child has its own files, environment and bounds."""
    code = 4
    try:
        output = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        os.close(nothing)
        os.environ.clear()
        os.environ.update(order["env"])
        os.chdir(order["cwd"])
        server_mutants.apply(os.environ.get("RIG_MUTANT"))
        _bound(resource.RLIMIT_NOFILE, "RIG_NOFILE")
        _bound(resource.RLIMIT_AS, "RIG_ADDRESS_SPACE")
        sys.argv = ["penstock", *order["args"]]
        main()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    except BaseException:  # noqa: BLE001 - a forked child must not go on in our loop
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)


def _ended(pid: int, flags: int) -> int:
    done, status = os.waitpid(pid, flags)
    return os.waitstatus_to_exitcode(status) if done else _RUNNING


def _take_orders() -> None:
    children: set[int] = set()
    for line in sys.stdin:
        order = json.loads(line)
        answer = 0
        match order["do"]:
            case "spawn":
                answer = os.fork()
                if answer == 0:
                    _become(order)
                children.add(answer)
            case "wait":
                answer = _ended(order["pid"], 0)
            case "poll":
                answer = _ended(order["pid"], os.WNOHANG)
        if order["do"] != "spawn" and answer != _RUNNING:
            children.discard(order["pid"])
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    spawn.preload()
    _take_orders()
