"""Gaps that a stream has met, kept in a directory: one file of JSON a gap.

A file is named after the gap it holds, so a batch that is run again writes nothing new. Spark
reads the directory as one table of JSON lines.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable

import msgspec

from penstock.spark.gaps import GapRow
from penstock.storage import atomic
from penstock.storage.fs import Filesystem, OsFilesystem


class Ledger:
    """Several processes may write to it at the same time."""

    def __init__(self, directory: str, fs: Filesystem | None = None) -> None:
        self._directory = directory
        self._fs = fs or OsFilesystem()

    def note(self, rows: Iterable[GapRow], noticed_ms: int) -> int:
        """Durable on return; says how many were new."""
        fresh = [row for row in rows if not self._fs.exists(self._path(row))]
        if not fresh:
            return 0
        self._fs.make_dirs(self._directory)
        for row in fresh:
            line = msgspec.json.encode(
                {
                    "topic": row.topic,
                    "epoch": row.epoch,
                    "first": row.first,
                    "last": row.last,
                    "reason": row.reason,
                    "noticed": _moment(noticed_ms),
                }
            )
            # Another task that met the same gap may be faster: its file says the same.
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                atomic.write_whole(self._fs, self._path(row), [line, b"\n"])
        self._fs.sync_dir(self._directory)
        return len(fresh)

    def _path(self, row: GapRow) -> str:
        key = f"{row.topic}\0{row.epoch}\0{row.first}\0{row.last}"
        digest = hashlib.sha256(key.encode()).hexdigest()[:32]
        return f"{self._directory}/gap-{digest}.json"


def _moment(ms: int) -> str:
    import datetime

    moment = datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
