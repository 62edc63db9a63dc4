"""What the command line prints and how: lines, tables, JSON, notes, progress.

Answers go to stdout, everything about them to stderr. Colour and progress appear only where
somebody looks; a pipe gets the same text without them.
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

from penstock.cli.exits import ExitCode

Progress = Callable[[int, int], None]
Stages = Callable[[str, int, int], None]

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_encode = msgspec.json.Encoder().encode


class PipeClosed(Exception):
    """Nobody reads our output any more: stop quietly."""


def write(text: str) -> None:
    """Text to stdout as it is."""
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


def note(text: str) -> None:
    """A remark beside the answer, on stderr."""
    print(paint(f"penstock: {text}", "dim", sys.stderr), file=sys.stderr, flush=True)


def warning(text: str) -> None:
    """One line on stderr about something that makes the answer doubtful."""
    head = paint("penstock: warning:", "yellow", sys.stderr)
    print(f"{head} {one_line(text)}", file=sys.stderr, flush=True)


def error(code: ExitCode, message: str, *, as_json: bool) -> None:
    """The one line that says what went wrong."""
    if as_json:
        fault = {"code": code.name.lower(), "exit": int(code), "message": message}
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
    """The text in a style, where the stream is a terminal. `style` may name several."""
    if not text or not has_colour(stream or sys.stdout):
        return text
    codes = ";".join(_STYLES[name] for name in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m"


def one_line(text: str) -> str:
    """Safe to show: what could move a cursor or ring a bell is spelled out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _spelled(c) for c in text)


def _spelled(char: str) -> str:
    return char.encode("unicode_escape").decode()


def moment(ts_ms: int) -> str:
    """A time for people, in UTC so that two machines agree."""
    try:
        when = datetime.datetime.fromtimestamp(ts_ms / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{ts_ms} ms"
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{ts_ms % 1000:03d}Z"


def size(byte_count: float) -> str:
    """Bytes for people."""
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
    """Columns as wide as they need to be, never cut, so that a pipe can read them too.

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
    """Names and values, one pair a line."""
    held = list(pairs)
    width = max((len(name) for name, _ in held), default=0)
    for name, value in held:
        line(f"  {paint(name.ljust(width), 'dim')}  {value}")


# Progress.


@contextlib.contextmanager
def progress(what: str, *, in_bytes: bool = False) -> Iterator[Progress]:
    """Something that is told how far the work is, and shows it while somebody looks."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from penstock.cli.bar import Bar  # and what draws it

    bar = Bar(what, in_bytes=in_bytes)
    try:
        yield bar.step
    finally:
        bar.stop()


@contextlib.contextmanager
def stages() -> Iterator[Stages]:
    """The same for work of several stages, each of which is named."""
    if not sys.stderr.isatty():
        yield lambda stage, done, total: None
        return
    from penstock.cli.bar import Bar

    bar = Bar("", in_bytes=False)

    def step(stage: str, done: int, total: int) -> None:
        bar.name(stage.capitalize())
        bar.step(done, total)

    try:
        yield step
    finally:
        bar.stop()
