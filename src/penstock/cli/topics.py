"""`penstock topics`: list the topics of a data directory or a server."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli import output, target
from penstock.cli.options import DEFAULT_DIR, TOPICS, AsJsonLines, DataDir, TokenFile, Url
from penstock.types import TopicInfo

_HEADS = ("name", "class", "head", "earliest", "count", "bytes", "segments")


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=TOPICS)(topics)


def topics(
    prefix: Annotated[
        str,
        typer.Argument(
            metavar="PREFIX", show_default=False, help="Only names that start with this."
        ),
    ] = "",
    as_json: AsJsonLines = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """List the topics: class, seqs, records, bytes, segments."""
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        found = log.topics(prefix)
        if as_json:
            for info in found:
                output.json_line(info)
        elif found:
            output.table(_HEADS, [_row(info) for info in found], right=" ".join(_HEADS[2:]))
        else:
            output.info("no topics" + (f" that start with {prefix!r}" if prefix else ""))
        target.end_reading(log)


def _row(info: TopicInfo) -> tuple[str, ...]:
    numbers = (info.head_seq, info.earliest_seq, info.count, info.bytes, info.segments)
    kind: str = info.config.durability
    if info.config.type == "queue":
        kind += " queue"
    return info.name, kind, *(f"{number:,}" for number in numbers)
