"""The features of a log, in a directory or at a server, for the commands of `penstock features`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.engine.engine import Log

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.client.features import ClientFeatures
    from penstock.features.store import FeatureStore

Table = Annotated[
    str,
    typer.Argument(metavar="TABLE", show_default=False, help="Name of the feature table."),
]
Key = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY", show_default=False, help="A value for each key column."),
]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--feature",
        "-f",
        metavar="NAME",
        show_default="all",
        help="Only this feature. May be repeated.",
    ),
]


def caught_up(log: Log | Client) -> FeatureStore | ClientFeatures:
    """The features with what is known now. In a directory nobody folds between two commands."""
    if isinstance(log, Log):
        log.features.wait(0)
    return log.features


def document_of(log: Log | Client) -> dict[str, list[dict[str, Any]]]:
    """The registered definition."""
    return log.features.definition.to_json() if isinstance(log, Log) else log.features.definition()
