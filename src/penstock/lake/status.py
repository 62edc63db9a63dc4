"""How a lake stands: what is committed, and how far that is behind the log. Needs no Spark."""

from __future__ import annotations

import msgspec

from penstock.lake import census as censuses
from penstock.lake import layout
from penstock.lake.project import Project
from penstock.lake.table import Table
from penstock.storage.fs import Filesystem


class TableStatus(msgspec.Struct, frozen=True):
    """A table as its newest manifest tells. Version 0: there is none yet."""

    name: str
    version: int
    act: str
    made_ms: int
    rows: dict[str, int]  # by kind of rows
    files: int
    bytes: int


class TopicStatus(msgspec.Struct, frozen=True):
    """A topic and how far it has been read."""

    name: str
    epoch: int
    seq: int
    head_seq: int
    lag: int


class Status(msgspec.Struct, frozen=True):
    """The whole lake."""

    is_running: bool
    tables: list[TableStatus]
    topics: list[TopicStatus]
    lag: int


def status(fs: Filesystem, project: Project) -> Status:
    """As of now. Nothing is locked or changed."""
    tables = [_table(table) for table in layout.tables(fs, project)]
    held = layout.bronze(fs, project).current()
    offsets = {} if held is None else held.offsets
    census = censuses.take(project.source)
    topics = []
    for name, facts in sorted(census.topics.items()):
        place = offsets.get(name)
        is_here = place is not None and place.epoch == facts.epoch
        seq = place.seq if place is not None and is_here else 0
        lag = censuses.lag_of(census, name, place)
        topics.append(TopicStatus(name, facts.epoch, seq, facts.head, lag))
    lag = sum(one.lag for one in topics)
    is_running = fs.is_locked(f"{project.lake.path}/{layout.LOCK}")
    return Status(is_running, tables, topics, lag)


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
