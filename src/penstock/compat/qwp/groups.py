"""Groups of messages that are committed together, and their appends. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from penstock import limits
from penstock.compat.qwp.codec import Message, QwpTable
from penstock.compat.qwp.keys import MessageNumber

_GROUP_ROWS_MAX: Final = 1_000_000
_GROUP_BYTES_MAX: Final = limits.BATCH_BYTES_MAX
_GROUP_MESSAGES_MAX: Final = 65_536


@dataclass(slots=True, eq=False)
class Entry:
    """A message without an answer so far."""

    seq: int
    is_deferred: bool = False
    is_done: bool = False
    error: Exception | None = None
    tables: dict[str, int] = field(default_factory=dict)  # topic -> last seq
    marks: list[MessageNumber] = field(default_factory=list)  # of what is committed with it


class Group:
    """Messages that are to be committed together. It is bounded: a longer one is committed in
    between."""

    def __init__(self) -> None:
        self.tables: list[QwpTable] = []
        self.entries: list[Entry] = []
        self._rows = 0
        self._bytes = 0

    def has_room_for(self, message: Message) -> bool:
        rows, size = _measured(message)
        return (
            self._rows + rows <= _GROUP_ROWS_MAX
            and self._bytes + size <= _GROUP_BYTES_MAX
            and len(self.entries) < _GROUP_MESSAGES_MAX
        )

    def add(self, entry: Entry, message: Message) -> None:
        rows, size = _measured(message)
        self._rows += rows
        self._bytes += size
        self.tables += message.tables
        self.entries.append(entry)
        entry.is_deferred = True


def _measured(message: Message) -> tuple[int, int]:
    """(how many rows, how many bytes of them)"""
    rows = sum(len(table.rows) for table in message.tables)
    return rows, sum(sum(map(len, table.rows)) for table in message.tables)


def rounds(group: list[QwpTable]) -> list[list[QwpTable]]:
    """Appends one after the other, each with every topic at most once and no batch too long."""
    whole: dict[str, list[bytes]] = {}
    untimed = {table.name for table in group if not table.is_timed}
    for table in group:
        if table.rows:
            whole.setdefault(table.name, []).extend(table.rows)
    found: list[list[QwpTable]] = []
    for name, rows in whole.items():
        for number, start in enumerate(range(0, len(rows), limits.BATCH_RECORDS_MAX)):
            if number == len(found):
                found.append([])
            piece = rows[start : start + limits.BATCH_RECORDS_MAX]
            found[number].append(QwpTable(name, piece, name not in untimed))
    return found
