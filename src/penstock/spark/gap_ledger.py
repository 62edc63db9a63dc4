"""The gap ledger of a stream: a directory with one JSON file for each gap.

A file is named after its gap, so a batch that runs again writes no second file. If the gap has
grown since, it writes only the new part. Spark reads the directory as a table of JSON lines.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import msgspec

from penstock.spark.gaps import GapRow
from penstock.storage import atomic
from penstock.storage.fs import Filesystem, OsFilesystem

_REST: Final = "rest"
_END: Final = 1 << 63  # above every seq


class Ledger:
    """Several processes may write to it at the same time."""

    def __init__(self, directory: str, fs: Filesystem | None = None) -> None:
        self._directory = directory
        self._fs = fs or OsFilesystem()

    def record(self, rows: Iterable[GapRow], noticed_ms: int) -> int:
        """Write files for gaps that have none, durably; how many were new."""
        fresh = [part for row in rows for part in self._unrecorded(row)]
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
            # Another task may have written the same file already.
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                atomic.write_whole(self._fs, self._path(row), [line, b"\n"])
        self._fs.sync_dir(self._directory)
        return len(fresh)

    def _unrecorded(self, row: GapRow) -> Iterator[GapRow]:
        """The parts of a gap that no file has yet. Two tasks may write the same part."""
        stem = _stem(row)
        held: list[tuple[int, int]] = []
        for name in self._fs.list(self._directory):
            if name.startswith(stem) and name.endswith(".json"):
                low_text, _, high_text = name[len(stem) : -len(".json")].partition("-")
                held.append((int(low_text), _END if high_text == _REST else int(high_text)))
        first, end = row.first, _END if row.last is None else row.last
        for low, high in sorted(held):
            if low > end:
                break
            if first < low:
                yield replace(row, first=first, last=low - 1)
            first = max(first, high + 1)
        if first <= end:
            yield replace(row, first=first)

    def _path(self, row: GapRow) -> str:
        last = _REST if row.last is None else row.last
        return f"{self._directory}/{_stem(row)}{row.first}-{last}.json"


def _stem(row: GapRow) -> str:
    digest = hashlib.sha256(f"{row.topic}\0{row.epoch}".encode()).hexdigest()[:24]
    return f"gap-{digest}-"


def _moment(ms: int) -> str:
    import datetime

    moment = datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
