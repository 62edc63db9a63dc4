"""Reads in pages of 1,000 into JSON: from the tail in memory, and from mapped segments."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.cli.figure import PAYLOAD, Figure, best, folder, seconds
from penstock.engine.engine import Log
from penstock.engine.open_log import open_log


def read_figures(root: str, scale: float) -> Iterator[Figure]:
    records = int(400_000 * max(scale, 0.1)) // 1_000 * 1_000
    with folder(root) as path:
        with open_log(path, wal_shards=1, checkpoint_wal_bytes=1 << 40) as log:
            for _ in range(records // 1_000):
                log.append("events", [PAYLOAD] * 1_000)
            yield Figure(
                "read, warm tail, pages of 1,000 as JSON",
                best(3, lambda: records / seconds(lambda: _read_all(log, records))),
                "records/s",
                "best of 3",
                8_000_000,
            )
            log.compact()
        with open_log(path, wal_shards=1) as log:
            yield Figure(
                "read, mapped segments, pages of 1,000 as JSON",
                best(3, lambda: records / seconds(lambda: _read_cold(log, records))),
                "records/s",
                "every frame's checksum verified, views dropped before; best of 3",
                4_000_000,
            )


def _read_cold(log: Log, records: int) -> None:
    log.core.parts.shelf.maps.forget("")
    _read_all(log, records)


def _read_all(log: Log, records: int) -> None:
    after = count = 0
    while True:
        page = log.read_json("events", after, 1_000)
        count += page.count
        after = page.next_seq
        if page.caught_up:
            break
    if count != records:
        raise AssertionError(f"read {count} of {records} records")
