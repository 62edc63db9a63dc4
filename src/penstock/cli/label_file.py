"""Files of labels, and of the training sets that Spark makes from them."""

from __future__ import annotations

import glob
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from penstock.errors import InvalidArgument, StorageError

_FORMATS: Final = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".json": "json",
    ".jsonl": "json",
}
_WRITTEN: Final = (".csv", ".parquet")
_SPARK: Final = {"i64": "long", "str": "string", "bool": "boolean"}  # types of key columns


class LabelFile(NamedTuple):
    """A file or folder, here or at a URL that Spark knows."""

    path: str
    format: str

    @property
    def is_local(self) -> bool:
        return "://" not in self.path

    @property
    def url(self) -> str:
        """For Spark, whose own default may be another file system."""
        return f"file://{os.path.abspath(self.path)}" if self.is_local else self.path

    def read(self, spark: Any, keys: Mapping[str, str]) -> Any:
        """A DataFrame. Columns of the key have the types of the table: a card 0042 in a CSV file is
        no number. A row that does not fit fails the query."""
        reader = spark.read.format(self.format)
        if self.format == "parquet":
            return reader.load(self.url)
        reader = reader.options(header=True, inferSchema=True, inferTimestamp=True, mode="FAILFAST")
        schema = reader.load(self.url).schema
        told = schema.jsonValue()
        for field in told["fields"]:
            if field["name"] in keys:
                field["type"] = _SPARK[keys[field["name"]]]
        return reader.schema(type(schema).fromJson(told)).load(self.url)

    def write(self, rows: Any, order: Sequence[str]) -> None:
        """One file with the rows in this order, which appears when it is complete; at a URL a
        folder of files in any order."""
        if not self.is_local:
            self._writer(rows, "overwrite").save(self.url)
            return
        path = os.path.abspath(self.path)
        beside = f"{os.path.dirname(path)}/.{os.path.basename(path)}-{secrets.token_hex(4)}"
        try:
            ordered = rows.repartition(1).sortWithinPartitions(*map(quoted, order))
            self._writer(ordered, "error").save(f"file://{beside}")
            parts = glob.glob(f"{glob.escape(beside)}/part-*")
            if len(parts) != 1:
                raise StorageError(
                    path,
                    reason=f"Spark wrote {len(parts)} files where this machine sees them",
                    hint="choose a folder that all machines of the cluster share",
                )
            os.replace(parts[0], path)
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def _writer(self, rows: Any, mode: str) -> Any:
        writer = rows.write.mode(mode).format(self.format)
        return writer.option("header", True) if self.format == "csv" else writer

    def counts(self, spark: Any, rows: Any, features: Sequence[str]) -> tuple[int, int]:
        """How many rows were written, and in how many of these every feature is null."""
        reader = spark.read.schema(rows.schema).format(self.format)
        empty = " AND ".join(f"{quoted(name)} IS NULL" for name in features) or "false"
        written = reader.option("header", True).load(self.url)
        found = written.selectExpr("count(*) AS all", f"count_if({empty}) AS empty").first()
        return found["all"], found["empty"]


def labels_of(path: str) -> LabelFile:
    """The file that `--labels` names, which must exist."""
    kind = _FORMATS.get(_ending(path))
    if kind is None:
        raise InvalidArgument(
            f"--labels: cannot tell the format of {path}: expected a name that ends in "
            ".csv, .parquet, .json or .jsonl (JSON lines)"
        )
    found = LabelFile(path, kind)
    if found.is_local and not os.path.exists(path):
        raise InvalidArgument(f"--labels: no such file {path}")
    return found


def written_to(path: str, *, overwrite: bool) -> LabelFile:
    """The file that `--out` names, which must not exist yet, or may be replaced."""
    if _ending(path) not in _WRITTEN:
        raise InvalidArgument(
            f"--out: cannot tell the format of {path}: expected a name that ends in .csv or "
            ".parquet"
        )
    found = LabelFile(path, _FORMATS[_ending(path)])
    if not found.is_local:
        return found
    if os.path.isdir(path):
        raise InvalidArgument(f"--out: {path} is a folder: choose another name")
    if os.path.exists(path) and not overwrite:
        raise InvalidArgument(
            f"--out: {path} exists already: choose another name, or pass --overwrite"
        )
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise InvalidArgument(f"--out: no such folder {folder}")
    return found


def quoted(name: str) -> str:
    """A column name as an SQL identifier."""
    return "`{}`".format(name.replace("`", "``"))


def _ending(path: str) -> str:
    return os.path.splitext(path.rstrip("/"))[1].lower()
