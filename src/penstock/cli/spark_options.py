"""Options of the commands that run Spark, and the session that they describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.errors import InvalidArgument

if TYPE_CHECKING:  # Spark is loaded by the verbs that run it
    from penstock.lake.sessions import SparkTarget

PANEL: Final = "Spark"  # of the help

Master = Annotated[
    str, typer.Option(metavar="URL", help="Master URL of Spark.", rich_help_panel=PANEL)
]
Remote = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="Spark Connect server instead: sc://host. [$SPARK_REMOTE]",
        rich_help_panel=PANEL,
    ),
]
Memory = Annotated[
    str, typer.Option(metavar="SIZE", help="Memory of the driver.", rich_help_panel=PANEL)
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="KEY=VALUE",
        help="A Spark setting. May be repeated.",
        rich_help_panel=PANEL,
    ),
]
PyFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--py-files",
        metavar="FILES",
        help="Files for the executors, separated by commas. May be repeated.",
        rich_help_panel=PANEL,
    ),
]


def need_spark() -> None:
    """Raise the error that names the missing packages, before an import fails."""
    from penstock.spark import session  # noqa: F401


def spark_target(
    name: str,
    master: str,
    remote: str,
    memory: str,
    conf: list[str] | None,
    py_files: list[str] | None,
    *,
    ui: bool = False,
    log_level: str = "ERROR",
) -> SparkTarget:
    """The session that a command line describes. InvalidArgument for a setting that is none."""
    from penstock.lake.sessions import SparkTarget

    settings, files = _settings(conf), _files(py_files)
    return SparkTarget(master, memory, ui, remote, settings, files, name, log_level)


def _settings(given: list[str] | None) -> dict[str, str]:
    found = {}
    for one in given or ():
        key, sep, value = one.partition("=")
        if not sep or not key:
            raise InvalidArgument(
                f"invalid --conf {one!r}: expected KEY=VALUE, as in spark.executor.memory=1g"
            )
        found[key.strip()] = value.strip()
    return found


def _files(given: list[str] | None) -> list[str]:
    return [path for one in given or () for path in one.split(",") if path]
