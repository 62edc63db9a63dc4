"""Run a command so that it leaves nothing behind: no process, no mount, no loop device, no file.

    python3 scripts/contain.py COMMAND ARGUMENT …

The command gets a temporary folder of its own (TMPDIR), on a disk. When it ends, or when this
program is interrupted or told to stop, every process that the command started and that still runs
is killed, everything mounted below that folder is unmounted, its loop devices are detached, and the
folder is removed. It is kept only if the command failed by itself, and then its name is printed.

A run that was killed with SIGKILL cannot clean up; the next one does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "ps-run-"  # short: paths of Unix sockets below it may have 107 bytes at most
OWNER = "owner.pid"
GRACE_S = 30.0  # for the command to end by itself after an interrupt
FAREWELL_S = 10.0  # for killed processes to be gone

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_MNT_DETACH = 2
_IS_LINUX = sys.platform.startswith("linux")
_libc = ctypes.CDLL(None, use_errno=True) if _IS_LINUX else None

# Signals that end the run. What arrives is kept here and acted upon by the main loop.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Remembers the first signal that asks for the end."""

    def __init__(self) -> None:
        self.first: int | None = None
        for number in _ENDING:
            signal.signal(number, self._keep)

    def _keep(self, number: int, frame: object) -> None:
        if self.first is None:
            self.first = number


# Processes.


def adopt_orphans() -> None:
    """Processes whose parent ends become children of this one, so that none escapes."""
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _die_with_parent() -> None:
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def children() -> list[int]:
    """Children of this process that have not ended."""
    found = []
    mine = os.getpid()
    for entry in Path("/proc").iterdir() if _IS_LINUX else ():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == mine and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def reap_orphans(command: int) -> None:
    """Adopted processes that have ended are let go at once: tests look whether they are gone."""
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    while (found := os.waitid(os.P_ALL, 0, flags)) is not None and found.si_pid != command:
        os.waitpid(found.si_pid, 0)


def name_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        return text.decode(errors="replace")[:150].strip()
    return "?"


def end_processes() -> list[str]:
    """Kill what is left of the command, down to the last grandchild; the names of those killed."""
    killed = []
    until = time.monotonic() + FAREWELL_S
    while left := children():
        for pid in left:
            killed.append(name_of(pid))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            # A process that the disk keeps waiting dies later; it must not keep us.
            while time.monotonic() < until and os.waitpid(pid, os.WNOHANG)[0] == 0:
                time.sleep(0.01)
        if time.monotonic() >= until:
            break
    return killed


# Mounts and files.


def mounts_below(folder: Path) -> list[str]:
    """Innermost first."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/mounts").read_text().splitlines()
        places = [line.split(" ")[1] for line in lines]
        return sorted((one for one in places if one.startswith(f"{folder}/")), key=len)[::-1]
    return []


def loop_devices_below(folder: Path) -> Iterator[str]:
    for entry in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if entry.read_text().startswith(f"{folder}/"):
                yield f"/dev/{entry.parts[3]}"


def remove(folder: Path) -> None:
    release(folder)
    for path in (folder, *folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            with contextlib.suppress(OSError):
                path.chmod(0o700)  # tests take rights away to see what happens
    shutil.rmtree(folder, ignore_errors=True)


def release(folder: Path) -> None:
    """Nothing is mounted below the folder any more, and no device is made of its files."""
    for place in mounts_below(folder):
        if _libc is not None and _libc.umount2(os.fsencode(place), 0) != 0:
            _libc.umount2(os.fsencode(place), _MNT_DETACH)
    for device in loop_devices_below(folder):
        subprocess.run(["losetup", "--detach", device], check=False)


def temporary_place() -> Path:
    """The system's temporary folder; `.rig` below the current one if that is kept in memory, where
    nothing can be learnt about durability."""
    place = Path(tempfile.gettempdir()).resolve()
    if is_in_memory(place):
        place = Path(".rig").resolve()
        place.mkdir(exist_ok=True)
    return place


def is_in_memory(folder: Path) -> bool:
    best, kind = "", ""
    with contextlib.suppress(OSError):
        for line in Path("/proc/mounts").read_text().splitlines():
            _, place, name, *_ = line.split(" ")
            is_inside = str(folder) == place or str(folder).startswith(place.rstrip("/") + "/")
            if is_inside and len(place) >= len(best):
                best, kind = place, name
    return kind in ("tmpfs", "ramfs")


def remove_abandoned(place: Path) -> None:
    """Remove the folders of runs whose process is gone and that did not fail."""
    for folder in place.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, ValueError):
            if folder.stat().st_uid != os.geteuid():
                continue
            pid = int((folder / OWNER).read_text())
            if not Path(f"/proc/{pid}").exists():
                remove(folder)


# The run.


def run(command: list[str]) -> int:
    """The exit code of the command, or 128 and the signal that ended the run."""
    interrupts = Interrupts()
    adopt_orphans()
    place = temporary_place()
    if _IS_LINUX:
        remove_abandoned(place)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    folder.chmod(0o711)  # PostgreSQL, which does not run as root, passes through it
    (folder / OWNER).write_text(str(os.getpid()))
    code = 1
    try:
        process = subprocess.Popen(
            command,
            env=os.environ | {"TMPDIR": str(folder)},
            start_new_session=True,  # a Ctrl-C reaches it once, through us
            preexec_fn=_die_with_parent,
        )
        code = wait(process, interrupts)
    finally:
        left = end_processes()
        if interrupts.first is not None:
            code = 128 + interrupts.first
        for name in left if interrupts.first is None else ():
            print(f"contain: killed a process that was left behind: {name}", file=sys.stderr)
        if code == 0 or interrupts.first is not None:
            remove(folder)
        else:
            release(folder)
            (folder / OWNER).unlink(missing_ok=True)  # it is kept: nobody removes it but you
            print(f"contain: files of the failed run are in {folder}", file=sys.stderr)
    return code


def wait(process: subprocess.Popen[bytes], interrupts: Interrupts) -> int:
    """Until the command ends; when we are asked to end, it has some time to do so itself."""
    deadline: float | None = None
    while (code := process.poll()) is None:
        if interrupts.first is not None and deadline is None:
            deadline = time.monotonic() + GRACE_S
            process.send_signal(signal.SIGINT)
        if deadline is not None and time.monotonic() > deadline:
            process.kill()
            return process.wait()
        reap_orphans(process.pid)
        time.sleep(0.02)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} COMMAND [ARGUMENT …]")
    sys.exit(run(sys.argv[1:]))
