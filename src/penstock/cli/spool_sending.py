"""What `drain` and `redrive` share: where to send, how long to wait, and how it ended."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import typer

from penstock.cli import output, session
from penstock.cli.exits import ExitCode
from penstock.errors import InvalidArgument
from penstock.sender import profile
from penstock.sender.errand import Errand
from penstock.sender.profile import Profile
from penstock.sender.verdicts import Category

To = Annotated[
    str,
    typer.Option(
        metavar="CONNECT", help="Where to: a connect string in quotes, 'ws::addr=host:4000;'"
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", help="Give up when the server has acknowledged nothing for so long."
    ),
]


class Trouble(NamedTuple):
    """Why it ended before its time: for the exit code, and in words."""

    code: ExitCode
    cause: str


def target(to: str, token_file: Path | None) -> Profile:
    """The server that is meant, with the token of the file or of the environment. A credential
    in the connect string counts more than the environment's, and contradicts the file's."""
    found = profile.parse(to)
    if found.sf_dir is not None or found.sender_id != "default":
        raise InvalidArgument("the slot says sf_dir and sender_id; leave them out of --to")
    has_own = bool(found.token or found.username)
    if has_own and token_file is not None:
        raise InvalidArgument("--to has a credential already; leave it out with --token-file")
    if has_own:
        return found
    return msgspec.structs.replace(found, token=session.token_of(token_file))


def checked_timeout(seconds: float) -> float:
    if not (seconds > 0 and math.isfinite(seconds)):
        raise InvalidArgument(f"--timeout is a number of seconds above 0, not {seconds:g}")
    return seconds


def trouble_of(errand: Errand, timeout: float) -> Trouble:
    """Why an errand that is closed did not get to its end."""
    halted = errand.courier.halted
    if halted is not None:
        is_denied = halted.category is Category.SECURITY_ERROR
        what = f"frame {halted.fsn} was" if halted.fsn >= 0 else "the sender was"
        cause = f"{what} refused: {halted.category}: {halted.message}"
        if halted.fsn >= 0 and not is_denied:
            cause += "; `penstock spool skip SLOT` puts it aside"
        return Trouble(ExitCode.DENIED if is_denied else ExitCode.REFUSED, cause)
    if errand.away:
        return Trouble(ExitCode.UNREACHABLE, f"no server for {timeout:g} s: {errand.away}")
    return Trouble(ExitCode.OVERLOADED, f"the server acknowledged nothing for {timeout:g} s")


class _Notes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        output.note(output.one_line(record.getMessage()))


@contextmanager
def notes(level: int = logging.WARNING) -> Iterator[None]:
    """What the sender logs becomes notes of the command, from this level on."""
    log, handler = logging.getLogger("penstock.sender"), _Notes(level)
    before = log.propagate
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = before
