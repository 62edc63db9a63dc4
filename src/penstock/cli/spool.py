"""`penstock spool`: list, inspect, export, drain and repair the slots of senders."""

from __future__ import annotations

import typer

from penstock.cli import (
    spool_drain,
    spool_export,
    spool_inspect,
    spool_list,
    spool_redrive,
    spool_skip,
)
from penstock.cli.options import MORE

_HELP = """Spools of senders: rows on this machine that wait for a server.

A slot is the folder of one sender, SF_DIR/SENDER_ID. It contains frames. A frame has rows of one
topic and a sequence number (FSN). A hole is a range of frames that are missing between two
files. A dead letter is a frame that the server refused.
"""


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help=_HELP, short_help="Spools of senders: inspect, drain, repair.", no_args_is_help=True
    )
    verbs = (spool_list, spool_inspect, spool_export, spool_drain, spool_skip, spool_redrive)
    for verb in verbs:
        verb.register(group)
    app.add_typer(group, name="spool", rich_help_panel=MORE)
