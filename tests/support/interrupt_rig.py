"""Interrupt one verb at one place, go on, and compare with a log that was not interrupted.

A trial opens a log, prepares it, and interrupts the verb of its case. Then the same log goes on:
more appends, a repeated call, claims, reads. After that it is closed, checked and opened again.
What readers see live, after a kill and after the close must be what an uninterrupted log shows
that did the verb wholly, or not at all.
"""

from __future__ import annotations

import itertools
import shutil
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from penstock import Log, Settings
from penstock.clock import SystemClock
from penstock.engine import fsck
from penstock.engine.open_log import open_log
from penstock.errors import LogFailed
from penstock.storage.fs import Filesystem, OsFilesystem
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import ROOT
from tests.support.interrupt_cases import Act, Case, World
from tests.support.serving import eventually
from tests.support.signal_points import SOURCE, interrupt

HANG_S = 120.0  # far above any pause: it only ends a trial that hangs
_NEVER_MS = 60_000
_AN_HOUR_MS = 3_600_000

Sight = dict[str, Any]
"""What readers can see of a log."""


class MovableClock(SystemClock):
    """The machine's clock, and what the rig adds to it."""

    def __init__(self) -> None:
        self._added_ms = 0.0

    def now_ms(self) -> int:
        return super().now_ms() + int(self._added_ms)

    def monotonic(self) -> float:
        return super().monotonic() + self._added_ms / 1000

    def advance(self, ms: float) -> None:
        self._added_ms += ms


class Disk:
    """Where the log of one trial lives, and how it is opened."""

    threaded: bool
    clock: FakeClock | MovableClock
    _fs: Filesystem
    _root: str

    def open(self) -> Log:
        settings = Settings(
            background=self.threaded,
            wal_shards=2,
            wal_file_bytes=64 << 10,
            segment_max_events=8,
            sync_tick_ms=5,
            upkeep_interval_ms=_NEVER_MS,
            append_timeout_s=HANG_S * 2,  # a commit that nobody resolves is a hang
        )
        return open_log(
            self._root,
            settings=settings,
            fs=self._fs,
            clock=self.clock,
            random_bytes=Random(0).randbytes,
        )

    def killed(self) -> Disk | None:
        """A copy as a kill at this moment leaves it."""
        return None

    def problems(self) -> list[str]:
        report = fsck.check(self._fs, self._root)
        return [f"fsck: {one.path} {one.reason}" for one in report.problems]

    def remove(self) -> None:
        """Give the space back."""


class MemoryDisk(Disk):
    """No threads, no real files, time stands still: the same calls give the same bytes."""

    threaded = False

    def __init__(self, fs: MemoryFilesystem | None = None) -> None:
        self.memory = fs or MemoryFilesystem()
        self._fs = self.memory
        self._root = ROOT
        self.clock = FakeClock()

    def killed(self) -> Disk:
        disk = MemoryDisk(self.memory.copy().kill())
        disk.clock = self.clock
        return disk


class RealDisk(Disk):
    """Real files and the log's own threads."""

    threaded = True

    def __init__(self, home: Path, number: int) -> None:
        self._path = home / f"log-{number}"
        self._root = str(self._path)
        self._fs = OsFilesystem()
        self.clock = MovableClock()

    def remove(self) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


# Looking.


def look(log: Log) -> Sight:
    """Everything but times and ids, which a call that was interrupted may use up."""
    settle(log)
    sight: Sight = {}
    for info in log.topics():
        sight[info.name] = {
            "config": info.config,
            "head": info.head_seq,
            "earliest": info.earliest_seq,
            "count": info.count,
            "bytes": info.bytes,
            "content": list(content(log, info.name)),
            "positions": [(one.name, one.seq, one.lag_records) for one in log.positions(info.name)],
        }
        if info.config.type == "queue":
            sight[info.name]["jobs"] = log.queue_counts(info.name)
            sight[info.name]["schedules"] = [
                (one.seq, one.cron) for one in log.schedules(info.name)
            ]
    sight["routers"] = [
        (one.name, one.source, one.dest, one.filter, one.exactly_once, one.lag_records, one.stopped)
        for one in log.routers()
    ]
    return sight


def content(log: Log, topic: str) -> Iterator[object]:
    after = 0
    while True:
        page = log.read(topic, after)
        if page.gap is not None:
            yield ("gap", page.gap.first, page.gap.last, page.gap.reason)
        yield from ((record.seq, record.data, record.tag) for record in page.records)
        if page.caught_up:
            return
        after = page.next_seq


