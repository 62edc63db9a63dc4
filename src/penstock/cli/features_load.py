"""`penstock features load`: takes over a snapshot that `backfill` built."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import output, target
from penstock.cli.features_target import Table
from penstock.cli.options import DEFAULT_DIR, AsJson, DataDir, TokenFile, Url
from penstock.feature_types import FeatureLoaded


def load(
    table: Table,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", show_default=False, help="What `backfill --folder` wrote."
        ),
    ],
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Load a snapshot that `backfill` built.

    It needs no Spark. Events that came after the snapshot are counted first; until then the table
    is read as it was. A server must see FOLDER at the same path.
    """
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        loaded = log.features.load(table, os.path.abspath(folder))
    if as_json:
        output.json_line(loaded)
        return
    output.line(
        f"loaded {table}: {output.many(loaded.keys, 'key')}, as of seq {loaded.snapshot.seq:,}"
        f"{further(loaded)}"
    )
    warn_unsaved(loaded)


def further(loaded: FeatureLoaded) -> str:
    """The place up to which the topic was folded behind the snapshot."""
    if loaded.applied == loaded.snapshot:
        return ""
    return f", with the events up to {loaded.applied.seq:,} since then"


def warn_unsaved(loaded: FeatureLoaded) -> None:
    if not loaded.is_saved:
        output.warning(
            "the new state could not be saved; it is tried again at the next save, and a restart "
            "before that brings back the old state: see the log, then load again"
        )
