"""Routers: one topic copied into a hundred, how fast and at what cost to the log."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Final

from penstock.cli.figure import PAYLOAD, Figure, folder
from penstock.codec.frame import FRAME_BYTES_MIN
from penstock.engine.open_log import open_log

_DESTS: Final = 100
_BATCH: Final = 1000
_BATCHES: Final = 4
_BODY_BYTES: Final = 6  # of a record's body around its data


def router_figures(root: str, seconds: float) -> Generator[Figure]:
    with folder(root) as path, open_log(path) as log:
        for number in range(_DESTS):
            log.create_router(f"to-{number:03}", "source", f"copy-{number:03}")
        before = log.stats()
        batch = [PAYLOAD] * _BATCH
        appended = 0
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            for _ in range(_BATCHES):
                appended += log.append("source", batch).count
            for number in range(_DESTS):
                log.topic(f"copy-{number:03}")  # returns when everything has arrived
        took_s = time.perf_counter() - started
        copies = sum(info.forwarded_total for info in log.routers())
        after = log.stats()
    if copies != appended * _DESTS:
        raise AssertionError(f"{copies} copies of {appended} records in {_DESTS} topics")
    name = f"router fan-out 1 to {_DESTS}, derived records"
    yield Figure(name, copies / took_s, "records/s", "appends of 1000 included", 500_000)
    logged = after.router_copies_logged_total - before.router_copies_logged_total
    note = f"{logged:,} of {copies:,} copies were logged with their bytes"
    yield Figure("the same, records written to the WAL for one", 1 + logged / appended, "", note)
    size = after.wal_frames_bytes_total - before.wal_frames_bytes_total
    bare = appended * (len(PAYLOAD) + _BODY_BYTES + FRAME_BYTES_MIN)
    yield Figure("the same, WAL bytes against the source's alone", size / bare, "times", "")
