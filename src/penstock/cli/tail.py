"""`penstock tail`: the newest records of a topic, and new ones as they arrive."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock import limits
from penstock.cli import output, target
from penstock.cli.options import DEFAULT_DIR, RECORDS, AsJsonLines, DataDir, TokenFile, Topic, Url
from penstock.cli.record_printer import RecordPrinter
from penstock.clock import SystemClock
from penstock.engine.engine import Log
from penstock.errors import DirectoryInUse, InvalidArgument, Overloaded, TopicNotFound
from penstock.storage import snapshots
from penstock.storage.fs import OsFilesystem
from penstock.storage.wal import durable_mark, files

if TYPE_CHECKING:
    from penstock.client.client import Client

LAST = 10  # records
POLL_S = 20.0  # how long a server may hold an answer back
POLL_PAUSE_S = 0.2  # between two looks at a directory


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=RECORDS)(tail)


def tail(
    topic: Topic,
    after: Annotated[
        int | None, typer.Option(metavar="SEQ", min=0, help="Start after this seq.")
    ] = None,
    last: Annotated[
        int | None,
        typer.Option("--last", "-n", min=0, help=f"Number of records to start with. [{LAST}]"),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new records.")] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0, help="Stop following if no record arrives for this long."
        ),
    ] = None,
    as_json: AsJsonLines = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Print the newest records of a topic, and with --follow new ones as they arrive.

    Following a server continues after its restart. Following a directory opens it only when it has
    changed, so that other commands can append to it. Records of a process that keeps the directory
    open are printed when that process closes it.
    """
    if after is not None and last is not None:
        raise InvalidArgument("--after and --last exclude each other: use one of them")
    reader = _Reader(topic, RecordPrinter(as_json=as_json))
    where = target.Target(data_dir, url, token_file)
    with target.existing(where) as log:
        reader.after = (
            _start(log, topic, LAST if last is None else last) if after is None else after
        )
        reader.print_new(log)
        target.end_reading(log)
        output.flush()
        if follow and not isinstance(log, Log):
            _follow_server(reader, log, timeout)
    if follow and not where.is_server:
        _follow(reader, data_dir, timeout)


class _Reader:
    """A position in a topic that advances as records are printed."""

    def __init__(self, topic: str, printer: RecordPrinter) -> None:
        self.after = 0
        self._topic = topic
        self._printer = printer
        self._epoch: int | None = None

    def print_new(self, log: Log | Client, wait_s: float = 0.0) -> bool:
        """Print the records after the position. Return whether there are any. A server may wait."""
        found = False
        options: dict[str, Any] = {} if isinstance(log, Log) else {"wait_s": wait_s}
        while True:
            page = log.read_json(
                self._topic,
                self.after,
                limits.READ_RECORDS_MAX,
                epoch=self._epoch,
                include_tags=True,
                **options,
            )
            if page.gap is not None:
                self._printer.gap(page.gap)
            self._printer.records(page.records)
            found = found or page.gap is not None or page.count > 0
            self.after, self._epoch = page.next_seq, page.epoch
            if page.caught_up:
                return found


def _start(log: Log | Client, topic: str, last: int) -> int:
    """The seq before the `last` newest records. Seqs are not counts: deletes leave holes."""
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
    root = target.root_of(data_dir)
    clock = SystemClock()
    idle_since = clock.monotonic()
    seen = _fingerprint(root)
    while timeout_s is None or clock.monotonic() - idle_since < timeout_s:
        target.pause(POLL_PAUSE_S)
        now = _fingerprint(root)
        if now == seen:
            continue
        try:
            with target.open_existing(data_dir, wait_s=0) as log:
                if reader.print_new(log):
                    idle_since = clock.monotonic()
        except DirectoryInUse:
            continue  # another process has it open; its records are there when it closes
        except TopicNotFound:
            output.info("the topic was dropped")
            return
        output.flush()
        seen = _fingerprint(root)  # opening the log may have changed it


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
                output.info(f"retrying: {error}")
            is_lost = True
            target.pause(POLL_PAUSE_S)
            continue
        except TopicNotFound:
            output.info("the topic was dropped")
            return
        is_lost = False
        if found:
            output.flush()
            idle_since = clock.monotonic()


def _fingerprint(root: str) -> object:
    """A value that changes whenever the log is written to."""
    fs = OsFilesystem()
    wal = f"{root}/wal"
    marks = [durable_mark.read(fs, group) for group in files.groups(fs, wal)]
    return files.discover(fs, wal), marks, snapshots.numbers(fs, f"{root}/meta")
