"""`penstock delete`: delete records of a topic permanently."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli import output, target
from penstock.cli.options import DEFAULT_DIR, RECORDS, AsJson, DataDir, TokenFile, Topic, Url


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=RECORDS)(delete)


def delete(
    topic: Topic,
    before_seq: Annotated[
        int | None, typer.Option(metavar="SEQ", min=0, help="Delete records below this seq.")
    ] = None,
    tag: Annotated[
        str | None,
        typer.Option(help="Delete records with this tag; a trailing * matches a prefix."),
    ] = None,
    seq: Annotated[
        list[int] | None, typer.Option(min=1, help="Delete this record. May be repeated.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Delete records by seq or by tag, permanently.

    With --before-seq, --tag and --seq delete only records below that seq. Deletes are not reported
    as gaps.
    """
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        removed = log.delete(topic, before_seq=before_seq, tag=tag, seqs=seq or ())
    if as_json:
        output.json_line(removed)
        return
    output.line(
        f"deleted {output.many(removed.deleted, 'record')} of {topic}, "
        f"{output.many(removed.count, 'record')} left ({output.size(removed.bytes)})"
    )
