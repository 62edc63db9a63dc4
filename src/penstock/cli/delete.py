"""`penstock delete`: remove records of a topic for good."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli import output, session
from penstock.cli.options import DEFAULT_DIR, RECORDS, AsJson, DataDir, TokenFile, Topic, Url


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=RECORDS)(delete)


def delete(
    topic: Topic,
    before_seq: Annotated[
        int | None, typer.Option(metavar="SEQ", min=0, help="Everything below this seq.")
    ] = None,
    tag: Annotated[
        str | None, typer.Option(help="Everything with this tag; a trailing * is a prefix.")
    ] = None,
    seq: Annotated[
        list[int] | None, typer.Option(min=1, help="This one; may be given more than once.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Delete records by seq or by tag, for good.

    With --before-seq as well, only what lies below it. Readers see no gap: it was asked for.
    """
    with session.existing(session.Where(data_dir, url, token_file)) as log:
        removed = log.delete(topic, before_seq=before_seq, tag=tag, seqs=seq or ())
    if as_json:
        output.json_line(removed)
        return
    output.line(
        f"deleted {output.many(removed.deleted, 'record')} of {topic}, "
        f"{output.many(removed.count, 'record')} left ({output.size(removed.bytes)})"
    )
