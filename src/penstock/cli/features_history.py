"""Where Spark reads the events of a feature table: the log itself, or a longer history of it, which
may be in several places."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.cli import pipeline, target
from penstock.directory import log_identity
from penstock.errors import InvalidArgument
from penstock.feature_types import FeatureTableStatus
from penstock.lake.project import FILE
from penstock.storage.fs import OsFilesystem
from penstock.storage.tiers.objects import is_url

if TYPE_CHECKING:
    from penstock.lake.project import Project
    from penstock.spark.feature_sources import FeatureHistory, FeatureSource

_SERVERS: Final = ("http://", "https://")
_PARQUET: Final = ".parquet"


class HistorySource(NamedTuple):
    """A data directory, a cold tier or a server (`options`), a lake (`project`), or Parquet files
    with the records (`parquet`). `name` is as it was given."""

    name: str
    options: Mapping[str, str] = {}
    project: Project | None = None
    parquet: str = ""

    def source(self, spark: Any, topic: str) -> FeatureSource:
        """What the functions of `penstock.spark` take."""
        if self.project is not None:
            from penstock.lake.bronze_records import bronze_records

            return bronze_records(spark, self.project, topic)
        if self.parquet:
            found: FeatureSource = spark.read.parquet(self.parquet)
            return found
        return self.options

    def log_id(self, table: FeatureTableStatus, where: target.Target) -> str:
        """The id of the log that the events are of; empty: Spark finds it. Parquet files do not
        tell it, and are taken for those of the log that has the table."""
        if self.project is not None:
            from penstock.lake.bronze_records import log_id_of

            return log_id_of(self.project) or table.log_id
        path, url = self.options.get("path", ""), self.options.get("url", "")
        if path and not is_url(path):
            return ""  # a data directory tells it to Spark
        if url and url != where.url:
            with target.connect(where._replace(url=url)) as client:
                return client.features.table(table.name).log_id
        return table.log_id


class History(NamedTuple):
    """Sources that follow one another, the oldest first."""

    sources: tuple[HistorySource, ...]

    @property
    def name(self) -> str:
        return " and ".join(source.name for source in self.sources)

    def source(self, spark: Any, topic: str) -> FeatureHistory:
        found = [source.source(spark, topic) for source in self.sources]
        return found if len(found) > 1 else found[0]

    def log_id(self, table: FeatureTableStatus, where: target.Target) -> str:
        """The id of the log that the events are of; empty: Spark finds it."""
        found = {source.log_id(table, where) for source in self.sources} - {""}
        if len(found) > 1:
            raise InvalidArgument(
                f"--source: {self.name} are of different logs ({', '.join(sorted(found))}): "
                "expected parts of one history"
            )
        return found.pop() if found else ""


def history_of(where: target.Target, given: Sequence[str] | None) -> History:
    """The history that `--source` names, by default the log that has the table."""
    if given:
        return History(tuple(_named(where, name) for name in given))
    if where.url is None:
        root = target.root_of(where.data_dir)
        return History((_directory(str(where.data_dir), root),))
    return History((_named(where, where.url),))


def _named(where: target.Target, name: str) -> HistorySource:
    if name.startswith(_SERVERS):
        token = target.token_of(where.token_file)
        return HistorySource(name, {"url": name} | ({"token": token} if token else {}))
    if name.rstrip("/").endswith(_PARQUET):
        if "://" not in name and not os.path.exists(name):
            raise InvalidArgument(f"--source: no such file or folder {name}")
        return HistorySource(name, parquet=_located(name))
    if is_url(name):
        return HistorySource(name, {"path": name})
    root = os.path.abspath(name)
    if os.path.exists(f"{root}/{FILE}"):
        return HistorySource(name, project=pipeline.load(Path(root)))
    if log_identity.read(OsFilesystem(), root) is not None:
        return _directory(name, root)
    raise InvalidArgument(
        f"--source: {name} holds no history; expected a data directory, the URL of a server, a "
        f"folder with {FILE}, or Parquet files ({_PARQUET})"
    )


def _directory(name: str, root: str) -> HistorySource:
    return HistorySource(name, {"path": root})


def _located(name: str) -> str:
    """A path for Spark, whose own default may be another file system."""
    return name if "://" in name else f"file://{os.path.abspath(name)}"
