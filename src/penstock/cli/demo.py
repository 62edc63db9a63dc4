"""`penstock demo`: the main job from end to end, in a directory that is removed afterwards."""

from __future__ import annotations

import itertools
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import typer

from penstock.cli import demo_writer, output
from penstock.cli.compact import disk_bytes
from penstock.cli.exit_codes import ExitCode
from penstock.cli.options import MORE, ScratchDir
from penstock.cli.scratch import scratch
from penstock.clock import SystemClock
from penstock.codec import kernel
from penstock.engine.engine import Log
from penstock.engine.fsck import check
from penstock.engine.open_log import open_log
from penstock.errors import StorageError
from penstock.storage.fs import OsFilesystem
from penstock.types import Durability

EVENTS = 100_000
BATCH = 1_000
CAP = 20_000
KILLED_AFTER = 200  # acknowledged appends

_CLASSES: tuple[tuple[str, Durability, dict[str, int], str], ...] = (
    ("presence", "ephemeral", {}, "kept in RAM only"),
    ("metrics", "memory", {"cap_records": CAP}, f"the newest {CAP:,} records, no promise"),
    ("clicks", "disk", {}, "acknowledged when written, synced within 50 ms"),
    (demo_writer.TOPIC, "fsync", {}, "acknowledged when it is past a sync of the disk"),
)
_ACTIONS = ("view", "search", "add to cart", "buy")


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=MORE)(demo)


def demo(directory: ScratchDir = None) -> None:
    """Run the main job end to end in a temporary directory and print what happens.

    Topics of each class, 100,000 events, a gap, a delete, a killed writer, a check. Takes a
    few seconds and leaves nothing behind.
    """
    with scratch(directory, "demo") as folder:
        root = f"{folder}/data"
        with open_log(root) as log:
            _create(log, root)
            _append(log)
            _read_with_gap(log)
            _delete(log)
        missing = _kill_and_reopen(root)
        _compact(root)
        is_clean = _check(root)
        _show_directory(root)
    if missing or not is_clean:
        raise typer.Exit(ExitCode.DAMAGE)
    output.line()
    output.line('Next: `penstock append TOPIC \'{"any": "json"}\'`, then `penstock read TOPIC`.')


def _step(title: str) -> None:
    output.line()
    output.line(output.paint(title, "bold"))


def _print(text: str) -> None:
    output.line(f"  {text}")
    output.flush()  # a step can take a second: show it when it is done


class _Timer:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._start = self._clock.monotonic()

    @property
    def seconds(self) -> float:
        return max(self._clock.monotonic() - self._start, 1e-9)

    def rate(self, count: int) -> str:
        return f"{count / self.seconds:,.0f} a second"


def _create(log: Log, root: str) -> None:
    form = "compiled" if kernel.COMPILED else "interpreted"
    output.line(f"A log in {root}, kernel {form}.")
    _step("Topics, one of each durability class")
    for name, durability, caps, meaning in _CLASSES:
        log.create(name, durability=durability, **caps)
        _print(f"{name:9} {output.paint(f'{durability:10}', 'cyan')} {meaning}")


def _events(count: int) -> Iterator[list[bytes]]:
    """Batches of JSON texts, the same in every run."""
    chance = random.Random(4000)
    encode = msgspec.json.Encoder().encode
    for first in range(0, count, BATCH):
        yield [
            encode(
                {
                    "user": chance.randrange(5_000),
                    "action": chance.choice(_ACTIONS),
                    "page": f"/item/{chance.randrange(800)}",
                    "n": number,
                }
            )
            for number in range(first, first + BATCH)
        ]


def _append(log: Log) -> None:
    _step(f"Append {EVENTS:,} events to clicks, {BATCH:,} at a time")
    batches = list(_events(EVENTS))
    timer = _Timer()
    for number, batch in enumerate(batches):
        log.append("clicks", batch, tag=f"day-{number * 7 // len(batches) + 1}", node="web-1")
    _print(f"{timer.seconds:.2f} s: {timer.rate(EVENTS)}")
    timer = _Timer()
    log.sync()
    _print(f"and {timer.seconds * 1000:.1f} ms to have all of it past a sync")
    timer = _Timer()
    for batch in batches[:20]:
        log.append(demo_writer.TOPIC, batch, tag="imported")
    _print(f"fsync class: {timer.rate(20 * BATCH)}, each batch past a sync before the next began")
    log.append("presence", [{"user": 17, "is": "here"}])


