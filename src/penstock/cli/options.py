"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeVar

import typer

T = TypeVar("T")

DEFAULT_DIR = Path("penstock-data")

# Panels of `penstock --help`.
RECORDS = "Records"
TOPICS = "Topics"
DIRECTORY = "The data directory"
MORE = "More"

DataDir = Annotated[
    Path,
    typer.Option(
        "--data-dir", "-d", metavar="DIR", envvar="PENSTOCK_DATA_DIR", help="The data directory."
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Use the server at http://… or https://… instead of a directory."
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File with the server's token. [$PENSTOCK_TOKEN]"),
]
PlacedDir = Annotated[
    Path | None, typer.Argument(metavar="DIR", show_default=False, help="The data directory.")
]
ScratchDir = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        "--directory",
        metavar="DIR",
        exists=True,
        file_okay=False,
        writable=True,
        show_default="the system's temporary folder",
        help="Folder for scratch files, on a real disk. They are removed at the end.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
AsJsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]


def chosen(placed: Path | None, named: Path) -> Path:
    """`penstock fsck DIR` and `penstock fsck -d DIR` mean the same."""
    return named if placed is None else placed
