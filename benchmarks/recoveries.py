"""Opening again: by replaying the WAL, and from a checkpoint of many records."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

from penstock.cli.figure import PAYLOAD, Figure, best, folder, seconds
from penstock.config import Settings
from penstock.engine.engine import Log
from penstock.engine.open_log import open_log

_CHILD = """
import json, re, sys, time
from penstock.engine.open_log import open_log
started = time.perf_counter()
log = open_log(sys.argv[1], wal_shards=1)
elapsed = time.perf_counter() - started
count = log.topic("events").count
page = log.read("events", count // 2, 10)
peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
log.close()
print(json.dumps({"s": elapsed, "records": count, "peak_kib": peak, "read": len(page.records)}))
"""


def recovery_figures(root: str, scale: float) -> Iterator[Figure]:
    yield from _replay(root, int(1_000_000 * max(scale, 0.1)))
    yield from _reopen(root, int(10_000_000 * scale))


def _replay(root: str, records: int) -> Iterator[Figure]:
    with folder(root) as path:
        quiet = Settings(  # nothing is absorbed: all of it is replayed
            wal_shards=1,
            checkpoint_wal_bytes=1 << 40,
            segment_max_bytes=1 << 30,
            segment_max_events=10_000_000,
        )
        with open_log(path, settings=quiet) as log:
            for _ in range(records // 1_000):
                log.append("events", [PAYLOAD] * 1_000)

        def replay() -> float:
            logs: list[Log] = []
            elapsed = seconds(lambda: logs.append(open_log(path, settings=quiet)))
            replayed = logs[0].recovery.records_replayed
            logs[0].close()
            if replayed != records:
                raise AssertionError(f"replayed {replayed} of {records} records")
            return records / elapsed

        yield Figure(
            "recovery, WAL replay, page cache warm",
            best(3, replay),
            "records/s",
            "every checksum verified; best of 3",
            4_000_000,
        )


def _reopen(root: str, records: int) -> Iterator[Figure]:
    with folder(root) as path:
        with open_log(path, wal_shards=1) as log:
            batch = [PAYLOAD] * 10_000
            for _ in range(records // 10_000):
                log.append("events", batch)
            log.compact()
            segments = log.topic("events").segments
        answer = subprocess.run(
            [sys.executable, "-c", _CHILD, path], capture_output=True, text=True, check=True
        )
        found = json.loads(answer.stdout)
        note = f"{found['records']:,} records in {segments} segments, in a new process"
        yield Figure("reopen after a checkpoint", found["s"], "s", note, 1.0, at_most=True)
        yield Figure(
            "  … peak memory of that process",
            found["peak_kib"] / 1024,
            "MiB",
            "interpreter and a page read from the middle included",
            200,
            at_most=True,
        )