def _read_with_gap(log: Log) -> None:
    _step(f"Read metrics, which keeps {CAP:,} records and was given {2 * CAP:,}")
    for first in range(0, 2 * CAP, BATCH):
        log.append("metrics", [{"cpu": number % 100} for number in range(first, first + BATCH)])
    after, count, timer = 0, 0, _Timer()
    while True:
        page = log.read_json("metrics", after, 10_000)
        if page.gap is not None:
            gap = page.gap
            _print(output.paint(f"-- gap {gap.first}..{gap.last} ({gap.reason}) --", "yellow"))
        count += page.count
        after = page.next_seq
        if page.caught_up:
            break
    _print(f"then {count:,} records up to seq {after:,}, {timer.rate(count)}")
    _print("lost records are reported once, at their position")


def _delete(log: Log) -> None:
    _step("Delete a day of clicks by its tag")
    timer = _Timer()
    removed = log.delete("clicks", tag="day-3")
    ms = timer.seconds * 1000
    _print(
        f"{removed.deleted:,} records deleted permanently in {ms:.1f} ms, {removed.count:,} left"
    )
    page = log.read("clicks", after=0, limit=1)
    _print(
        "readers see no gap: deletes are not reported as gaps"
        if page.gap is None
        else f"a gap? {page.gap}"
    )


def _kill_and_reopen(root: str) -> int:
    """The number of acknowledged records that are missing afterwards. It must be 0."""
    _step("Kill a writer with SIGKILL while it appends to payments")
    command = [sys.executable, "-m", demo_writer.__name__, root]
    # In a process group of its own: Ctrl-C is for this process, which then kills the writer.
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as child:
        if child.stdout is None:
            raise AssertionError("the child's output was asked for")
        try:
            lines = list(itertools.islice(child.stdout, KILLED_AFTER))
        finally:  # also after Ctrl-C: its directory is removed next
            child.send_signal(signal.SIGKILL)
        # A line that the kill cut short is an acknowledgement that was not received.
        lines += [line for line in child.stdout if line.endswith("\n")]
    acknowledged = [int(line) for line in lines]
    if child.returncode != -signal.SIGKILL or not acknowledged:
        raise StorageError(
            root, reason=f"the writer ended by itself with exit code {child.returncode}"
        )
    _print(
        f"process {child.pid} is dead; its appends were acknowledged up to seq {acknowledged[-1]:,}"
    )
    timer = _Timer()
    with open_log(root) as log:
        _print(f"opened again in {timer.seconds * 1000:.0f} ms")
        held: set[int] = set()
        after = acknowledged[0] - 1
        while True:
            page = log.read(demo_writer.TOPIC, after, 10_000)
            held.update(record.seq for record in page.records)
            after = page.next_seq
            if page.caught_up:
                break
        missing = len(set(acknowledged) - held)
        word = output.paint(str(missing), "red bold" if missing else "green bold")
        _print(f"of {len(acknowledged):,} acknowledged payments {word} are missing")
        lost = log.read("presence", 0)
        if lost.gap is not None:
            _print(
                f"presence is in RAM only: readers get a gap from seq {lost.gap.first}, reason lost"
            )
    return missing


def _compact(root: str) -> None:
    _step("Compact")
    before = sum(disk_bytes(root))
    timer = _Timer()
    with open_log(root) as log:
        log.compact()
        segments = log.stats().segments
    after = sum(disk_bytes(root))
    _print(f"WAL into {output.many(segments, 'segment')} in {timer.seconds:.2f} s")
    _print(f"{output.size(before)} → {output.size(after)}: the deleted day is off the disk too")


def _check(root: str) -> bool:
    _step("Check every byte")
    timer = _Timer()
    report = check(OsFilesystem(), root)
    verdict = output.paint("clean", "green bold") if report.is_clean else "damaged"
    _print(
        f"{verdict}: {output.many(report.files, 'file')}, {output.many(report.records, 'record')}, "
        f"{output.size(report.bytes)} in {timer.seconds:.2f} s"
    )
    for problem in report.problems:
        _print(f"{problem.path}: {problem.reason}")
    return report.is_clean


def _show_directory(root: str) -> None:
    _step("The directory")
    for path in sorted(Path(root).rglob("*")):
        if path.is_file():
            name = path.relative_to(root).as_posix()
            _print(f"{output.size(path.stat().st_size):>10}  {name}")
