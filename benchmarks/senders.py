"""Senders: what a flush costs its caller, what arrives, what idling takes; beside QuestDB's own.

The official client sends rows of the same size to the same server, over QWP, with a spool on the
same disk. It has no batch call: its rows are added one by one.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final

from benchmarks.server_own import create, own_server
from benchmarks.server_process import Running
from penstock.cli.figure import PAYLOAD, Figure, folder
from penstock.sender.sender import Sender

_ROWS: Final = 1000
_EVERY_S: Final = 0.01  # a producer with something else to do: 100,000 rows/s
_PACED: Final = 7  # times longer than a rate is measured: a p99 needs a thousand flushes and more
_FIELDS: Final = {
    "user": 12345,
    "event": "page_view",
    "path": "/products/9876",
    "ms": 42,
    "ref": "https://shop.example/home",
}


def sender_figures(root: str, seconds: float) -> Generator[Figure]:
    with folder(root) as path, own_server(path) as server:
        if not isinstance(server, Running):
            yield Figure("flush() of 1,000 rows, disk", float("nan"), "ms", server.reason)
            return
        for topic in ("flushed", "batches", "rows"):
            create(server, topic, durability="fsync")
        conf = f"ws::addr=127.0.0.1:{server.port};"
        yield from _flushes(path, server.port, conf, seconds)
        yield from _rates(path, conf, seconds)
        yield _idle(path, conf, seconds)


def _flushes(path: str, port: int, conf: str, seconds: float) -> Iterator[Figure]:
    """Rows that were appended in a batch, and one by one as the official client has them."""
    paced, rushed = {}, {}
    with Sender(f"{conf}sf_dir={_make_folder(path, 'flushes')};auto_flush=off;") as sender:

        def batch() -> None:
            sender.append_batch("flushed", [PAYLOAD] * _ROWS)

        def rows() -> None:
            for _ in range(_ROWS):
                sender.append("flushed", PAYLOAD)

        for name, fill in (("in a batch", batch), ("one by one", rows)):
            paced[name] = _timed(fill, sender.flush, seconds)
            rushed[name] = _timed(fill, sender.flush, seconds / 2, lambda: sender.drain(30))
    theirs = _official(path, port, seconds)
    for at, (pace, ours) in enumerate((("one each 10 ms", paced), ("no pause", rushed))):
        for name, took in ours.items():
            title = f"flush() of 1,000 rows, disk, {name}, p50"
            yield Figure(title, _p50(took), "ms", pace)
            worst = _p99(took) / _p50(took)
            title = "  … its p99 against its own p50"
            if ours is paced:
                yield Figure(title, worst, "times", pace, 3.0, at_most=True)
            else:
                note = f"{pace}: producer, sender and server compete for the cores"
                yield Figure(title, worst, "times", note)
        title = "  … the official questdb client, p50"
        if isinstance(theirs, str):
            yield Figure(title, float("nan"), "ms", theirs)
            continue
        other = theirs[at]
        worst = _p99(other) / _p50(other)
        yield Figure(title, _p50(other), "ms", f"{pace}; p99 {worst:.1f} times that")
        for name, took in ours.items():
            ratio = _p50(took) / _p50(other)
            title = f"  … ours against it, {name}, p50"
            yield Figure(title, ratio, "times", pace, 1.0, at_most=True)


def _official(path: str, port: int, seconds: float) -> tuple[list[float], list[float]] | str:
    """The times of its flushes, with pauses and without; or the reason why there are none."""
    try:
        from questdb.ingress import Sender as Official
        from questdb.ingress import TimestampNanos
    except ImportError:
        return "not installed; pip install questdb"
    spool = _make_folder(path, "official")
    official: Any = Official.from_conf(f"ws::addr=127.0.0.1:{port};sf_dir={spool};auto_flush=off;")
    with contextlib.closing(official):
        official.establish()

        def fill() -> None:
            for _ in range(_ROWS):
                official.row("official", columns=_FIELDS, at=TimestampNanos.now())

        def wait_until_acknowledged() -> None:
            fsn = official.published_fsn()
            if fsn is not None:
                official.await_acked_fsn(fsn, 30_000)

        paced = _timed(fill, official.flush, seconds)
        return paced, _timed(fill, official.flush, seconds / 2, wait_until_acknowledged)


def _rates(path: str, conf: str, seconds: float) -> Iterator[Figure]:
    """Rows that the server has acknowledged, past its sync."""
    batch = [PAYLOAD] * _ROWS

    def many(sender: Sender) -> int:
        sender.append_batch("batches", batch)
        return _ROWS

    def single(sender: Sender) -> int:
        append = sender.append
        for _ in range(_ROWS):
            append("rows", PAYLOAD)
        return _ROWS

    for name, work, goal in (
        ("rows/s end to end, in batches of 1,000", many, 1_000_000),
        ("rows/s end to end, one append a row", single, 400_000),
    ):
        spool = _make_folder(path, name.replace("/", "").replace(" ", "-").replace(",", ""))
        with Sender(f"{conf}sf_dir={spool};") as sender:
            rates = [_rate(sender, work, seconds) for _ in range(3)]
        note = f"100 B; fsync topic, spool on disk; median of 3, {min(rates):,.0f} the lowest"
        yield Figure(name, statistics.median(rates), "rows/s", note, goal)


def _rate(sender: Sender, work: Callable[[Sender], int], seconds: float) -> float:
    rows, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        rows += work(sender)
    if not sender.drain(60):
        return float("nan")
    return rows / (time.perf_counter() - started)


def _idle(path: str, conf: str, seconds: float) -> Figure:
    with Sender(f"{conf}sf_dir={_make_folder(path, 'idle')};") as sender:
        sender.append("rows", PAYLOAD)
        sender.drain(30)
        before, started = time.process_time(), time.perf_counter()
        threading.Event().wait(max(1.0, seconds))
        share = (time.process_time() - before) / (time.perf_counter() - started)
    return Figure("idle connected sender", share * 100, "% of a core", "", 1.0, at_most=True)


def _timed(
    fill: Callable[[], object],
    flush: Callable[[], object],
    seconds: float,
    catch_up: Callable[[], object] | None = None,
) -> list[float]:
    """Milliseconds of each flush: one each `_EVERY_S`; or, with `catch_up`, one after the other.
    `catch_up` waits for the server now and then, so that the spool stays small."""
    took: list[float] = []
    pause = threading.Event()
    begun = time.perf_counter()
    lasts_s = seconds * (_PACED if catch_up is None else 2)
    while (now := time.perf_counter()) < begun + lasts_s or len(took) < 50:
        fill()
        started = time.perf_counter()
        flush()
        took.append((time.perf_counter() - started) * 1e3)
        if catch_up is None:
            pause.wait(max(0.0, now + _EVERY_S - time.perf_counter()))
        elif len(took) % 50 == 0:
            catch_up()
    return took


def _make_folder(path: str, name: str) -> str:
    place = os.path.join(path, name)
    os.mkdir(place)
    return place


def _p50(took: list[float]) -> float:
    return statistics.median(took)


def _p99(took: list[float]) -> float:
    return sorted(took)[int(len(took) * 0.99)]