def settle(log: Log) -> None:
    """Everything that is queued is written, and routers have copied what there is."""
    log.sync()
    for (
        shard
    ) in log.core.parts.shards:  # its own thread applies what an interrupted call left behind
        eventually(lambda shard=shard: not shard._is_work_left(), "an idle shard")
    for name in log.core.catalogue.names():
        log.read(name, limit=1)


def go_on(case: Case, world: World) -> list[object]:
    """Use the log as its owner would after the exception; the answers."""
    log = world.log
    answers: list[object] = []
    settle(log)
    if case.repeats:
        case.act(world)
        settle(log)
    for number in (1, 2):
        for topic in case.topics:
            done = log.append(topic, [f"later {number}"], tag="c", idempotency_key=f"k{number}")
            answers.append((topic, done.first_seq, done.deduped))
            settle(log)
    for info in log.topics():
        if info.config.type == "queue":
            world.clock.advance(_AN_HOUR_MS)  # leases and delays are over
            claimed = log.claim(info.name, "later", 100)
            jobs = sorted(claimed.jobs, key=lambda job: job.seq)  # their order is not promised
            answers.append([(job.seq, job.data, job.deliveries) for job in jobs])
            log.ack(info.name, "later", jobs[:1])
            log.nack(info.name, "later", jobs[1:2])
            answers.append(log.queue_counts(info.name))
    return answers


@dataclass
class Course:
    """What came of a log after the verb: answers, and what was seen of it."""

    answers: list[object]
    sights: dict[str, Sight]

    def without_seqs(self) -> Course:
        """The records alone, in their order."""
        return Course(
            [],
            {
                when: {
                    name: {"content": [one[1:] for one in topic["content"] if one[0] != "gap"]}
                    for name, topic in sight.items()
                    if name != "routers"
                }
                for when, sight in self.sights.items()
            },
        )


def rest_of(case: Case, world: World, disk: Disk) -> Course:
    """Go on with the log, then end it in every way, and look each time."""
    answers = go_on(case, world)
    sights = {"live": look(world.log)}
    killed = disk.killed()
    if killed is not None:
        sights["killed"] = reopened(killed)
    world.log.close()
    problems = disk.problems()
    if problems:
        raise Violation("; ".join(problems))
    sights["closed"] = reopened(disk)
    return Course(answers, sights)


def reopened(disk: Disk) -> Sight:
    log = disk.open()
    try:
        if log.damage:
            raise Violation(f"damage: {log.damage}")
        return look(log)
    finally:
        log.close()


class Violation(Exception):
    """A promise is broken."""


# Trials.


@dataclass
class Finding:
    """One interrupt that did harm."""

    place: str
    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.place}: {self.what}"


@dataclass
class Tally:
    """What a run over one case has seen."""

    trials: int = 0
    places: int = 0  # that one call passes
    failed: int = 0  # trials that ended in a typed LogFailed and were fine after reopening
    findings: list[Finding] = field(default_factory=list)


class Rig:
    """All trials of one case on one kind of disk."""

    def __init__(self, case: Case, new_disk: Callable[[], Disk], *, hang_s: float = HANG_S) -> None:
        self._hang_s = hang_s
        self._case = case
        self._new_disk = new_disk
        self._references: dict[bool, list[Course]] = {}
        self.tally = Tally()

    def run(
        self, first: int, stride: int, kinds: tuple[type[BaseException], ...], *, findings_max: int
    ) -> Tally:
        """Interrupt at place `first`, then at each `stride`th after it; the kinds of exception
        take turns, or all of them are tried at each place when the stride is 1."""
        tally = self.tally
        tally.places = self._count()
        self.references(is_reopened=False)  # before any trial: a busy disk is no hang
        numbers = itertools.count(first, stride)
        for number, nth in enumerate(numbers):
            some = kinds if stride == 1 else (kinds[number % len(kinds)],)
            for kind in some:
                # With threads a call does more one time and less the next.
                if not self._trial(nth, kind):
                    if nth > tally.places:
                        return tally
                    continue
                tally.trials += 1
                if len(tally.findings) >= findings_max:
                    return tally
        return tally

    def _count(self) -> int:
        """The places that an undisturbed call passes; the second is counted, with warm caches."""
        count = 0
        for _ in range(2):
            with self._world() as (world, _disk):
                count = interrupt(lambda world=world: self._case.act(world), 0).count
        return count

    def _world(self) -> _World:
        return _World(self._new_disk(), self._case.setup)

    def _trial(self, nth: int, kind: type[BaseException]) -> str:
        """The place that was interrupted; nothing when the call has fewer places."""
        trial = _Trial(self, self._case, nth, kind)
        thread = threading.Thread(target=trial.run, name="interrupted", daemon=True)
        thread.start()
        thread.join(self._hang_s)
        if thread.is_alive():
            at = traceback.extract_stack(sys._current_frames()[thread.ident or 0])
            trial.wrong = f"it hangs in {trial.step}: {_brief(at)}"
        if trial.wrong:
            self.tally.findings.append(Finding(trial.place, kind.__name__, trial.wrong))
        self.tally.failed += trial.is_failed
        return trial.place

    def references(self, *, is_reopened: bool) -> list[Course]:
        """Legal courses: the verb not done, done in part where that is allowed, and done."""
        known = self._references.get(is_reopened)
        if known is None:
            acts: list[Act] = [lambda world: None, *self._case.between, self._case.act]
            known = [self._reference(act, is_reopened=is_reopened) for act in acts]
            self._references[is_reopened] = known
        return known

    def _reference(self, act: Act, *, is_reopened: bool) -> Course:
        with self._world() as (world, disk):
            act(world)
            if is_reopened:
                world.log.close()
                world.log = disk.open()
            return rest_of(self._case, world, disk)


