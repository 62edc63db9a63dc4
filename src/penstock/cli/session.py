"""Opening a log for the length of one command."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import typer

from penstock.cli import output
from penstock.cli.exits import ExitCode
from penstock.clock import SystemClock
from penstock.engine import layout
from penstock.engine.engine import Log, open_log
from penstock.engine.opening import take_lock
from penstock.errors import DirectoryInUse, InvalidArgument
from penstock.storage.fs import OsFilesystem

LOCK_WAIT_S = 0.5  # another command holds a directory for milliseconds: worth a moment
_LOCK_STEP_S = 0.05


def root_of(data_dir: Path) -> str:
    """The directory's absolute path. Refuses one that holds no log: looking creates nothing."""
    root = os.path.abspath(data_dir)
    layout.require(OsFilesystem(), root)
    return root


def open_existing(data_dir: Path, *, background: bool = False, wait_s: float = LOCK_WAIT_S) -> Log:
    """The log in a directory that has one."""
    return _open(root_of(data_dir), background=background, wait_s=wait_s)


def open_or_make(data_dir: Path) -> Log:
    """The log in a directory, made when there is none."""
    return _open(os.path.abspath(data_dir), background=True, wait_s=LOCK_WAIT_S)


def _open(root: str, *, background: bool, wait_s: float) -> Log:
    deadline = SystemClock().monotonic() + wait_s
    with output.progress("Opening") as step:
        while True:
            try:
                log = open_log(root, background=background, progress=step)
            except DirectoryInUse:
                if SystemClock().monotonic() >= deadline:
                    raise
                pause(_LOCK_STEP_S)
            else:
                break
    for damage in {(one.path, one.offset): one for one in reversed(log.damage)}.values():
        output.note(f"damaged: {damage}")
    return log


def end_reading(log: Log) -> None:
    """What could be read was printed. If that may not be all, the exit code says so."""
    if log.stats().is_read_only:
        output.flush()
        raise typer.Exit(ExitCode.DAMAGE)


def pause(seconds: float) -> None:
    """Do nothing for a while; Ctrl-C ends it."""
    threading.Event().wait(seconds)


def holder_of(root: str) -> int | None:
    """The process that has this directory open: its pid, 0 when unknown, None when nobody."""
    try:
        take_lock(OsFilesystem(), root).release()
    except DirectoryInUse as busy:
        return busy.pid or 0
    except OSError:  # a read-only disk: nobody writes there
        return None
    return None


def confirm(what: str, *, yes: bool) -> None:
    """Go on only when told to. A script has to say --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidArgument(f"say --yes to {what}")
    if not typer.confirm(f"{what[0].upper()}{what[1:]}?", err=True):
        raise typer.Exit(0)
