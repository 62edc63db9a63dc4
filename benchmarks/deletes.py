"""Delete by tag among many sealed records: which files are touched, how many syncs."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.cli.figure import PAYLOAD, Figure, folder, seconds
from penstock.engine.open_log import open_log
from penstock.storage.fs import OsFilesystem
from penstock.types import Record


class _Watched(OsFilesystem):
    """Records which files are mapped."""

    def __init__(self) -> None:
        super().__init__()
        self.mapped: list[str] = []

    def map(self, path: str) -> memoryview:
        self.mapped.append(path)
        return super().map(path)


def delete_figures(root: str, scale: float) -> Iterator[Figure]:
    records = int(1_000_000 * max(scale, 0.1))
    batch = [
        Record(PAYLOAD, tag="chosen" if n % 200 == 0 else f"other-{n % 100}") for n in range(10_000)
    ]
    with folder(root) as path:
        with open_log(path, wal_shards=1) as log:
            for _ in range(records // 10_000):
                log.append("events", batch)
            log.compact()
        fs = _Watched()
        with open_log(path, wal_shards=1, fs=fs) as log:
            fs.mapped.clear()
            syncs = log.stats().wal_syncs_total
            removed: list[int] = []
            elapsed = seconds(lambda: removed.append(log.delete("events", tag="chosen").deleted))
            syncs = log.stats().wal_syncs_total - syncs
            data = sum(name.endswith(".data") for name in fs.mapped)
        note = f"{removed[0]:,} of {records:,} records"
        yield Figure("delete by tag", elapsed * 1000, "ms", note)
        yield Figure("  … data files read", data, "files", "", 0, at_most=True)
        yield Figure("  … syncs", syncs, "syncs", "", 1, at_most=True)
