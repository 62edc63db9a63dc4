"""The status of a lake: its commits, and its lag behind the log. Needs no Spark."""

from __future__ import annotations

import msgspec

from penstock.lake import counts as log_counts
from penstock.lake import layout
from penstock.lake.project import Project
from penstock.lake.table_commits import Table
from penstock.storage.fs import Filesystem


class TableStatus(msgspec.Struct, frozen=True):
    """A table by its newest manifest. Version 0 means that it has no commit yet."""

    name: str
    version: int
    act: str
    made_ms: int
    rows: dict[str, int]  # by kind of rows
    files: int
    bytes: int


class TopicStatus(msgspec.Struct, frozen=True):
    """A topic and the seq up to which it has been read."""

    name: str
    epoch: int
    seq: int
    head_seq: int
    lag: int


class LakeStatus(msgspec.Struct, frozen=True):
    """The whole lake."""

    is_running: bool
    tables: list[TableStatus]
    topics: list[TopicStatus]
    lag: int


def status(fs: Filesystem, project: Project) -> LakeStatus:
    """The status now. Locks and changes nothing."""
    tables = [_table(table) for table in layout.tables(fs, project)]
    held = layout.bronze(fs, project).current()
    offsets = {} if held is None else held.offsets
    counts = log_counts.of_source(project.source)
    topics = []
    for name, facts in sorted(counts.topics.items()):
        position = offsets.get(name)
        is_here = position is not None and position.epoch == facts.epoch
        seq = position.seq if position is not None and is_here else 0
        lag = log_counts.lag_of(counts, name, position)
        topics.append(TopicStatus(name, facts.epoch, seq, facts.head, lag))
    lag = sum(one.lag for one in topics)
    is_running = fs.is_locked(f"{project.lake.path}/{layout.LOCK}")
    return LakeStatus(is_running, tables, topics, lag)


def _table(table: Table) -> TableStatus:
    held = table.current()
    if held is None:
        return TableStatus(table.name, 0, "none", 0, {}, 0, 0)
    parts = sorted({file.part for file in held.files})
    return TableStatus(
        table.name,
        held.version,
        held.act,
        held.made_ms,
        {part: held.rows(part) for part in parts},
        len(held.files),
        sum(file.bytes for file in held.files),
    )
