"""What `drain` and `redrive` share: the destination, the timeout, and the cause of a failure."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import typer

from penstock.cli import output, target
from penstock.cli.control_characters import one_line
from penstock.cli.exit_codes import ExitCode
from penstock.errors import InvalidArgument
from penstock.sender import connect_string
from penstock.sender.connect_string import ConnectOptions
from penstock.sender.drain_job import DrainJob
from penstock.sender.error_policy import Category

To = Annotated[
    str,
    typer.Option(
        metavar="CONNECT", help="Destination: a connect string in quotes, 'ws::addr=host:4000;'"
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", help="Give up if the server acknowledges nothing for this long."
    ),
]


class Trouble(NamedTuple):
    """Why sending ended early: the exit code and the cause in words."""

    code: ExitCode
    cause: str


def connect_options(to: str, token_file: Path | None) -> ConnectOptions:
    """The options of --to, with the token of the file or of the environment.

    A credential in the connect string overrides the environment's and excludes the file's.
    """
    found = connect_string.parse(to)
    if found.sf_dir is not None or found.sender_id != "default":
        raise InvalidArgument("--to has sf_dir or sender_id: remove them, SLOT names both")
    has_own = bool(found.token or found.username)
    if has_own and token_file is not None:
        raise InvalidArgument("--to has a credential: remove it, or leave out --token-file")
    if has_own:
        return found
    return msgspec.structs.replace(found, token=target.token_of(token_file))


def checked_timeout(seconds: float) -> float:
    if not (seconds > 0 and math.isfinite(seconds)):
        raise InvalidArgument(
            f"invalid --timeout {seconds:g}: expected a number of seconds above 0"
        )
    return seconds


def trouble_of(drain_job: DrainJob, timeout: float) -> Trouble:
    """Why a drain job that is closed did not finish."""
    halted = drain_job.delivery_loop.halted
    if halted is not None:
        is_denied = halted.category is Category.SECURITY_ERROR
        what = f"frame {halted.fsn} was" if halted.fsn >= 0 else "the sender was"
        cause = f"{what} refused: {halted.category}: {halted.message}"
        if halted.fsn >= 0 and not is_denied:
            cause += "; `penstock spool skip SLOT` moves it to the dead letters"
        return Trouble(ExitCode.DENIED if is_denied else ExitCode.REFUSED, cause)
    if drain_job.away:
        return Trouble(ExitCode.UNREACHABLE, f"no server for {timeout:g} s: {drain_job.away}")
    return Trouble(ExitCode.OVERLOADED, f"the server acknowledged nothing for {timeout:g} s")


class _Messages(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        output.info(one_line(record.getMessage()))


@contextmanager
def sender_messages(level: int = logging.WARNING) -> Iterator[None]:
    """Print the sender's log messages from this level on."""
    log, handler = logging.getLogger("penstock.sender"), _Messages(level)
    before = log.propagate
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = before
