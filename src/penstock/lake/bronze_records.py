"""The records of one topic in a lake, as a history to compute features from."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from penstock.errors import InvalidArgument
from penstock.lake import bronze as bronzes
from penstock.lake import dataframes, layout
from penstock.lake.manifest import DataFile
from penstock.lake.project import Project
from penstock.storage.fs import OsFilesystem


def log_id_of(project: Project) -> str:
    """The id of the log that the lake was read from; empty if it is not known yet."""
    held = layout.bronze(OsFilesystem(), project).current()
    return "" if held is None else held.inputs.get("log", "")


def bronze_records(spark: SparkSession, project: Project, topic: str) -> DataFrame:
    """What the newest commit of bronze has of the present epoch of the topic, without the records
    that were deleted in the log since they were read."""
    table = layout.bronze(OsFilesystem(), project)
    held = table.current()
    if held is None:
        raise InvalidArgument(
            f"{project.lake.path} has no records yet: `penstock pipeline run {project.root}` "
            "reads them"
        )
    position = held.offsets.get(topic)
    if position is None:
        known = ", ".join(sorted(held.offsets)) or "no topics"
        raise InvalidArgument(
            f"{project.lake.path} has no records of topic {topic!r}: it has {known}"
        )

    def files(part: str) -> list[DataFile]:
        return [
            file for file in held.of(part) if (file.topic, file.epoch) == (topic, position.epoch)
        ]

    rows = dataframes.read(spark, table, files(bronzes.RECORDS), dataframes.RECORDS)
    deletes = files(bronzes.DELETES)
    if not deletes:
        return rows
    return dataframes.without(rows, dataframes.read(spark, table, deletes, dataframes.DELETES))
