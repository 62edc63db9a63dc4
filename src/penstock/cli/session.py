"""Opening a log for the length of one command: in a directory, or at a server."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from penstock.cli import output
from penstock.cli.exits import ExitCode
from penstock.clock import SystemClock
from penstock.engine import layout
from penstock.engine.engine import Log, open_log
from penstock.engine.opening import take_lock
from penstock.errors import DirectoryInUse, InvalidArgument
from penstock.storage.fs import OsFilesystem

if TYPE_CHECKING:
    from penstock.client.client import Client

LOCK_WAIT_S = 0.5  # another command holds a directory for milliseconds: worth a moment
_LOCK_STEP_S = 0.05


class Where(NamedTuple):
    """What the command line says of the place: a server when it names one, else a directory."""

    data_dir: Path
    url: str | None = None
    token_file: Path | None = None

    @property
    def is_server(self) -> bool:
        return self.url is not None


def existing(where: Where) -> Log | Client:
    """The log there. A directory must have one."""
    return connect(where) if where.is_server else open_existing(_directory(where))


def existing_or_new(where: Where) -> Log | Client:
    """The log there; in a directory it is made when there is none."""
    return connect(where) if where.is_server else open_or_make(_directory(where))


def connect(where: Where) -> Client:
    """A client of the server. Nothing is sent yet."""
    # Commands on a directory need not wait for what talks to servers.
    from penstock.client.client import connect as connected

    return connected(where.url or "", token_of(where.token_file))


def _directory(where: Where) -> Path:
    if where.token_file is not None:
        raise InvalidArgument("--token-file goes with --url")
    return where.data_dir


def token_of(path: Path | None) -> str | None:
    """The token in this file, else that of the environment."""
    if path is None:
        return os.environ.get("PENSTOCK_TOKEN") or None
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidArgument(f"{path} cannot be read: {why}") from None
    if not token:
        raise InvalidArgument(f"{path} is empty")
    return token


def root_of(data_dir: Path) -> str:
    """The directory's absolute path. Refuses one that holds no log: looking creates nothing."""
    root = os.path.abspath(data_dir)
    layout.require(OsFilesystem(), root)
    return root


def open_existing(
    data_dir: Path, *, background: bool = False, wait_s: float = LOCK_WAIT_S, **settings: Any
) -> Log:
    """The log in a directory that has one."""
    return _open(root_of(data_dir), wait_s=wait_s, background=background, **settings)


def open_or_make(data_dir: Path) -> Log:
    """The log in a directory, made when there is none."""
    return _open(os.path.abspath(data_dir), background=True, wait_s=LOCK_WAIT_S)


def _open(root: str, *, wait_s: float, **settings: Any) -> Log:
    deadline = SystemClock().monotonic() + wait_s
    with output.progress("Opening") as step:
        while True:
            try:
                log = open_log(root, progress=step, **settings)
            except DirectoryInUse:
                if SystemClock().monotonic() >= deadline:
                    raise
                pause(_LOCK_STEP_S)
            else:
                break
    for damage in {(one.path, one.offset): one for one in reversed(log.damage)}.values():
        output.note(f"damaged: {damage}")
    return log


def end_reading(log: Log | Client) -> None:
    """What could be read was printed. If that may not be all, the exit code says so. A server
    answers such a read with an error."""
    if isinstance(log, Log) and log.stats().is_read_only:
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
