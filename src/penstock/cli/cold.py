"""`penstock cold`: the cold tier, old segments in another folder or an object store."""

from __future__ import annotations

import dataclasses
import os
from typing import Annotated, Any

import typer

from penstock.cli import output, target
from penstock.cli.options import DEFAULT_DIR, DIRECTORY, AsJson, DataDir
from penstock.directory.directory_view import look
from penstock.errors import InvalidArgument
from penstock.storage.segments.reader import Segment
from penstock.storage.tiers.objects import is_url

_HEADS = ("topic", "segments", "cold", "bytes", "to_seq", "records")


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="The cold tier: old segments in a folder or an object store.", no_args_is_help=True
    )
    group.command()(status)
    group.command()(move)
    app.add_typer(group, name="cold", rich_help_panel=DIRECTORY)


def status(as_json: AsJson = False, data_dir: DataDir = DEFAULT_DIR) -> None:
    """Show where the cold tier is and how much of each topic is in it. Works beside a server."""
    view = look(target.root_of(data_dir))
    topics: list[dict[str, Any]] = []
    for topic in view.topics():
        runs = [span.run for span in topic.spans if isinstance(span.run, Segment)]
        cold = [run for run in runs if run.is_cold]
        topics.append(
            {
                "topic": topic.name,
                "segments": len(runs),
                "cold_segments": len(cold),
                "cold_bytes": sum(run.facts.data_bytes for run in cold),
                "records": topic.live,
                "cold_to_seq": max((run.facts.last for run in cold), default=0),
            }
        )
    if as_json:
        output.json_line({"cold": view.cold or None, "topics": topics})
        return
    output.line(f"cold tier: {view.cold}" if view.cold else "no cold tier (set PENSTOCK_COLD_DIR)")
    if topics:
        output.table(
            _HEADS,
            [
                (
                    one["topic"],
                    f"{one['segments']:,}",
                    f"{one['cold_segments']:,}",
                    output.size(one["cold_bytes"]),
                    f"{one['cold_to_seq']:,}",
                    f"{one['records']:,}",
                )
                for one in topics
            ],
            right=" ".join(_HEADS[1:]),
        )


def move(
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER|URL",
            help="Destination, kept for later. [the last one, or PENSTOCK_COLD_DIR]",
        ),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(min=0, help="Number of newest segments of each topic to keep. [4]"),
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
) -> None:
    """Move old segments to the cold tier. No process may have the directory open.

    A server moves segments by itself.
    """
    given: dict[str, Any] = {}
    if to is not None:
        if not to:
            raise InvalidArgument("--to is empty: expected a folder or the URL of an object store")
        given["cold_dir"] = to if is_url(to) else os.path.abspath(to)
    if keep is not None:
        given["hot_retain_segments"] = keep
    with target.open_existing(data_dir, **given) as log:
        with output.progress("Moving") as step:
            report = log.relocate(progress=step)
        stats = log.stats()
        where = log.core.cold_location
    if as_json:
        held = {"cold": where, "cold_segments": stats.cold_segments, "cold_bytes": stats.cold_bytes}
        output.json_line({**dataclasses.asdict(report), **held})
        return
    output.line(
        f"moved {output.many(report.segments_moved, 'segment')} "
        f"({output.size(report.bytes_moved)}) to {where}"
    )
    if report.segments_removed:
        output.line(
            f"removed {output.many(report.segments_removed, 'dead segment')} from the cold tier"
        )
    output.line(
        f"the cold tier has {stats.cold_segments:,} of {output.many(stats.segments, 'segment')}, "
        f"{output.size(stats.cold_bytes)}"
    )
