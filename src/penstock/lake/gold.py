"""Gold: tables that are rebuilt when the tables they read have changed."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import cast

from pyspark.sql import DataFrame, SparkSession

from penstock.clock import Clock
from penstock.errors import InvalidArgument
from penstock.lake import dataframes
from penstock.lake.manifest import Manifest, digest_text
from penstock.lake.project import Gold
from penstock.lake.table_commits import Table

ROWS = "rows"
Maker = Callable[[SparkSession, Mapping[str, DataFrame]], DataFrame]


def build(
    spark: SparkSession,
    table: Table,
    rules: Gold,
    tables: Mapping[str, DataFrame],
    commits: Mapping[str, str],
    clock: Clock,
) -> Manifest:
    """The table for these commits of its inputs: the present commit if they are unchanged, else a
    new one."""
    held = table.current()
    inputs = dict(sorted(commits.items()))
    inputs["rules"] = digest_text(_text(rules).encode())
    if held is not None and held.inputs == inputs:
        return held
    version = held.version + 1 if held is not None else 1
    with _views(spark, tables) if rules.sql else contextlib.nullcontext():
        rows = _by_sql(spark, rules) if rules.sql else _by_python(spark, rules, tables)
        files = dataframes.stage(table, rows, ROWS, by_topic=False, since=version)
    made = Manifest(
        table=rules.name,
        version=version,
        act="build",
        made_ms=clock.now_ms(),
        inputs=inputs,
        files=files,
    )
    table.commit(made)
    return made


def _text(rules: Gold) -> str:
    """The file that defines the table, as text."""
    path = rules.sql or rules.python.rpartition(":")[0]
    try:
        return f"{rules.python}\n{Path(path).read_text(encoding='utf-8')}"
    except OSError as error:
        raise InvalidArgument(f"gold.{rules.name}: {path}: {error.strerror}") from None


def _by_sql(spark: SparkSession, rules: Gold) -> DataFrame:
    return spark.sql(Path(rules.sql).read_text(encoding="utf-8").strip().rstrip(";"))


@contextlib.contextmanager
def _views(spark: SparkSession, tables: Mapping[str, DataFrame]) -> Iterator[None]:
    """Registers the tables as views. Spark Connect resolves them only when a query runs."""
    for name, frame in tables.items():
        frame.createOrReplaceTempView(dataframes.quoted(name))
    try:
        yield
    finally:
        for name in tables:
            spark.catalog.dropTempView(name)


def _by_python(spark: SparkSession, rules: Gold, tables: Mapping[str, DataFrame]) -> DataFrame:
    path, _, name = rules.python.rpartition(":")
    spec = importlib.util.spec_from_file_location(f"penstock_gold_{rules.name}", path)
    if spec is None or spec.loader is None:
        raise InvalidArgument(f"gold.{rules.name}: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    maker = getattr(module, name, None)
    if not callable(maker):
        raise InvalidArgument(f"gold.{rules.name}: {path} has no function {name}")
    rows = cast("Maker", maker)(spark, tables)
    if not isinstance(rows, DataFrame):
        raise InvalidArgument(f"gold.{rules.name}: {name} must return a DataFrame")
    return rows
