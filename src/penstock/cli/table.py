"""`penstock table`: the newest record of each key of a topic."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from penstock.cli import output, target
from penstock.cli.options import DEFAULT_DIR, TOPICS, AsJson, AsJsonLines, DataDir, TokenFile, Url
from penstock.errors import InvalidArgument
from penstock.projection_types import TableChange, TableInfo, TableKey
from penstock.types import Gap, Offset

Name = Annotated[str, typer.Argument(metavar="TABLE", show_default=False)]
KeyType = Annotated[
    str, typer.Option(metavar="TYPE", help="The type of the key: text, int or bool.")
]
_HEADS = ("name", "topic", "key", "rows", "behind", "memory", "state")


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Tables: the newest record of each key.", no_args_is_help=True)
    group.command(name="create")(create)
    group.command(name="list")(list_)
    group.command()(get)
    group.command()(scan)
    group.command()(watch)
    group.command()(rebuild)
    group.command()(drop)
    app.add_typer(group, name="table", rich_help_panel=TOPICS)


def create(
    name: Name,
    key: Annotated[
        str,
        typer.Option(metavar="FIELD", help="The field with the key, or tag, or node."),
    ],
    topic: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="Its topic, if it has another name than the table."),
    ] = None,
    on_gap: Annotated[
        str | None,
        typer.Option(metavar="POLICY", help="After a loss: accept, rebuild or fail."),
    ] = None,
    bytes_max: Annotated[
        int | None, typer.Option(metavar="BYTES", help="Maximum memory of the table.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Create a table of the newest record of each key; or change its options."""
    options: dict[str, Any] = {"topic": topic, "on_gap": on_gap, "bytes_max": bytes_max}
    with target.existing_or_new(target.Target(data_dir, url, token_file)) as log:
        info = log.table(name, key, **options).info()
    if as_json:
        output.json_line(info)
    else:
        output.line(f"{name}: by {info.key} of {info.topic}")


def list_(
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
    """List the tables: topic, key, rows, records behind, memory, state.

    In a directory a table has the rows that were last saved, until a command reads it.
    """
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        found = log.tables(prefix)
        target.end_reading(log)
    if as_json:
        for info in found:
            output.json_line(info)
    elif found:
        output.table(_HEADS, [_row(info) for info in found], right="rows behind memory")
    else:
        output.info("no tables")


def get(
    name: Name,
    key: Annotated[str, typer.Argument(metavar="KEY", show_default=False)],
    key_type: KeyType = "text",
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Print the row of a key as JSON. Exit code 7 when there is none."""
    wanted = _key(key, key_type)
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        row = log.table(name).get(wanted)
        target.end_reading(log)
    if row is None:
        output.info(f"{name}: no row of this key")
        raise typer.Exit(7)
    output.json_line(row)


def scan(
    name: Name,
    prefix: Annotated[
        str,
        typer.Argument(
            metavar="PREFIX", show_default=False, help="Only text keys that start with this."
        ),
    ] = "",
    limit: Annotated[
        int | None, typer.Option(metavar="COUNT", help="At most this many rows; all without.")
    ] = None,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Print the rows in the order of their keys, one JSON object a line."""
    after: TableKey | None = None
    left = limit
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        table = log.table(name)
        while left is None or left > 0:
            page = table.scan(prefix, after, min(left or 1000, 1000))
            for row in page.rows:
                output.json_line(row)
            after = page.next_after
            if after is None:
                break
            left = None if left is None else left - len(page.rows)
        target.end_reading(log)


def watch(
    name: Name,
    after: Annotated[
        str | None,
        typer.Option(metavar="EPOCH.SEQ", help="Start after this offset; without, from now on."),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="End after this long without a change."),
    ] = None,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Print each change of a table, one JSON object a line, until it is interrupted."""
    start = None if after is None else _offset(after)
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        for one in log.table(name).watch(start, timeout_s=timeout):
            output.json_line(_shown(one))


def rebuild(
    name: Name,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Read the topic of a table again from the beginning, also after a failure."""
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        log.table(name).rebuild()
    output.line(f"{name}: rebuilding")


def drop(
    name: Name,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Remove a table. Its topic stays."""
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        was_there = log.drop_table(name)
    if as_json:
        output.json_line({"table": name, "deleted": was_there})
    else:
        output.line(f"{name}: dropped" if was_there else f"{name}: no such table")


def _key(text: str, kind: str) -> TableKey:
    if kind == "text":
        return text
    if kind == "bool" and text in ("true", "false"):
        return text == "true"
    if kind == "int":
        try:
            return int(text)
        except ValueError:
            pass
    raise InvalidArgument(f"invalid key {text!r} of type {kind!r}: expected text, int or bool")


def _offset(text: str) -> Offset:
    epoch, _, seq = text.partition(".")
    try:
        return Offset(int(epoch), int(seq))
    except ValueError:
        raise InvalidArgument(f"invalid offset {text!r}: expected EPOCH.SEQ") from None


def _shown(one: TableChange | Gap) -> dict[str, Any]:
    kind = "lost" if isinstance(one, Gap) else "change"
    return {"type": kind, **msgspec.to_builtins(one)}


def _row(info: TableInfo) -> tuple[str, ...]:
    status = info.status
    counts = f"{info.rows:,}", f"{status.lag:,}", f"{status.bytes:,}"
    return info.name, info.topic, info.key, *counts, status.reason or status.state
