"""`penstock features train`: a training set from labels, with the features of their time."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from penstock.cli import label_file, output, target
from penstock.cli.features_history import history_of
from penstock.cli.features_spark import (
    Source,
    Tasks,
    asked,
    need_spark,
    running,
    session_of,
)
from penstock.cli.features_target import Names, Table
from penstock.cli.options import DEFAULT_DIR, AsJson, DataDir, TokenFile, Url
from penstock.cli.spark_options import (
    Conf,
    Master,
    Memory,
    PyFiles,
    Remote,
)

Clock = Literal["event", "log"]


def train(
    table: Table,
    labels: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="The labels: .csv with a header, .parquet, or .jsonl. Columns: the table's key, "
            "the time, and any others.",
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            metavar="FILE", show_default=False, help="The training set: .csv or .parquet."
        ),
    ],
    ts: Annotated[
        str,
        typer.Option(metavar="COLUMN", help="The time of a label: a timestamp, or ms since 1970."),
    ] = "ts",
    clock: Annotated[
        Clock | None,
        typer.Option(
            show_default="event, if events have a time of their own",
            help="Features at the time of the label by the events, or by the log.",
        ),
    ] = None,
    features: Names = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing training set.")
    ] = False,
    source: Source = None,
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
    """Make a training set: labels with the features of their time.

    Each row of the labels is written with the features that its key had at its time, computed by
    Spark from the history. No row has an event from its future. Local files are written whole, with
    the rows in the order of key and time; a URL (s3a://…) gets a folder of files.
    """
    need_spark()
    given = label_file.labels_of(labels)
    made = label_file.written_to(out, overwrite=overwrite)
    where = target.Target(data_dir, url, token_file)
    history = history_of(where, source)
    session = session_of(master, remote, memory, conf, py_files)
    with target.existing(where) as log:
        found = asked(log, table)
    doing = f"computing {table} at the times in {labels} from the events in {history.name}"
    with running(session, history, doing) as spark:
        from penstock.spark.feature_training import training_set

        keys = dict(zip(found.table.key, found.table.key_types, strict=True))
        rows = training_set(
            spark,
            found.document,
            table,
            history.source(spark, found.table.topic),
            given.read(spark, keys),
            ts=ts,
            clock=clock,
            features=features,
            buckets=tasks,
        )
        names = list(dict.fromkeys(features)) if features else found.table.features
        made.write(rows, [*keys, ts])
        count, empty = made.counts(spark, rows, names)
    if as_json:
        answer = {"table": table, "path": made.path, "rows": count, "rows_without_features": empty}
        output.json_line({**answer, "columns": rows.columns})
        return
    output.line(
        f"wrote {output.many(count, 'row')} with {output.many(len(names), 'feature')} to "
        f"{made.path}"
    )
    if empty:
        output.info(f"{output.many(empty, 'row')} without features: no events of the key by then")
