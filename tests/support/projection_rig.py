"""A log with projections at work, crashed before any change to its disk, and recovered.

After each crash the state of every projection must be what a fold of the recovered log gives, its
file must be whole, and a state that was reported as saved must be there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from penstock.engine.engine import Log
from penstock.projections import checkpoint
from penstock.projections.host import HostedProjection, ProjectionDefinition
from penstock.projections.table_keys import KeySource
from penstock.projections.tables import TableState
from penstock.testing.fs import MemoryFilesystem
from penstock.types import Offset, Record
from tests.support import states
from tests.unit.projections.support import Adder

FOLDER = f"{states.DATA_DIR}/projections"
TOPICS = {"d": {"durability": "disk"}, "f": {"durability": "fsync"}}
DEFINITIONS = (b'{"toy":1}', b'{"toy":2}')


class Toy(Adder):
    """Adds up the field n; `between` is called between two parts of a snapshot."""

    kind = "toy"
    between: Callable[[], None] = staticmethod(lambda: None)

    def apply(self, columns: Any) -> None:
        packed, data, _ = columns.data
        ends = struct.unpack(f"<{columns.count + 1}I", packed)
        factor = 1 if self.definition == DEFINITIONS[0] else -1
        for at in range(columns.count):
            number = msgspec.json.decode(data[ends[at] : ends[at + 1]]) or {"n": 0}
            self.sum += factor * number["n"]
            self.order = (self.order * 31 + number["n"]) % 1_000_003

    def snapshot(self) -> Iterator[bytes]:
        now = (self.sum, self.order, self.lost)
        return self._parts(now)

    def _parts(self, now: tuple[int, int, int]) -> Iterator[bytes]:
        for value in now:
            yield struct.pack("<q", value)
            type(self).between()


def make_toy(definition: ProjectionDefinition) -> Toy:
    return Toy(definition=bytes(definition.definition))


@dataclass(frozen=True, slots=True)
class Point:
    """The disk before one change to it, and which states were reported as saved by then."""

    disk: MemoryFilesystem
    saved: dict[tuple[str, int], Offset]
    where: str


@dataclass(slots=True)
class ProjectionRig:
    random: Random
    points_max: int
    states_max: int
    fs: MemoryFilesystem = field(default_factory=MemoryFilesystem)
    log: Log = field(init=False)
    points: list[Point] = field(default_factory=list)
    saved: dict[tuple[str, int], Offset] = field(default_factory=dict)
    numbers: int = 0
    crashes: int = 0
    restored: int = 0
    violations: dict[str, str] = field(default_factory=dict)
    step: str = ""

    def run(self, steps: int) -> ProjectionRig:
        self.open()
        for topic, config in TOPICS.items():
            self.log.create(topic, **config)
            self.log.table(f"table-{topic}", key="k", topic=topic)
            self.make(f"sum-{topic}", topic)
        Toy.between = self.between
        try:
            for number in range(steps):
                verb = self.random.choice(VERBS)
                self.step = f"{number} {verb.__name__}"
                self.fs.on_operation = self.take
                verb(self)
                self.fs.on_operation = None
                self.crash()
                if self.violations:
                    break
        finally:
            self.fs.on_operation = None
            Toy.between = staticmethod(lambda: None)
        return self

    def open(self) -> None:
        self.log = open_with_toys(self.fs)

    def make(self, name: str, topic: str) -> None:
        self.log.projections.create("toy", name, topic, self.random.choice(DEFINITIONS))

    def held(self) -> list[HostedProjection]:
        host = self.log.projections
        return [*host.all("toy"), *host.all("table")]

    # Crashes.

    def take(self, index: int, kind: str, path: str) -> None:
        """Before a change: keep the disk now and then."""
        if self.random.random() < 0.25 or "projections" in path:
            point = Point(self.fs.copy(), dict(self.saved), f"{self.step}, {kind} {path}")
            self.points.append(point)

    def crash(self) -> None:
        """Let every crash of this step happen, or as many as there is time for."""
        self.points.append(Point(self.fs.copy(), dict(self.saved), f"after {self.step}"))
        self.random.shuffle(self.points)
        for point in self.points[: self.points_max]:
            for state in (point.disk.kill(), *point.disk.crash_states(self.states_max)):
                self.crashes += 1
                for what in self.judge(state, point.saved):
                    self.violations.setdefault(what, point.where)
        self.points.clear()

    def judge(self, disk: MemoryFilesystem, saved: dict[tuple[str, int], Offset]) -> list[str]:
        wrong = []
        for folder in disk.list(FOLDER):
            path = f"{FOLDER}/{folder}/state.bin"
            if disk.exists(path) and (why := checkpoint.check(disk, path)):
                wrong.append(f"a file is damaged: {why}")
        log = open_with_toys(disk)
        try:
            for held in (*log.projections.all("toy"), *log.projections.all("table")):
                wrong += self.compare(log, held, saved)
        finally:
            log.close()
        return wrong

    def compare(
        self, log: Log, held: HostedProjection, saved: dict[tuple[str, int], Offset]
    ) -> list[str]:
        runner, kind = held.runner, held.definition.kind
        runner.restore()
        restored = runner.applied
        runner.read_own()
        found, wanted = seen(runner.projection), seen(recomputed(log, held))
        wrong = []
        if found != wanted:
            wrong.append(f"{kind}: {found} and not {wanted}")
        promised = saved.get((kind, held.definition.id))
        head = runner.status.head
        if promised is None or head is None or promised.epoch != head.epoch:
            promised = Offset(0, 0)
        if (restored.seq if restored is not None else 0) < promised.seq:
            wrong.append(f"{kind}: a saved state is gone ({runner.counts.discard_reason})")
        self.restored += restored is not None
        return wrong

    # Work.

    def append(self) -> None:
        self.append_to(self.random.choice(list(TOPICS)))

    def append_to(self, topic: str) -> None:
        records: list[Any] = []
        for _ in range(self.random.randint(1, 4)):
            self.numbers += 1
            value = {"k": self.random.choice("abcde"), "n": self.numbers}
            is_deleted = self.random.random() < 0.2
            records.append(Record(data=value, meta={"deleted": True}) if is_deleted else value)
        self.log.append(topic, records)

    def between(self) -> None:
        """Between two parts: more records, folded before the next part."""
        if self.random.random() < 0.5:
            self.append()
            for held in self.held():
                held.runner.catch_up()

    def fold(self) -> None:
        for held in self.held():
            held.runner.catch_up(self.random.choice((1, 3, None)))

    def save(self) -> None:
        held = self.random.choice(self.held())
        held.runner.catch_up()
        if held.runner.save():
            offset = held.runner.status.snapshot
            assert offset is not None
            self.saved[held.definition.kind, held.definition.id] = offset

    def sync(self) -> None:
        self.log.sync()

    def checkpoint(self) -> None:
        self.log.checkpoint(everything=True)

    def recreate_topic(self) -> None:
        topic = self.random.choice(list(TOPICS))
        self.log.drop(topic)
        self.saved = {}
        self.log.create(topic, **TOPICS[topic])
        self.append_to(topic)
        self.append_to(topic)

    def redefine(self) -> None:
        held = self.random.choice(self.log.projections.all("toy"))
        definition = self.random.choice(DEFINITIONS)
        if definition != bytes(held.definition.definition):
            self.saved.pop(("toy", held.definition.id), None)
        self.log.projections.change("toy", held.definition.name, definition=msgspec.Raw(definition))

    def recreate_table(self) -> None:
        topic = self.random.choice(list(TOPICS))
        self.log.drop_table(f"table-{topic}")
        self.log.table(f"table-{topic}", key="k", topic=topic)

    def reopen(self) -> None:
        self.saved = {}  # closing saves newer ones
        self.log.close()
        self.open()


VERBS: tuple[Callable[[ProjectionRig], None], ...] = (
    *[ProjectionRig.append] * 6,
    *[ProjectionRig.fold] * 2,
    *[ProjectionRig.save] * 5,
    ProjectionRig.sync,
    ProjectionRig.checkpoint,
    ProjectionRig.recreate_topic,
    ProjectionRig.redefine,
    ProjectionRig.recreate_table,
    ProjectionRig.reopen,
)


def open_with_toys(fs: MemoryFilesystem) -> Log:
    log = states.open_log(fs)
    log.projections.register("toy", make_toy)
    return log


def recomputed(log: Log, held: HostedProjection) -> Any:
    """A fold of what the log has now, by a fresh state and one batch."""
    definition = held.definition
    if definition.kind == "toy":
        state: Any = make_toy(definition)
    else:
        state = TableState(KeySource("k"))
    after = 0
    while True:
        page = log.core.projections.tail(definition.topic).read_columns(after, 7, state.wanted)
        if page is None:
            return state
        if page.columns.count:
            state.apply(page.columns)
        after = page.next_seq
        if page.caught_up:
            return state


def seen(state: Any) -> object:
    if isinstance(state, TableState):
        rows, _ = state.scan(b"", None, 1 << 30, 1 << 40)
        return [(row.key, row.value, row.seq) for row in rows], state.skipped
    return state.sum, state.order
