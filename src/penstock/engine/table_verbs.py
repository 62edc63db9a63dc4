"""The verbs of `Log` for keyed tables, as methods of it."""

from __future__ import annotations

from typing import Protocol

from penstock.engine.core import LogCore
from penstock.engine.interruptible_calls import uninterrupted
from penstock.errors import TableNotFound
from penstock.projection_types import GapPolicy, TableInfo
from penstock.projections.host import ProjectionHost
from penstock.projections.keyed_table import KeyedTable
from penstock.topics import validation


class _HasCore(Protocol):
    @property
    def core(self) -> LogCore: ...


def projections(self: _HasCore) -> ProjectionHost:
    """The host of all tables and other projections of this log."""
    return self.core.projections.host


@uninterrupted
def table(
    self: _HasCore,
    name: str,
    key: str | None = None,
    *,
    topic: str | None = None,
    on_gap: GapPolicy | None = None,
    bytes_max: int | None = None,
) -> KeyedTable:
    """The newest record of each key of a topic. Without a key: the existing table. With one, the
    table is created when it is missing: `key` is a field of the data, `tag` or `node`; the topic
    has the name of the table unless another is named, and need not exist. Durable on return."""
    found = self.core.projections.tables
    validation.topic_name(name, "table")
    if key is None:
        return found.get(name)
    source = validation.topic_name(name if topic is None else topic)
    return found.create(name, source, key, on_gap=on_gap, bytes_max=bytes_max)[0]


def tables(self: _HasCore, prefix: str = "") -> list[TableInfo]:
    """All tables whose name starts with `prefix`, sorted by name."""
    infos = []
    for one in self.core.projections.tables.all(prefix):
        try:
            infos.append(one.info())
        except TableNotFound:  # dropped meanwhile
            continue
    return infos


@uninterrupted
def drop_table(self: _HasCore, name: str) -> bool:
    """Remove a table; false when there is none. Its topic stays. Durable on return."""
    return self.core.projections.tables.drop(name)
