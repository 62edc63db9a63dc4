"""`penstock bench log`: a short check of what the embedded log does on this machine.

The benchmarks proper are in the folder `benchmarks` of the repository and are not installed.
"""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Generator
from typing import Any, Final

import typer
from typer.core import TyperGroup

from penstock.cli.figure import PAYLOAD, Figure, folder, report_figures, seconds
from penstock.cli.options import MORE, AsJson, ScratchDir
from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.errors import InvalidArgument, PenstockError
from penstock.storage.fs import OsFilesystem
from penstock.types import Appended

NOT_INSTALLED: Final = ("server", "queue", "router", "sender", "spark", "compare")
_BATCH: Final = 1_000
_RECORDS: Final = 200_000
_SINGLE: Final = 10_000
_SYNC_S: Final = 1.0  # how long each measurement with syncs lasts
_IN_FLIGHT: Final = 64


class BenchGroup(TyperGroup):
    """Says where the benchmarks are that this command does not have."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in NOT_INSTALLED:
            raise InvalidArgument(
                f"the benchmark {cmd_name!r} is not part of the installed package: clone the "
                f"repository and run `python -m benchmarks {cmd_name}` in its root folder"
            )
        return super().get_command(ctx, cmd_name)


def register(app: typer.Typer) -> None:
    group = typer.Typer(cls=BenchGroup, no_args_is_help=True, help="Measure this machine.")
    group.callback()(lambda: None)  # keeps a group of one command a group
    group.command("log")(log)
    app.add_typer(group, name="bench", rich_help_panel=MORE)


def log(directory: ScratchDir = None, as_json: AsJson = False) -> None:
    """Check the embedded log: append, sync, read and reopen, beside what the disk allows.

    Takes a few seconds. The full benchmarks are in the repository: `python -m benchmarks`.
    """
    report_figures(log_figures, directory, as_json=as_json)


def log_figures(root: str) -> Generator[Figure]:
    with folder(root) as path:
        with open_log(path, wal_shards=1) as events:
            yield _append(events, "append, disk, batches of 1,000", _RECORDS, _BATCH)
            yield _append(events, "append, disk, batches of 1", _SINGLE, 1)
            yield _read(events)
        elapsed = seconds(lambda: open_log(path, wal_shards=1).close())
        yield Figure("reopen", elapsed * 1000, "ms", f"{_RECORDS + _SINGLE:,} records")
    with folder(root) as path:
        yield from _syncs(path)


def _append(events: Log, name: str, records: int, batch: int) -> Figure:
    payloads = [PAYLOAD] * batch

    def append_all() -> None:
        for _ in range(records // batch):
            events.append("events", payloads)

    return Figure(name, records / seconds(append_all), "records/s", "payloads of 100 bytes")


def _read(events: Log) -> Figure:
    count = 0

    def read_all() -> None:
        nonlocal count
        after, caught_up = 0, False
        while not caught_up:
            page = events.read_json("events", after, _BATCH)
            count += page.count
            after, caught_up = page.next_seq, page.caught_up

    elapsed = seconds(read_all)
    if count != _RECORDS + _SINGLE:
        raise AssertionError(f"read {count} of {_RECORDS + _SINGLE} records")
    return Figure("read, pages of 1,000 as JSON", count / elapsed, "records/s")


def _syncs(path: str) -> Generator[Figure]:
    bare = _bare_syncs(path)
    note = "a write of 100 bytes and its fdatasync, nothing else"
    yield Figure("syncs that the disk allows", bare, "syncs/s", note)
    with open_log(os.path.join(path, "log"), wal_shards=1) as events:
        events.create("events", durability="fsync")
        one = _fsync_rate(events, 1)
        yield Figure("append, fsync, 1 record in flight", one, "records/s")
        yield Figure("  … against the bare syncs", one / bare, "times")
        many = _fsync_rate(events, _IN_FLIGHT)
        note = "one sync commits many records"
        yield Figure(f"append, fsync, {_IN_FLIGHT} records in flight", many, "records/s", note)
        yield Figure("  … against 1 in flight", many / one, "times")


def _bare_syncs(path: str) -> float:
    fs = OsFilesystem()
    file = fs.create(os.path.join(path, "bare"))
    file.allocate(1 << 20)
    done, started = 0, time.perf_counter()
    while time.perf_counter() < started + _SYNC_S:
        file.write_at(PAYLOAD, done * len(PAYLOAD) % (1 << 19))
        file.sync()
        done += 1
    elapsed = time.perf_counter() - started
    file.close()
    return done / elapsed


def _fsync_rate(events: Log, in_flight: int) -> float:
    """Records a second, with so many submitted and not yet acknowledged."""
    answers: queue.SimpleQueue[Appended | PenstockError] = queue.SimpleQueue()
    for _ in range(in_flight):
        events.submit("events", [PAYLOAD], answers.put)
    done, started = 0, time.perf_counter()
    while time.perf_counter() < started + _SYNC_S:
        answer = answers.get()
        if isinstance(answer, PenstockError):
            raise answer
        done += 1
        events.submit("events", [PAYLOAD], answers.put)
    for _ in range(in_flight):
        answers.get()
    return (done + in_flight) / (time.perf_counter() - started)