class _World:
    """A prepared log, closed and removed in the end."""

    def __init__(self, disk: Disk, setup: Act) -> None:
        self._disk = disk
        self.world = World(disk.open(), disk.clock)
        setup(self.world)
        settle(self.world.log)

    def __enter__(self) -> tuple[World, Disk]:
        return self.world, self._disk

    def __exit__(self, *_: object) -> None:
        self.world.log.close()
        self._disk.remove()


class _Trial:
    """One interrupt, on a thread of its own, so that a hang can be seen."""

    def __init__(self, rig: Rig, case: Case, nth: int, kind: type[BaseException]) -> None:
        self._rig = rig
        self._case = case
        self._nth = nth
        self._kind = kind
        self.place = ""
        self.step = "the setup"
        self.wrong = ""
        self.is_failed = False

    def run(self) -> None:
        try:
            self._run()
        except Violation as violation:
            self.wrong = str(violation)
        except BaseException as error:  # noqa: BLE001 - a raw error is a finding
            where = _brief(traceback.extract_tb(error.__traceback__))
            self.wrong = f"{self.step} raised {error!r} in {where}"

    def _run(self) -> None:
        holder = self._rig._world()
        with holder as (world, disk):
            self.step = "the call"
            outcome = interrupt(lambda: self._case.act(world), self._nth, self._kind)
            self.place = outcome.place
            if not self.place:
                return
            error = outcome.error
            if error is not None and not isinstance(error, self._kind | LogFailed):
                raise Violation(f"the call raised {error!r}")
            is_whole, told = error is None, ""
            self.step = "going on"
            try:
                course = rest_of(self._case, world, disk)
            except LogFailed as failure:
                told = str(failure)
                self.is_failed = True
                self.step = "going on after a reopening"
                world.log.close()
                world.log = disk.open()
                course = rest_of(self._case, world, disk)
            self.step = "the comparison"
            self._compare(course, is_whole=is_whole)
            if self.is_failed and "interrupt" not in told:
                raise Violation(f"nothing is lost, but the error does not tell why: {told}")
            del outcome  # the traceback was alive until here

    def _compare(self, course: Course, *, is_whole: bool) -> None:
        legal = self._rig.references(is_reopened=self.is_failed)
        if is_whole:
            legal = legal[-1:]
        if self.is_failed:  # not closed in order: seqs that were reserved may be lost
            course, legal = course.without_seqs(), [one.without_seqs() for one in legal]
        if course not in legal:
            raise Violation(" | ".join(_difference(course, one) for one in legal))


def _difference(course: Course, other: Course) -> str:
    for when, sight in course.sights.items():
        wanted = other.sights[when]
        for name in sorted(sight.keys() | wanted.keys()):
            found, expected = sight.get(name), wanted.get(name)
            if found == expected:
                continue
            if not isinstance(found, dict) or not isinstance(expected, dict):
                return f"{when}: {name} is {found}, not {expected}"
            for part in ("content", *found):
                if found[part] != expected.get(part):
                    return f"{when}: {name} {part} is {found[part]}, not {expected.get(part)}"
    if course.answers != other.answers:
        return f"answers {course.answers}, not {other.answers}"
    return "nothing"


def _brief(stack: traceback.StackSummary) -> str:
    frames = [one for one in stack if one.filename.startswith(SOURCE)] or list(stack)
    return " < ".join(
        f"{one.filename.removeprefix(SOURCE + '/')}:{one.lineno} {one.name}"
        for one in reversed(frames[-4:])
    )
