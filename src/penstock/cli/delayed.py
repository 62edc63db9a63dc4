"""`penstock delayed`: the records whose time has not come."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli import output, target
from penstock.cli.exit_codes import ExitCode
from penstock.cli.options import (
    DEFAULT_DIR,
    RECORDS,
    AsJson,
    AsJsonLines,
    DataDir,
    TokenFile,
    Topic,
    Url,
)
from penstock.errors import AlreadyDelivered, DelayedNotFound

Ids = Annotated[
    list[int],
    typer.Argument(metavar="ID...", min=0, show_default=False, help="Ids of delayed appends."),
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Delayed records: list, cancel.", no_args_is_help=True)
    group.command(name="list")(list_)
    group.command()(cancel)
    app.add_typer(group, name="delayed", rich_help_panel=RECORDS)


def list_(
    topic: Topic,
    after: Annotated[int, typer.Option(min=0, help="Only ids above this one.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Most appends to list.")] = 1000,
    as_json: AsJsonLines = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """List the appends to a topic whose time has not come, by their ids.

    The delayed jobs of a queue are not listed: they are records of their topic.
    """
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        found = log.delayed.infos(topic, after, limit)
        target.end_reading(log)
    if as_json:
        for one in found:
            output.json_line(one)
    elif found:
        rows = [
            (str(one.id), output.moment(one.deliver_at), f"{one.count:,}", output.size(one.size))
            for one in found
        ]
        output.table(("id", "deliver at", "records", "size"), rows, right="id records size")
    else:
        output.info(f"nothing is delayed for {topic}")


def cancel(
    topic: Topic,
    ids: Ids,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Cancel delayed appends: their records never become visible.

    The exit code is 7 when one of them is not delayed, or not any more; the others are cancelled.
    """
    cancelled: list[int] = []
    failed: dict[int, str] = {}
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        for delayed_id in dict.fromkeys(ids):
            try:
                log.delayed.cancel_one(topic, delayed_id)
            except (DelayedNotFound, AlreadyDelivered) as error:
                failed[delayed_id] = str(error)
            else:
                cancelled.append(delayed_id)
    if as_json:
        output.json_line({"topic": topic, "cancelled": cancelled, "failed": failed})
    else:
        output.line(f"cancelled {output.many(len(cancelled), 'delayed append')} of {topic}")
        for why in failed.values():
            output.info(f"not cancelled: {why}")
    if failed:
        output.flush()
        raise typer.Exit(ExitCode.TOPIC_NOT_FOUND)
