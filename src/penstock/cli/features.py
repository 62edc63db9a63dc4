"""`penstock features`: aggregates per key. Reads: list, get, watch, definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from penstock.cli import (
    features_apply,
    features_backfill,
    features_explain,
    features_load,
    features_push,
    features_train,
    features_verify,
    output,
    target,
)
from penstock.cli.control_characters import one_line
from penstock.cli.features_target import Key, Names, Table, caught_up, document_of
from penstock.cli.options import DEFAULT_DIR, TOPICS, AsJson, AsJsonLines, DataDir, TokenFile, Url
from penstock.errors import SchemaMismatch
from penstock.feature_types import FeatureKey, FeatureTableStatus

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.engine.engine import Log

_HEADS = ("table", "event", "key", "features", "keys", "memory", "behind", "state")
_I64 = 1 << 63
_PAGE_ROWS = 1000


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Features: aggregates of each key.", no_args_is_help=True)
    group.command()(features_apply.apply)
    group.command(name="list")(list_)
    group.command()(features_explain.explain)
    group.command()(definition)
    group.command()(features_push.push)
    group.command()(get)
    group.command()(scan)
    group.command()(watch)
    group.command()(features_train.train)
    group.command()(features_backfill.backfill)
    group.command()(features_load.load)
    group.command()(features_verify.verify)
    app.add_typer(group, name="features", rich_help_panel=TOPICS)


def list_(
    as_json: AsJsonLines = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """List the feature tables, with their keys, memory and lag."""
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        found = caught_up(log).tables()
        target.end_reading(log)
    if as_json:
        for status in found:
            output.json_line(status)
    elif found:
        output.table(_HEADS, [_row(one) for one in found], right="features keys memory behind")
    else:
        output.info("no feature tables: `penstock features apply FILE` declares some")


def definition(
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Print what is registered, as JSON that `apply` reads."""
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        text = msgspec.json.encode(document_of(log))
        output.line(msgspec.json.format(text).decode())
        target.end_reading(log)


def get(
    table: Table,
    key: Key = None,
    features: Names = None,
    as_of_seq: Annotated[
        int | None,
        typer.Option(min=0, metavar="SEQ", help="As it was after this record of the topic."),
    ] = None,
    as_of_ts: Annotated[
        int | None,
        typer.Option(min=0, metavar="MS", help="As it was at this time, in ms since 1970."),
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Print the features of a key.

    A key of several columns has one argument for each, in their order; a table without a key has
    none. Exit code 7 when the key has no events.
    """
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        wanted = _key(log, table, key or ())
        row = log.features.get(table, wanted, features, as_of_seq=as_of_seq, as_of_ts=as_of_ts)
        target.end_reading(log)
    if as_json:
        output.json_line(row)
    elif row:
        output.facts((name, _shown(value)) for name, value in row.items())
    else:
        output.info(f"{table}: no events of this key")
    if not row:
        raise typer.Exit(7)


def scan(
    table: Table,
    features: Names = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="COUNT", show_default="all", help="At most this many rows."),
    ] = None,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Print the rows of all keys, one JSON object a line.

    The rows are all of one time, and in no particular order.
    """
    after: int | None = 0
    now_ms: int | None = None
    left = limit
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        while after is not None and (left is None or left > 0):
            count = _PAGE_ROWS if left is None else min(left, _PAGE_ROWS)
            page = log.features.scan(table, after, count, features=features, now_ms=now_ms)
            for row in page.rows:
                output.json_line(row)
            left = None if left is None else left - len(page.rows)
            after, now_ms = page.next_after, page.now_ms
        target.end_reading(log)


def watch(
    table: Table,
    key: Key = None,
    features: Names = None,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="End after this long without a change."),
    ] = None,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Print the row of a key, and again after each change.

    A row is a JSON object on a line of its own. The command runs until it is interrupted. Nobody
    else can write to a directory that is watched: use --url.
    """
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        wanted = _key(log, table, key or ())
        for row in log.features.watch(table, wanted, features, timeout_s=timeout):
            output.json_line(row)
            output.flush()


def _key(log: Log | Client, table: str, texts: Sequence[str]) -> FeatureKey:
    """The key with the types of the table's columns."""
    status = log.features.table(table)
    if len(texts) != len(status.key):
        columns = " ".join(status.key) or "none"
        raise SchemaMismatch(
            f"table {table!r} has {output.many(len(status.key), 'key column')} ({columns}): got "
            f"{output.many(len(texts), 'argument')}",
            table=table,
        )
    return tuple(
        _typed(table, name, kind, text)
        for name, kind, text in zip(status.key, status.key_types, texts, strict=True)
    )


def _typed(table: str, column: str, kind: str, text: str) -> bool | int | str:
    if kind == "str":
        return text
    if kind == "bool" and text in ("true", "false"):
        return text == "true"
    if kind == "i64" and len(text) <= 20 and text.removeprefix("-").isdecimal():
        number = int(text)
        if -_I64 <= number < _I64:
            return number
    expected = "true or false" if kind == "bool" else "an integer within 64 bits"
    raise SchemaMismatch(
        f"table {table!r}: key {column!r} is {text!r}, expected {expected} ({kind})",
        table=table,
        field=column,
        value=text,
    )


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return one_line(value) if isinstance(value, str) else one_line(output.json_text(value))


def _row(table: FeatureTableStatus) -> tuple[str, ...]:
    parts = table.parts
    return (
        table.name,
        table.event,
        " ".join(table.key) or "-",
        str(len(table.features)),
        f"{max((part.keys for part in parts), default=0):,}",
        output.size(sum(part.bytes for part in parts)),
        f"{max((part.lag for part in parts), default=0):,}",
        table.state,
    )
