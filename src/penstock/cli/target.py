"""Opens the log of one command: in a directory, or at a server."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from penstock.cli import output
from penstock.cli.exit_codes import ExitCode
from penstock.clock import SystemClock
from penstock.directory import log_identity
from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.engine.opening import take_lock
from penstock.errors import DirectoryInUse, InvalidArgument, PenstockError
from penstock.storage.fs import OsFilesystem

if TYPE_CHECKING:
    from penstock.client.client import Client

LOCK_WAIT_S = 0.5  # another command holds a directory for milliseconds
_LOCK_STEP_S = 0.05


class Target(NamedTuple):
    """Where the log is: at a server if --url is given, else in a directory."""

    data_dir: Path
    url: str | None = None
    token_file: Path | None = None

    @property
    def is_server(self) -> bool:
        return self.url is not None


def existing(where: Target) -> Log | Client:
    """Open the log. A directory must contain one."""
    return connect(where) if where.is_server else open_existing(_directory(where))


def existing_or_new(where: Target) -> Log | Client:
    """Open the log. In a directory a missing log is created."""
    return connect(where) if where.is_server else open_or_create(_directory(where))


def connect(where: Target) -> Client:
    """A client of the server. It has not sent anything yet."""
    # Imported here: commands on a directory do not need it.
    from penstock.client.connect import connect as connected

    return connected(where.url or "", token_of(where.token_file))


def _directory(where: Target) -> Path:
    if where.token_file is not None:
        raise InvalidArgument("--token-file needs --url")
    return where.data_dir


def token_of(path: Path | None) -> str | None:
    """The token in this file, or that of the environment."""
    if path is None:
        return os.environ.get("PENSTOCK_TOKEN") or None
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a text file"
        raise InvalidArgument(f"cannot read {path}: {why}") from None
    if not token:
        raise InvalidArgument(f"{path} is empty: expected a token")
    return token


def root_of(data_dir: Path) -> str:
    """The directory's absolute path. Refuses a directory without a log and creates nothing."""
    root = os.path.abspath(data_dir)
    log_identity.require(OsFilesystem(), root)
    return root


def open_existing(
    data_dir: Path, *, background: bool = False, wait_s: float = LOCK_WAIT_S, **settings: Any
) -> Log:
    """Open the log of a directory that has one. Delayed records whose time has come are in their
    topics on return."""
    log = _open(root_of(data_dir), wait_s=wait_s, background=background, **settings)
    try:
        log.core.delayed.delivery.deliver_due()
    except (PenstockError, OSError) as error:  # the log can still be read
        output.info(f"delayed records could not be delivered: {error}")
    except BaseException:
        log.close()
        raise
    return log


def open_or_create(data_dir: Path) -> Log:
    """Open the log of a directory, or create it."""
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
        output.info(f"damaged: {damage}")
    return log


def end_reading(log: Log | Client) -> None:
    """Exit with DAMAGE if the log is damaged and reads may be incomplete.

    A server answers such a read with an error.
    """
    if isinstance(log, Log) and log.stats().is_read_only:
        output.flush()
        raise typer.Exit(ExitCode.DAMAGE)


def pause(seconds: float) -> None:
    """Wait. Ctrl-C ends it."""
    threading.Event().wait(seconds)


def holder_of(root: str) -> int | None:
    """The pid of the process that has the directory open; 0 if unknown, None if there is none."""
    try:
        take_lock(OsFilesystem(), root).release()
    except DirectoryInUse as busy:
        return busy.pid or 0
    except OSError:  # a read-only disk: no process writes there
        return None
    return None


def confirm(what: str, *, yes: bool) -> None:
    """Ask for confirmation. A script has to pass --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidArgument(f"pass --yes to {what}: stdin is not a terminal")
    if not typer.confirm(f"{what[0].upper()}{what[1:]}?", err=True):
        raise typer.Exit(0)
