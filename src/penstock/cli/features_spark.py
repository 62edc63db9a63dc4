"""What `penstock features backfill`, `train` and `verify` share: options, the definition, Spark."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from penstock.cli import output, spark_options
from penstock.cli.features_history import History
from penstock.cli.features_target import document_of
from penstock.cli.spark_options import PANEL
from penstock.errors import InvalidArgument
from penstock.feature_types import FeatureTableStatus

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.engine.engine import Log
    from penstock.lake.sessions import SparkTarget

_NAME: Final = "penstock features"  # of the Spark session
# The stack traces of Java: the error is raised, and reported in one line.
_LOG_LEVEL: Final = "OFF"
_STEP_S: Final = 0.5

Source = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SOURCE",
        show_default=False,
        help="Read the events from another data directory, a server (http://…), a lake (folder "
        "with pipeline.toml) or Parquet files (….parquet), instead of from the log. Several, the "
        "oldest first: each goes on where the one before ends.",
    ),
]
Tasks = Annotated[
    int,
    typer.Option(
        "--tasks",
        metavar="COUNT",
        min=0,
        show_default="one for each core of Spark",
        help="Divide the keys among this many tasks.",
        rich_help_panel=PANEL,
    ),
]


class Asked(NamedTuple):
    """A table and the definition that Spark computes it from."""

    table: FeatureTableStatus
    document: dict[str, list[dict[str, Any]]]


def need_spark() -> None:
    """Raise the error that names the missing packages, before an import fails."""
    spark_options.need_spark()
    try:
        import penstock.features.definition  # noqa: F401
    except ModuleNotFoundError as error:
        raise InvalidArgument(
            f"features need the package {error.name}, which is not installed: "
            'pip install "penstock[spark,features]"'
        ) from None


def session_of(
    master: str,
    remote: str,
    memory: str,
    conf: list[str] | None,
    py_files: list[str] | None,
) -> SparkTarget:
    """The session that a command line describes."""
    return spark_options.spark_target(
        _NAME, master, remote, memory, conf, py_files, log_level=_LOG_LEVEL
    )


def asked(log: Log | Client, table: str) -> Asked:
    """What Spark has to know about a table. TableNotFound names those that are there."""
    return Asked(log.features.table(table), document_of(log))


@contextlib.contextmanager
def running(where: SparkTarget, history: History, doing: str) -> Iterator[Any]:
    """A Spark session that does what these words say, with its progress on a terminal."""
    from penstock.lake import sessions

    output.info(f"starting Spark on {where.remote or where.master}")
    with sessions.opened(history.name, where) as spark:
        output.info(doing)
        with output.progress("Tasks") as step, _counting(spark, step):
            yield spark


@contextlib.contextmanager
def _counting(spark: Any, step: output.Progress) -> Iterator[None]:
    """Tell the tasks of the running stages until the work is done."""
    from penstock.lake import sessions

    done = threading.Event()

    def count() -> None:
        while not done.wait(_STEP_S):
            told = sessions.tasks_of(spark)
            if told is None:
                return
            if told[1]:
                step(*told)

    teller = threading.Thread(target=count, name="penstock-spark-progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()
