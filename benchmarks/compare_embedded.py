"""Measurements of the embedded log that run in the process of a source tree under comparison.

    PYTHONPATH=TREE/src python compare_embedded.py PART FOLDER SECONDS

Prints what was counted as JSON. It uses the public API alone and imports nothing else of this
repository, because the tree that it measures may be an older one.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import penstock

PAYLOAD = (  # 100 bytes
    b'{"user":12345,"event":"page_view","path":"/products/9876",'
    b'"ms":42,"ref":"https://shop.example/home"}'
)
PAGE = 1_000
PAGES = 100
JOBS = 100
Step = Callable[[], int]
"""Does a piece of work and returns how many records or jobs it was."""


def append_many(log: penstock.Log) -> Step:
    log.create("events", durability="disk")
    batch = [PAYLOAD] * 1_000
    return lambda: log.append("events", batch).count


def append_one(log: penstock.Log) -> Step:
    log.create("events", durability="disk")
    return lambda: log.append("events", [PAYLOAD]).count


def append_fsync(log: penstock.Log) -> Step:
    log.create("events", durability="fsync")
    return lambda: log.append("events", [PAYLOAD]).count


def read_pages(log: penstock.Log) -> Step:
    for _ in range(PAGES):
        log.append("events", [PAYLOAD] * PAGE)

    def read_all() -> int:
        after = count = 0
        caught_up = False
        while not caught_up:
            page = log.read_json("events", after, PAGE)
            count += page.count
            after, caught_up = page.next_seq, page.caught_up
        return count

    return read_all


def claim_and_ack(log: penstock.Log) -> Step:
    log.create("jobs", type="queue", durability="fsync")

    def cycle() -> int:
        jobs = log.claim("jobs", "bench", JOBS).jobs
        if not jobs:
            log.append("jobs", [PAYLOAD] * 1_000)
            return 0
        return log.ack("jobs", "bench", jobs).done

    return cycle


PARTS: dict[str, Callable[[penstock.Log], Step]] = {
    "append1000": append_many,
    "append1": append_one,
    "fsync1": append_fsync,
    "read1000": read_pages,
    "claims": claim_and_ack,
}


def main(part: str, folder: str, seconds: float) -> None:
    with penstock.open(folder, wal_shards=1) as log:
        step = PARTS[part](log)
        step()
        count, started, used = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() < started + seconds:
            count += step()
        elapsed, cpu = time.perf_counter() - started, time.process_time() - used
    sys.stdout.write(json.dumps({"count": count, "seconds": elapsed, "cpu_seconds": cpu}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
