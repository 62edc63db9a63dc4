"""`penstock router`: copy the records of one topic into another."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli import output, target
from penstock.cli.options import DEFAULT_DIR, TOPICS, AsJson, AsJsonLines, DataDir, TokenFile, Url
from penstock.types import RouterInfo

Name = Annotated[str, typer.Argument(metavar="ROUTER", show_default=False)]
_HEADS = ("name", "source", "dest", "filter", "copied", "behind")


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Routers: copy from topic to topic.", no_args_is_help=True)
    group.command(name="create")(create)
    group.command(name="list")(list_)
    group.command()(show)
    group.command()(drop)
    app.add_typer(group, name="router", rich_help_panel=TOPICS)


def create(
    name: Name,
    source: Annotated[str, typer.Argument(metavar="SOURCE", show_default=False)],
    dest: Annotated[str, typer.Argument(metavar="DEST", show_default=False)],
    filter: Annotated[
        str | None,
        typer.Option(
            metavar="TAG", help="Copy only records with this tag; a trailing * matches a prefix."
        ),
    ] = None,
    preserve_node: Annotated[bool, typer.Option(help="Copies keep the node of a record.")] = True,
    preserve_tag: Annotated[bool, typer.Option(help="Copies keep the tag of a record.")] = True,
    allow_cycle: Annotated[
        bool,
        typer.Option(
            "--allow-cycle", help="Allow a cycle of routers; no topic gets a record twice."
        ),
    ] = False,
    exactly_once: Annotated[
        bool, typer.Option("--exactly-once", help="Store the origin in the metadata of each copy.")
    ] = False,
    create_dest: Annotated[bool, typer.Option(help="Create a missing destination.")] = True,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Copy records that are appended to SOURCE from now on into DEST; or change the router.

    In a directory, records are copied while a command has it open, at the latest when a command
    reads the destination.
    """
    with target.existing_or_new(target.Target(data_dir, url, token_file)) as log:
        info = log.create_router(
            name,
            source,
            dest,
            filter=filter,
            preserve_node=preserve_node,
            preserve_tag=preserve_tag,
            allow_cycle=allow_cycle,
            exactly_once=exactly_once,
            create_dest=create_dest,
        )
    if as_json:
        output.json_line(info)
    else:
        output.line(f"{name}: {source} to {dest}, {'created' if info.created else 'changed'}")


def list_(
    prefix: Annotated[
        str,
        typer.Argument(
            metavar="PREFIX", show_default=False, help="Only names that start with this."
        ),
    ] = "",
    source: Annotated[
        str, typer.Option(metavar="TOPIC", help="Only routers with this source.")
    ] = "",
    dest: Annotated[
        str, typer.Option(metavar="TOPIC", help="Only routers with this destination.")
    ] = "",
    as_json: AsJsonLines = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """List the routers: source, destination, records copied, records behind."""
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        found = log.routers(prefix, source=source, dest=dest)
        target.end_reading(log)
    if as_json:
        for info in found:
            output.json_line(info)
    elif found:
        output.table(_HEADS, [_row(info) for info in found], right="copied behind")
    else:
        output.info("no routers")


def show(
    name: Name,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Show one router."""
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        info = log.router(name)
        target.end_reading(log)
    if as_json:
        output.json_line(info)
        return
    output.facts(
        (
            ("from", info.source),
            ("to", info.dest),
            ("filter", _filter(info) or "none"),
            ("copied", f"{info.forwarded_total:,}"),
            ("cursor", f"seq {info.cursor:,} of the source"),
            ("behind", output.many(info.lag_records, "record")),
            ("stopped", info.stopped or "no"),
        )
    )


def drop(
    name: Name,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Remove a router. Its copies stay."""
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        was_there = log.drop_router(name)
    if as_json:
        output.json_line({"router": name, "deleted": was_there})
    else:
        output.line(f"{name}: dropped" if was_there else f"{name}: no such router")


def _filter(info: RouterInfo) -> str:
    return "" if info.filter is None else info.filter[2]


def _row(info: RouterInfo) -> tuple[str, ...]:
    counts = f"{info.forwarded_total:,}", f"{info.lag_records:,}"
    return info.name, info.source, info.dest, _filter(info), *counts
