"""`penstock tail`: the newest records, and those to come."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock import limits
from penstock.cli import output, session
from penstock.cli.options import DEFAULT_DIR, RECORDS, AsJsonLines, DataDir, TokenFile, Topic, Url
from penstock.cli.printer import RecordPrinter
from penstock.clock import SystemClock
from penstock.engine.engine import Log
from penstock.errors import DirectoryInUse, InvalidArgument, Overloaded, TopicNotFound
from penstock.storage import snapshots
from penstock.storage.fs import OsFilesystem
from penstock.storage.wal import files, mark

if TYPE_CHECKING:
    from penstock.client.client import Client

LAST = 10  # records
POLL_S = 20.0  # how long a server may hold an answer back
LOOK_S = 0.2  # between two looks while following


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=RECORDS)(tail)


def tail(
    topic: Topic,
    after: Annotated[
        int | None, typer.Option(metavar="SEQ", min=0, help="Start past this seq.")
    ] = None,
    last: Annotated[
        int | None,
        typer.Option("--last", "-n", min=0, help=f"Start with so many records (default {LAST})."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more.")] = False,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="Stop following when nothing came so long."),
    ] = None,
    as_json: AsJsonLines = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Print the newest records of a topic, and with --follow those to come.

    Following a server goes on when it is started again. Following a directory opens it only to
    look, whenever it has changed, so other commands can append to it meanwhile. While a process
    keeps it open, what that process appends is printed when it lets go.
    """
    if after is not None and last is not None:
        raise InvalidArgument("give --after or --last, not both")
    reader = _Reader(topic, RecordPrinter(as_json=as_json))
    where = session.Where(data_dir, url, token_file)
    with session.existing(where) as log:
        reader.after = (
            _start(log, topic, LAST if last is None else last) if after is None else after
        )
        reader.print_new(log)
        session.end_reading(log)
        output.flush()
        if follow and not isinstance(log, Log):
            _follow_server(reader, log, timeout)
    if follow and not where.is_server:
        _follow(reader, data_dir, timeout)


class _Reader:
    """A place in a topic that moves as records are printed."""

    def __init__(self, topic: str, printer: RecordPrinter) -> None:
        self.after = 0
        self._topic = topic
        self._printer = printer
        self._epoch: int | None = None

    def print_new(self, log: Log | Client, wait_s: float = 0.0) -> bool:
        """Print everything past the place; was there anything? A server may wait for it."""
        found = False
        patience: dict[str, Any] = {} if isinstance(log, Log) else {"wait_s": wait_s}
        while True:
            page = log.read_json(
                self._topic,
                self.after,
                limits.READ_RECORDS_MAX,
                epoch=self._epoch,
                include_tags=True,
                **patience,
            )
            if page.gap is not None:
                self._printer.gap(page.gap)
            self._printer.records(page.records)
            found = found or page.gap is not None or page.count > 0
            self.after, self._epoch = page.next_seq, page.epoch
            if page.caught_up:
                return found


def _start(log: Log | Client, topic: str, last: int) -> int:
    """The seq before the `last` newest records. Deletes leave holes, so seqs are not counts."""
    info = log.topic(topic)
    back = last
    while last:
        after = max(0, info.head_seq - back)
        seqs: deque[int] = deque(maxlen=last)
        at = after
        while at < info.head_seq:
            page = log.read(topic, at, limits.READ_RECORDS_MAX)
            seqs.extend(record.seq for record in page.records)
            at = page.next_seq
        if len(seqs) == last and back > last:
            return seqs[0] - 1
        if len(seqs) == last or after < info.earliest_seq:
            return after
        back *= 4
    return info.head_seq


def _follow(reader: _Reader, data_dir: Path, timeout_s: float | None) -> None:
    root = session.root_of(data_dir)
    clock = SystemClock()
    idle_since = clock.monotonic()
    seen = _traces(root)
    while timeout_s is None or clock.monotonic() - idle_since < timeout_s:
        session.pause(LOOK_S)
        now = _traces(root)
        if now == seen:
            continue
        try:
            with session.open_existing(data_dir, wait_s=0) as log:
                if reader.print_new(log):
                    idle_since = clock.monotonic()
        except DirectoryInUse:
            continue  # somebody is at work; what they did is there when they let go
        except TopicNotFound:
            output.note("the topic was dropped")
            return
        output.flush()
        seen = _traces(root)  # our own look may have left some


def _follow_server(reader: _Reader, client: Client, timeout_s: float | None) -> None:
    clock = SystemClock()
    idle_since = clock.monotonic()
    is_lost = False
    while timeout_s is None or clock.monotonic() - idle_since < timeout_s:
        left_s = POLL_S
        if timeout_s is not None:
            left_s = max(0.001, min(POLL_S, idle_since + timeout_s - clock.monotonic()))
        try:
            found = reader.print_new(client, left_s)
        except Overloaded as error:  # a lost connection is one, too
            if not is_lost:
                output.note(f"trying again: {error}")
            is_lost = True
            session.pause(LOOK_S)
            continue
        except TopicNotFound:
            output.note("the topic was dropped")
            return
        is_lost = False
        if found:
            output.flush()
            idle_since = clock.monotonic()


def _traces(root: str) -> object:
    """Something that differs whenever the log was written to."""
    fs = OsFilesystem()
    wal = f"{root}/wal"
    marks = [mark.read(fs, group) for group in files.groups(fs, wal)]
    return files.discover(fs, wal), marks, snapshots.numbers(fs, f"{root}/meta")
