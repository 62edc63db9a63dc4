"""Small logs, small operations, and every way a crash can leave them.

`SEQUENCES` are the operations to try; `crash_points` runs one sequence and gives the disk as it
was before each change to it, with the models that recovery may bring back from there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import penstock
from penstock.config import Settings
from penstock.engine.engine import Log
from penstock.errors import PenstockError
from penstock.testing.clock import FakeClock
from penstock.testing.fs import MemoryFilesystem
from penstock.types import Record
from tests.support.model import Model, Restart, Walk

DATA_DIR = "/data"
COLD_DIR = "/cold"
_KNOWN_MAX = 20_000


def settings(shards: int = 1, **given: Any) -> Settings:
    """Everything small, so that little work meets every path. No threads."""
    small = {"wal_file_bytes": 4096, "segment_max_events": 4, "checkpoint_wal_bytes": 4096}
    return Settings(background=False, wal_shards=shards, **(small | given))


def open_log(
    fs: MemoryFilesystem, clock: FakeClock | None = None, bounds: Settings | None = None
) -> Log:
    return penstock.open(
        DATA_DIR,
        fs=fs,
        clock=clock or FakeClock(),
        settings=bounds or settings(),
        random_bytes=lambda size: b"\x07" * size,
    )


# Seeing.


def see(log: Log) -> dict[str, Walk]:
    """All topics as readers see them."""
    return {info.name: walk(log, info.name) for info in log.topics()}


def walk(log: Log, topic: str, limit: int | None = None) -> Walk:
    """Read from seq 0 to the head, page by page."""
    info = log.topic(topic)
    seen = Walk(info.epoch, info.config, info.head_seq, {}, [])
    after = 0
    while True:
        page = log.read(topic, after, limit)
        start = after
        if page.gap is not None:
            assert page.gap.first == after + 1 <= page.gap.last, (after, page.gap)
            seen.gaps.append((page.gap.first, page.gap.last, page.gap.reason))
            start = page.gap.last
        for record in page.records:
            assert start < record.seq <= page.next_seq, (after, start, page)
            start = record.seq
            seen.records[record.seq] = record
        assert page.head_seq == info.head_seq, (page, info)
        if page.caught_up:
            break
        assert page.next_seq > after, ("a read does not move on", page)
        after = page.next_seq
    assert info.count == len(seen.records), (info, sorted(seen.records))
    assert info.earliest_seq == min(seen.records, default=info.head_seq + 1), info
    seen.evict_floor, seen.expiry_floor = _floors(log, topic, seen)
    seen.positions = {held.name: (held.seq, held.ts) for held in log.positions(topic)}
    return seen


def _floors(log: Log, topic: str, seen: Walk) -> tuple[int, int]:
    """Both floors, told from the reasons readers are given: `mixed` ends where the lower does."""
    first, last, reason = seen.gaps[0] if seen.gaps else (0, 0, "")
    if first != 1 or reason not in ("cap", "ttl", "mixed"):
        return 0, 0
    low, high, other = 1, last, reason
    while low < high:
        middle = (low + high) // 2
        gap = log.read(topic, middle, 1).gap
        assert gap is not None, (topic, middle, seen)
        if gap.reason == reason:
            low = middle + 1
        else:
            high, other = middle, gap.reason
    if reason != "mixed":
        return (last, 0) if reason == "cap" else (0, last)
    if other == "mixed":
        return last, last
    return (last, low) if other == "cap" else (low, last)


# Operations.


@dataclass(frozen=True, slots=True)
class Step:
    """An operation on the log, and the models it passes through; the last one when it is done."""

    name: str
    act: Callable[[Log], object]
    foresee: Callable[[Model], list[Model]]


def _payload(topic: str, number: int, pad: int) -> dict[str, Any]:
    return {"of": topic, "n": number, "pad": "." * pad}


def appending(
    name: str,
    topic: str,
    count: int,
    *,
    pad: int = 40,
    tag: str | None = None,
    key: str | None = None,
) -> Step:
    records = [Record(data=_payload(topic, n, pad), tag=tag) for n in range(count)]

    def act(log: Log) -> None:
        log.append(topic, records, idempotency_key=key)

    def foresee(model: Model) -> list[Model]:
        found = []
        if topic not in model.topics:
            model = model.copy()
            _made(model, topic)
            found.append(model)
        model = model.copy()
        held = model.topics[topic]
        if key is None or held.seen(key, FakeClock().now_ms()) is None:
            held.append(records, FakeClock().now_ms(), key)
            if held.config.durability == "fsync":
                model.synced(topic)
        return [*found, model]

    return Step(name, act, foresee)


def _made(model: Model, topic: str) -> None:
    """A topic made by the way, with the defaults. Ids only rise."""
    config = penstock.TopicConfig(durability="disk")
    model.create(topic, max(model.epochs.values(), default=0) + 1, config)
    model.synced(topic)


def deleting(name: str, topic: str, **what: Any) -> Step:
    def act(log: Log) -> None:
        if any(info.name == topic for info in log.topics()):
            log.delete(topic, **what)

    def foresee(model: Model) -> list[Model]:
        model = model.copy()
        if topic in model.topics:
            model.topics[topic].delete(**what)
            model.synced(topic)
        return [model]

    return Step(name, act, foresee)


def configuring(name: str, topic: str, **config: Any) -> Step:
    def foresee(model: Model) -> list[Model]:
        model = model.copy()
        held = model.topics.get(topic)
        wanted = penstock.TopicConfig(**config, durable=config.get("durability") == "fsync")
        if held is None:
            model.create(topic, max(model.epochs.values(), default=0) + 1, wanted)
            model.synced(topic)
        elif held.config != wanted:
            held.configure(wanted)
            model.synced(topic)
        return [model]

    return Step(name, lambda log: log.create(topic, **config), foresee)


def dropping(name: str, topic: str) -> Step:
    def foresee(model: Model) -> list[Model]:
        model = model.copy()
        if topic in model.topics:
            model.synced(topic)
            del model.topics[topic]
        return [model]

    return Step(name, lambda log: log.drop(topic), foresee)


def moving(name: str, topic: str, consumer: str) -> Step:
    """A consumer comes to the head, whatever that is."""

    def act(log: Log) -> None:
        for info in log.topics():
            if info.name == topic:
                log.move_position(topic, consumer, info.head_seq)

    def foresee(model: Model) -> list[Model]:
        model = model.copy()
        held = model.topics.get(topic)
        if held is not None:
            held.positions[consumer] = (held.head, FakeClock().now_ms())
            model.synced(topic)
        return [model]

    return Step(name, act, foresee)


def keeping(name: str, act: Callable[[Log], object], *, syncs: bool) -> Step:
    """Housekeeping: readers see no difference."""

    def foresee(model: Model) -> list[Model]:
        model = model.copy()
        if syncs:
            model.sync_all()
        return [model]

    return Step(name, act, foresee)


COMPACT = keeping("compact", lambda log: log.compact(), syncs=True)
RELOCATE = keeping("relocate", lambda log: log.relocate(), syncs=False)
REOPEN = keeping("reopen", lambda log: log.close(), syncs=True)
STEPS = (
    appending("one", "f", 1, tag="a"),
    appending("batch", "f", 3, pad=400, tag="b"),
    appending("keyed", "f", 2, key="k"),
    appending("disk-one", "d", 1, tag="a"),
    appending("disk-batch", "d", 3, pad=400),
    deleting("delete-tag", "f", tag="a"),
    deleting("delete-below", "d", before_seq=3),
    configuring("cap", "f", durability="fsync", cap_records=3),
    dropping("drop", "d"),
    keeping("upkeep", lambda log: log.upkeep(), syncs=False),
    keeping("checkpoint", lambda log: log.checkpoint(), syncs=False),
    COMPACT,
    REOPEN,
    moving("move", "d", "c"),
)
SEQUENCES = tuple(
    steps for length in (1, 2, 3) for steps in itertools.product(STEPS, repeat=length)
)

_BASE = (
    configuring("make f", "f", durability="fsync"),
    configuring("make d", "d", durability="disk"),
    appending("", "f", 2, tag="a"),
    appending("", "f", 1, tag="b", key="k0"),
    appending("", "d", 2, tag="a"),
)
PREPARATIONS = {
    "in the WAL": _BASE,
    "sealed": (*_BASE, STEPS[11], STEPS[0], STEPS[3]),
    "in a snapshot": (*_BASE, STEPS[10], STEPS[3], STEPS[10], STEPS[0], STEPS[3]),
}


# Crashing.


@dataclass(slots=True)
class World:
    """A log at work beside its model. Sharing a world means sharing a disk."""

    fs: MemoryFilesystem
    model: Model
    bounds: Settings = field(default_factory=settings)
    log: Log | None = None

    def run(self, step: Step) -> None:
        if self.log is None:
            self.log = open_log(self.fs, bounds=self.bounds)
        step.act(self.log)
        if step is REOPEN:
            self.log = open_log(self.fs, bounds=self.bounds)
        self.model = step.foresee(self.model)[-1]

    def copy(self, *, settled: bool) -> World:
        """The same disk and model for another process, after this one was killed.

        `settled` lets the system write back the marks, which nobody syncs: there are fewer
        states then in which nothing but an old mark differs.
        """
        fs = self.fs.copy()
        if settled:
            for path in fs.paths():
                fs.open(path).sync()
        return World(fs, self.model, self.bounds)


def prepared(name: str, bounds: Settings | None = None) -> World:
    bounds = bounds or settings()
    world = World(MemoryFilesystem(), Model(bounds.wal_shards), bounds)
    for step in PREPARATIONS[name]:
        world.run(step)
    return world


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """The disk just before operation `index`, and what may be found after a crash there."""

    fs: MemoryFilesystem
    where: str
    models: Sequence[Model]


def crash_points(world: World, steps: Sequence[Step]) -> Iterator[CrashPoint]:
    """Run all the steps; give the points within the last one, and the one past its end."""
    for step in steps[:-1]:
        world.run(step)
    if world.log is None:
        world.log = open_log(world.fs, bounds=world.bounds)
    models = [world.model, *steps[-1].foresee(world.model)]
    taken: list[CrashPoint] = []

    def note(index: int, kind: str, path: str) -> None:
        taken.append(CrashPoint(world.fs.copy(), f"before {index}, {kind} {path}", models))

    world.fs.on_operation = note
    world.run(steps[-1])
    world.fs.on_operation = None
    yield from taken
    yield CrashPoint(world.fs.copy(), "at the end", models[-1:])


def outcome(
    models: Sequence[Model], seen: dict[str, Walk], restart: Restart
) -> tuple[Model | None, list[str]]:
    """The first model that allows what is seen; without one, what the closest objects to."""
    wrong = [model.objections(seen, restart) for model in models]
    for model, objections in zip(models, wrong, strict=True):
        if not objections:
            return model, []
    return None, min(wrong, key=len)


class Inspector:
    """Opens crashed disks and compares what comes back with what may. Keeps the count.

    The same disk in the same boot shows the same again, so each is opened once. On every `nth`
    new one life goes on: more is appended, and a second restart must bring that back too.
    """

    def __init__(self, random: Random, *, bounds: Settings, states_max: int, nth: int) -> None:
        self.random = random
        self.bounds = bounds
        self.checked = self.nested = 0
        self.violations: dict[str, str] = {}  # by what is wrong: one way to get there
        self._states_max = states_max
        self._nth = nth
        self._known: dict[tuple[str, str], tuple[dict[str, Walk], str]] = {}
        self._met: set[int] = set()

    @property
    def distinct(self) -> int:
        return len(self._met)

    def inspect(self, point: CrashPoint, story: str) -> None:
        """Every crash at this point: the process killed, or the power cut in many ways."""
        self._check(point.fs.copy().kill(), point.models, "kill", f"{story}, {point.where}: kill")
        for state in point.fs.crash_states(self._states_max):
            self._check(state, point.models, "cut", f"{story}, {point.where}: cut")

    def _check(
        self, state: MemoryFilesystem, models: Sequence[Model], restart: Restart, story: str
    ) -> None:
        self.checked += 1
        key = (state.fingerprint(), state.boot_id())
        if restart == "cut":
            story += f" {fates(state)}"
        if key in self._known:
            seen, trouble = self._known[key]
            self._judge(models, seen, trouble, restart, story)
            return
        is_chosen = self.random.randrange(self._nth) == 0
        points: list[MemoryFilesystem] = []
        if is_chosen:
            state.on_operation = lambda index, kind, path: points.append(state.copy())
        log, seen, trouble = self._open(state)
        state.on_operation = None
        self._remember(key, seen, trouble)
        model = self._judge(models, seen, trouble, restart, story)
        if model is not None and log is not None and is_chosen:
            self._crash_again(points, models, restart, story)
            self._go_on(state, log, model.copy(), seen, restart, story)

    def _remember(self, key: tuple[str, str], seen: dict[str, Walk], trouble: str) -> None:
        """Long runs meet more states than memory holds; the neighbours are the likely ones."""
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        self._known[key] = seen, trouble
        self._met.add(hash(key))

    def _open(self, state: MemoryFilesystem) -> tuple[Log | None, dict[str, Walk], str]:
        """The log and what it shows, or what went wrong."""
        try:
            log = open_log(state, bounds=self.bounds)
            return log, see(log), "; ".join(map(str, log.damage))
        except (PenstockError, OSError, AssertionError) as error:
            return None, {}, f"{type(error).__name__}: {error}"

    def _judge(
        self,
        models: Sequence[Model],
        seen: dict[str, Walk],
        trouble: str,
        restart: Restart,
        story: str,
    ) -> Model | None:
        if trouble:
            self.violations.setdefault(f"{restart}: {trouble}", story)
            return None
        model, wrong = outcome(models, seen, restart)
        if model is None:
            self.violations.setdefault(f"{restart}: {'; '.join(wrong[:2])}", story)
        return model

    def _crash_again(
        self,
        points: list[MemoryFilesystem],
        models: Sequence[Model],
        restart: Restart,
        story: str,
    ) -> None:
        """A crash during the recovery from a crash: one level is enough."""
        for at, point in enumerate(points):
            again: list[tuple[MemoryFilesystem, Restart]] = [(point.copy().kill(), restart)]
            again += [(cut, "cut") for cut in point.crash_states(4)]
            for state, how in again:
                self.nested += 1
                key = (state.fingerprint(), state.boot_id())
                if key not in self._known:
                    _, seen, trouble = self._open(state)
                    self._remember(key, seen, trouble)
                self._judge(models, *self._known[key], how, f"{story}, again in recovery at {at}")

    def _go_on(
        self,
        fs: MemoryFilesystem,
        log: Log,
        model: Model,
        seen: dict[str, Walk],
        restart: Restart,
        story: str,
    ) -> None:
        """What comes after a crash is as safe as what came before it."""
        model.settle(seen, restart)
        for topic in model.topics.values():
            for key, (first, last, _) in topic.keys.items():
                answer = log.append(topic.name, ["again"], idempotency_key=key)
                if (answer.deduped, answer.first_seq, answer.last_seq) != (True, first, last):
                    self.violations.setdefault(f"key {key} was forgotten", story)
                    return
            first = topic.head + 1
            answer = log.append(topic.name, ["later"])
            if answer.first_seq != first:
                self.violations.setdefault(f"seq {answer.first_seq} instead of {first}", story)
                return
            topic.append([Record(data="later")], FakeClock().now_ms(), None)
            if topic.config.durability == "fsync":
                model.synced(topic.name)
        how: Restart = self.random.choice(("close", "kill"))
        if how == "close":
            log.close()
        _, seen, trouble = self._open(fs if how == "close" else fs.kill())
        self._judge([model], seen, trouble, how, f"{story}, then appends and a {how}")


def fates(state: MemoryFilesystem) -> list[str]:
    """What a power cut did not let land, for people."""
    return [
        f"{change.kind} {change.path} {fate.kind}"
        for change, fate in state.last_cut
        if fate.kind != "land"
    ]
