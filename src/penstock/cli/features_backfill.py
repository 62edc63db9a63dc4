"""`penstock features backfill`: the state of a table from its whole history, built by Spark."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from penstock.cli import features_load, output, target
from penstock.cli.features_history import history_of
from penstock.cli.features_spark import (
    Source,
    Tasks,
    asked,
    need_spark,
    running,
    session_of,
)
from penstock.cli.features_target import Table
from penstock.cli.options import DEFAULT_DIR, AsJson, DataDir, TokenFile, Url
from penstock.cli.spark_options import (
    Conf,
    Master,
    Memory,
    PyFiles,
    Remote,
)
from penstock.errors import InvalidArgument
from penstock.feature_types import FeatureLoaded
from penstock.projections.state_folder import LIST_NAME

if TYPE_CHECKING:  # Spark is loaded by the verbs that run it
    from penstock.spark.feature_backfill import FeatureSnapshot


def backfill(
    table: Table,
    source: Source = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            show_default="a temporary one",
            help="Build the snapshot here and keep it. Spark and the log see it at this path.",
        ),
    ] = None,
    no_load: Annotated[
        bool, typer.Option("--no-load", help="Only build the snapshot, in --folder.")
    ] = False,
    tasks: Tasks = 0,
    master: Master = "local[*]",
    remote: Remote = "",
    memory: Memory = "2g",
    conf: Conf = None,
    py_files: PyFiles = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Build a table on Spark from its whole history; load it.

    Spark builds a snapshot of the table from every event that the log still has, its cold tier
    included, or that --source has. The log then loads it without stopping: events that came
    meanwhile are counted first, and until then the table is read as it was. A directory is free
    for others while Spark works.
    """
    need_spark()
    if no_load and folder is None:
        raise InvalidArgument("--no-load needs --folder: the place where the snapshot is kept")
    if folder is not None:
        _check(folder)
    where = target.Target(data_dir, url, token_file)
    history = history_of(where, source)
    session = session_of(master, remote, memory, conf, py_files)
    with target.existing(where) as log:
        found = asked(log, table)
    log_id = history.log_id(found.table, where)
    with _place(folder) as place:
        doing = f"building {table} from the events in {history.name}"
        with running(session, history, doing) as spark:
            from penstock.spark.feature_backfill import backfill as build

            events = history.source(spark, found.table.topic)
            built = build(
                spark, found.document, table, events, place.path, log_id=log_id, buckets=tasks
            )
        if built.first_seq > 1:
            output.info(
                f"the oldest record that was read is seq {built.first_seq:,}: there are no older "
                f"ones in {history.name}"
            )
        loaded = None if no_load else _load(where, built, place)
    _print(built, loaded, place, as_json=as_json)


@dataclass(slots=True)
class _Place:
    """The folder of a snapshot, and whether it stays."""

    path: str
    stays: bool


@contextlib.contextmanager
def _place(folder: Path | None) -> Iterator[_Place]:
    """The given folder, or a temporary one, which is removed at the end unless it is to stay."""
    if folder is not None:
        yield _Place(os.path.abspath(folder), True)
        return
    place = _Place(tempfile.mkdtemp(prefix="penstock-backfill-"), False)
    try:
        yield place
    finally:
        if not place.stays:
            shutil.rmtree(place.path, ignore_errors=True)


def _load(where: target.Target, built: FeatureSnapshot, place: _Place) -> FeatureLoaded:
    """What took long to build stays if it cannot be loaded."""
    output.info(f"loading {output.many(built.keys, 'key')}")
    try:
        with target.existing(where) as log:
            return log.features.load(built.table, place.path)
    except BaseException:
        place.stays = True
        output.info(
            f"the snapshot stays in {place.path}; where the log sees this path, "
            f"`penstock features load {built.table} {place.path}` loads it"
        )
        raise


def _check(folder: Path) -> None:
    """A snapshot replaces what is in its folder. Refuse a folder that has something else."""
    if folder.is_dir() and not (folder / LIST_NAME).exists() and any(folder.iterdir()):
        raise InvalidArgument(
            f"--folder: {folder} is neither empty nor a snapshot: choose a new folder"
        )
    if folder.exists() and not folder.is_dir():
        raise InvalidArgument(f"--folder: {folder} is not a folder: choose a new one")


def _print(
    built: FeatureSnapshot, loaded: FeatureLoaded | None, place: _Place, *, as_json: bool
) -> None:
    if as_json:
        answer = None if loaded is None else msgspec.to_builtins(loaded)
        kept = place.path if place.stays else None
        output.json_line(msgspec.to_builtins(built) | {"folder": kept, "loaded": answer})
        return
    done = "built" if loaded is None else "loaded"
    more = "" if loaded is None else features_load.further(loaded)
    output.line(
        f"{done} {built.table}: {output.many(built.keys, 'key')}, {output.size(built.bytes)}, as "
        f"of seq {built.offset.seq:,}{more}"
    )
    if place.stays:
        output.line(f"the snapshot is in {place.path}")
    if loaded is None:
        output.line(f"to load it: penstock features load {built.table} {place.path}")
    else:
        features_load.warn_unsaved(loaded)
