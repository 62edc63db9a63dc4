"""`penstock read`: records of a topic, from a seq on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from penstock import limits
from penstock.cli import output, target
from penstock.cli.options import DEFAULT_DIR, RECORDS, AsJsonLines, DataDir, TokenFile, Topic, Url
from penstock.cli.record_printer import RecordPrinter
from penstock.engine.engine import Log
from penstock.errors import InvalidArgument

if TYPE_CHECKING:
    from penstock.client.client import Client

PAGE = 1_000  # records


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=RECORDS)(read)


def read(
    topic: Topic,
    after: Annotated[int, typer.Option(metavar="SEQ", min=0, help="Start after this seq.")] = 0,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Print at most this many records.")
    ] = limits.READ_RECORDS_DEFAULT,
    everything: Annotated[bool, typer.Option("--all", help="Print all records.")] = False,
    node: Annotated[
        list[str] | None,
        typer.Option(help="Leave out records of this node. May be repeated."),
    ] = None,
    as_json: AsJsonLines = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Print records of a topic: seq, time, tag, node, data.

    Lost records are shown as a gap at their position.
    """
    if everything and limit != limits.READ_RECORDS_DEFAULT:
        raise InvalidArgument("--limit and --all exclude each other: use one of them")
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        printer = RecordPrinter(as_json=as_json)
        left = print_range(log, topic, after, None if everything else limit, node, printer)
        if left and sys.stderr.isatty():
            output.info(f"more records follow: use --after {left} or --all")
        target.end_reading(log)


def print_range(
    log: Log | Client,
    topic: str,
    after: int,
    limit: int | None,
    node: list[str] | None,
    printer: RecordPrinter,
) -> int:
    """Print pages. Return the seq to continue from if records are left, else 0."""
    epoch: int | None = None
    left = limit
    while True:
        wanted = PAGE if left is None else min(PAGE, left)
        page = log.read_json(topic, after, wanted, node=node, epoch=epoch, include_tags=True)
        if page.gap is not None:
            printer.gap(page.gap)
        printer.records(page.records)
        after, epoch = page.next_seq, page.epoch
        if page.caught_up:
            return 0
        if left is not None:
            left -= page.count
            if left <= 0:
                return after
