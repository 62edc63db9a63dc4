"""`penstock wal`: commands that read the files of the WAL."""

from __future__ import annotations

import typer

from penstock.cli import wal_read, wal_stats
from penstock.cli.options import DIRECTORY


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Read the files of the write-ahead log.", no_args_is_help=True)
    for verb in (wal_read, wal_stats):
        verb.register(group)
    app.add_typer(group, name="wal", rich_help_panel=DIRECTORY)
