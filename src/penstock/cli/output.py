"""Output of the command line: lines, tables, JSON, messages, progress.

Results go to stdout, messages about them to stderr. Colour and progress appear only on a
terminal; a pipe gets the same text without them.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO

import msgspec

from penstock.cli.control_characters import one_line
from penstock.cli.exit_codes import ExitCode

Progress = Callable[[int, int], None]
Stages = Callable[[str, int, int], None]

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_encode = msgspec.json.Encoder().encode


class PipeClosed(Exception):
    """The reader closed the pipe: stop without a message."""


def write(text: str) -> None:
    """Write text to stdout unchanged."""
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        raise PipeClosed from None


def flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise PipeClosed from None


def line(text: str = "") -> None:
    write(text + "\n")


def json_line(value: Any) -> None:
    """One JSON value on a line of its own."""
    line(json_text(value))


def json_text(value: Any) -> str:
    return _encode(value).decode()


def info(text: str) -> None:
    """Print a message on stderr."""
    print(paint(f"penstock: {text}", "dim", sys.stderr), file=sys.stderr, flush=True)


def warning(text: str) -> None:
    """Print a warning on stderr: the result may be unreliable."""
    head = paint("penstock: warning:", "yellow", sys.stderr)
    print(f"{head} {one_line(text)}", file=sys.stderr, flush=True)


def error(code: ExitCode, message: str, *, as_json: bool, detail: Any = None) -> None:
    """Print the error on stderr, in one line. Only JSON has the detail."""
    if as_json:
        fault = {"code": code.name.lower(), "exit": int(code), "message": message}
        fault |= {"detail": detail} if detail else {}
        text = json_text({"error": fault})
    else:
        text = f"{paint('penstock:', 'red', sys.stderr)} {one_line(message)}"
    with contextlib.suppress(BrokenPipeError):
        print(text, file=sys.stderr, flush=True)


# Text.


@functools.cache
def has_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, stream: TextIO | None = None) -> str:
    """The text in a style if the stream is a terminal. `style` may name several."""
    if not text or not has_colour(stream or sys.stdout):
        return text
    codes = ";".join(_STYLES[name] for name in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m"


def moment(ts_ms: int) -> str:
    """A time in UTC, as text."""
    try:
        when = datetime.datetime.fromtimestamp(ts_ms / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{ts_ms} ms"
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{ts_ms % 1000:03d}Z"


def size(byte_count: float) -> str:
    """A number of bytes with its unit."""
    if byte_count < 1024:
        return f"{byte_count:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        byte_count /= 1024
        if byte_count < 1024:
            return f"{byte_count:.1f} {unit}"
    return f"{byte_count / 1024:.1f} TiB"


def many(count: int, what: str) -> str:
    """`1 record`, `2,000 records`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


# Tables.


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "") -> None:
    """Columns as wide as their longest cell; no cell is cut, so that a pipe can read them.

    `right` names the columns of numbers, separated by blanks.
    """
    numbers = {heads.index(name) for name in right.split()}
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    line(paint(_row(heads, widths, numbers), "bold"))
    for row in rows:
        line(_row(row, widths, numbers))


def _row(cells: Sequence[str], widths: Sequence[int], numbers: set[int]) -> str:
    placed = (
        cell.rjust(width) if at in numbers else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(placed).rstrip()


def facts(pairs: Iterable[tuple[str, str]]) -> None:
    """Names and values, one pair per line."""
    held = list(pairs)
    width = max((len(name) for name, _ in held), default=0)
    for name, value in held:
        line(f"  {paint(name.ljust(width), 'dim')}  {value}")


# Progress.


@contextlib.contextmanager
def progress(what: str, *, in_bytes: bool = False) -> Iterator[Progress]:
    """A callback that shows the progress of work on a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from penstock.cli.progress_bar import Bar  # loads rich, which is slow

    bar = Bar(what, in_bytes=in_bytes)
    try:
        yield bar.step
    finally:
        bar.stop()


@contextlib.contextmanager
def stages() -> Iterator[Stages]:
    """The same for work in several named stages."""
    if not sys.stderr.isatty():
        yield lambda stage, done, total: None
        return
    from penstock.cli.progress_bar import Bar

    bar = Bar("", in_bytes=False)

    def step(stage: str, done: int, total: int) -> None:
        bar.name(stage.capitalize())
        bar.step(done, total)

    try:
        yield step
    finally:
        bar.stop()
