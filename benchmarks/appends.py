"""Appends of class `disk`: batches of 1,000 and of 1, compiled and interpreted."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.repository import with_benchmarks
from penstock.cli.figure import PAYLOAD, Figure, best, folder
from penstock.codec import kernel
from penstock.engine.open_log import open_log

_BATCH = 1_000


def rate(root: str, records: int, batch: int) -> float:
    """Records a CPU second: all threads of the log counted, so it is what one core does."""
    with folder(root) as path, open_log(path, wal_shards=1) as log:
        log.create("events")
        payloads = [PAYLOAD] * batch
        for _ in range(10):
            log.append("events", payloads)
        started, used = time.perf_counter(), time.process_time()
        for _ in range(records // batch):
            log.append("events", payloads)
        elapsed = max(time.perf_counter() - started, time.process_time() - used)
        return records / elapsed


def append_figures(root: str, scale: float) -> Iterator[Figure]:
    many, single = int(400_000 * max(scale, 0.1)), int(50_000 * scale)
    goal = 3_000_000 if kernel.COMPILED else 700_000
    yield Figure(
        "append, disk, batches of 1,000, one core",
        best(3, lambda: rate(root, many, _BATCH)),
        "records/s",
        "100-byte JSON texts, validated; before a checkpoint is due; best of 3",
        goal,
    )
    yield Figure(
        "append, disk, batches of 1,000, checkpoints included",
        rate(root, int(3_000_000 * scale), _BATCH),
        "records/s",
        "every byte is written twice: WAL, then segment",
    )
    if kernel.COMPILED:
        yield Figure(
            "append, disk, batches of 1,000, one core, no kernel",
            _interpreted(root, many // 2),
            "records/s",
            "the same with PENSTOCK_PURE=1, in a process of its own",
            700_000,
        )
    yield Figure(
        "append, disk, batches of 1",
        best(3, lambda: rate(root, single, 1)),
        "records/s",
        "one thread; best of 3",
        60_000,
    )


def _interpreted(root: str, records: int) -> float:
    code = (
        "import sys; from benchmarks.appends import rate, best;"
        "print(best(3, lambda: rate(sys.argv[1], int(sys.argv[2]), 1000)))"
    )
    environment = {**with_benchmarks(), "PENSTOCK_PURE": "1"}
    answer = subprocess.run(
        [sys.executable, "-c", code, root, str(max(records, 10_000))],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(answer.stdout)
