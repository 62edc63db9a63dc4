"""R3: killed before any one of its system calls, a log holds the state before or after the step.

strace counts the calls and kills at the nth of a kind. It is attached after the imports, so what
it counts is the log's work alone.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import penstock
from tests.support import reference, requirements, rig
from tests.support.zygote import Zygote

CALLS = (
    "write,pwrite64,fdatasync,fsync,rename,renameat,renameat2,unlink,unlinkat,"
    "ftruncate,fallocate,mkdir,rmdir"
)
LANES = 4
STRIDE = 1 if rig.IS_FULL else 5  # at the short size every fifth call of the run


class Rig:
    """Runs the reference work under strace, one forked process at a time. One per thread."""

    def __init__(self, home: Path, zygote: Zygote) -> None:
        self._home = home
        self._zygote = zygote
        self._runs = 0

    def count(self) -> Counter[str]:
        """How often each call is made when nobody interferes."""
        trace = self._home / "trace.txt"
        directory, done = self._run("-o", str(trace))
        if done != len(reference.STEPS):
            raise AssertionError(f"the reference work ended after step {done}")
        shutil.rmtree(directory)
        return Counter(re.findall(r"^(\w+)\(", trace.read_text(), re.MULTILINE))

    def kill_at(self, call: str, nth: int) -> str:
        """What is wrong with the log after that kill; empty if nothing is."""
        directory, done = self._run(
            "-o", "/dev/null", "-e", f"inject={call}:signal=KILL:when={nth}"
        )
        if done == len(reference.STEPS):
            return f"{call} {nth}: the process was not killed"
        try:
            wrong = _judge(directory, done)
        except (penstock.PenstockError, AssertionError) as error:
            wrong = f"{error!r}"
        if wrong:
            step = reference.STEPS[done]
            return f"{call} {nth}, in step {done} {str(step)[:60]}, {directory}: {wrong}"
        shutil.rmtree(directory)
        return ""

    def _run(self, *options: str) -> tuple[Path, int]:
        """(the log's directory, how many steps were completed)"""
        self._runs += 1
        directory = self._home / f"log-{self._runs}"
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                child = self._zygote.spawn("reference", {"path": str(directory)}, theirs.fileno())
            command = ["strace", "-p", str(child.pid), "-e", f"trace={CALLS}", *options]
            strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            attached = strace.stderr.readline() if strace.stderr else ""
            if "attached" not in attached:
                child.kill()
                raise RuntimeError(f"strace did not attach: {attached}")
            ours.send(b"!")
            steps = 0
            while data := ours.recv(256):
                steps += len(data)
            strace.communicate()
            child.end()
        return directory, steps


def _judge(directory: Path, done: int) -> str:
    states = reference.states()
    with penstock.open(directory, settings=reference.SETTINGS) as log:
        if log.damage:
            return f"damage: {log.damage}"
        found = reference.observe(log)
        if found not in (states[done], states[done + 1]):
            return f"found {_short(found)}, expected {_short(states[done])} or the next"
        for name, topic in found.items():  # and it goes on from there
            added = log.append(name, ["more"])
            if added.first_seq != topic.head + 1:
                return f"{name} goes on with seq {added.first_seq} after {topic.head}"
    return ""


def _short(state: reference.State) -> str:
    return str({name: (t.cap, t.head, [r[0] for r in t.records]) for name, t in state.items()})


def test_kill_before_every_syscall_leaves_a_whole_state(tmp_path: Path, report: rig.Report) -> None:
    requirements.debian_program("strace")
    home = rig.on_disk(tmp_path, "syscalls")
    started = time.monotonic()

    with Zygote() as first:
        (home / "count").mkdir()
        counts = Rig(home / "count", first).count()
    points = [(call, nth) for call in sorted(counts) for nth in range(1, counts[call] + 1)]
    points = points[rig.new_seed() % STRIDE :: STRIDE]

    def kill_some(lane: int) -> list[str]:
        directory = home / str(lane)
        directory.mkdir()
        with Zygote() as zygote:
            killer = Rig(directory, zygote)
            return [wrong for point in points[lane::LANES] if (wrong := killer.kill_at(*point))]

    with ThreadPoolExecutor(LANES) as pool:
        violations = [text for found in pool.map(kill_some, range(LANES)) for text in found]

    calls = ", ".join(f"{counts[call]} {call}" for call in sorted(counts))
    report(
        f"R3 kill at syscalls: {len(points)} of {sum(counts.values())} points ({calls}), "
        f"{len(violations)} violations, "
        f"{time.monotonic() - started:.0f} s"
    )
    assert not violations, "\n".join(violations)
