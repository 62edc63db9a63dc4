"""A log with feature tables at work, crashed before any change to its disk, and recovered.

After each crash the registry is the last one that was acknowledged, or the one under way; every
part, index and row is what a fold of the recovered records gives; what was acknowledged after its
sync is there, and so is what the log called synced; no id is there twice; and a state that was
reported as saved is still there. Now and then life goes on: everything is pushed again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import msgspec

from penstock.engine.engine import Log
from penstock.errors import PenstockError
from penstock.features.definition import Definition
from penstock.features.feature_view import part_of
from penstock.features.part_snapshot import PartSnapshot
from penstock.features.store import DEDUPE, PART, FeatureStore
from penstock.features.table_part import TablePart
from penstock.projections import checkpoint, state_folder
from penstock.projections.checkpoint import CheckpointIdentity
from penstock.projections.host import HostedProjection
from penstock.testing.clock import FakeClock
from penstock.testing.fs import MemoryFilesystem
from penstock.types import Offset
from tests.support import feature_judge, feature_plans, states

FOLDER = f"{states.DATA_DIR}/projections"
SNAPSHOT = "/snapshot"
BEGUN_WITH = 30  # events
ROWS_SHARE = 0.2  # of the crashes; then all rows are read, and life goes on


@dataclass(frozen=True, slots=True)
class Promises:
    """What a crash must not take."""

    definitions: dict[int, bytes]  # by version: those that may be found
    acked: dict[str, frozenset[str]]  # ids, by topic: a kill takes none of them
    safe: dict[str, frozenset[str]]  # nor does a power cut take these
    places: dict[str, dict[int, str]]  # of ids whose record was called synced
    saved: dict[tuple[str, str], Offset]  # states, by kind and name


@dataclass(frozen=True, slots=True)
class Point:
    """The disk before one change to it."""

    disk: MemoryFilesystem
    promises: Promises
    where: str


@dataclass(slots=True)
class FeatureRig:
    random: Random
    points_max: int
    states_max: int
    fs: MemoryFilesystem = field(default_factory=MemoryFilesystem)
    clock: FakeClock = field(default_factory=FakeClock)
    log: Log = field(init=False)
    promises: Promises = field(default=Promises({0: b""}, {}, {}, {}, {}))
    points: list[Point] = field(default_factory=list)
    next_number: int = 0
    pushed: dict[str, list[int]] = field(default_factory=lambda: {"E": [], "P": []})
    crashes: int = 0
    restored: int = 0
    evicted: int = 0
    loads: int = 0
    violations: dict[str, str] = field(default_factory=dict)
    step: str = ""
    is_between: bool = False

    def run(self, steps: int, verbs: Sequence[Verb] = ()) -> FeatureRig:
        """Take so many steps, each with one of these verbs. By default first those that every run
        has, then any."""
        self.fs.make_dirs(SNAPSHOT)
        with (
            feature_plans.small_memory(),
            feature_plans.known_plans(),
            self._more_between_parts(),
        ):
            self.open()
            self.register(0)
            for number in range(steps):
                is_planned = not verbs and number < len(FIRST_VERBS)
                verb = FIRST_VERBS[number] if is_planned else self.random.choice(verbs or VERBS)
                self.step = f"{number} {verb.__name__}"
                self.fs.on_operation = self.take
                verb(self)
                self.fs.on_operation = None
                self.look()
                self.crash()
                if self.violations:
                    break
            self.fs.on_operation = None
            self.log.close()
        return self

    @contextlib.contextmanager
    def _more_between_parts(self) -> Any:
        """While a state is saved, events are pushed and folded between any two of its parts."""
        given = PartSnapshot.__next__

        def after_more(snapshot: PartSnapshot) -> bytes:
            if self.is_between and self.random.random() < 0.5:
                self.push()
                self.fold()
            return given(snapshot)

        PartSnapshot.__next__ = after_more  # type: ignore[method-assign]
        try:
            yield
        finally:
            PartSnapshot.__next__ = given  # type: ignore[method-assign]

    def open(self) -> None:
        self.log = states.open_log(self.fs, self.clock)

    @property
    def store(self) -> FeatureStore:
        store: FeatureStore = self.log.core.features.store
        return store

    def held(self) -> list[HostedProjection]:
        host = self.log.projections
        return [*host.all(PART), *host.all(DEDUPE)]

    # Promises.

    def promise(self, **changes: Any) -> None:
        self.promises = replace(self.promises, **changes)

    def look(self) -> None:
        """What the log calls synced is a promise."""
        places = {}
        for topic in feature_plans.EVENTS.values():
            _, _, synced = self.store._log.watermarks(topic)
            ids = feature_judge.ids_of(self.log, topic)
            places[topic] = {seq: one for seq, one in ids.items() if seq <= synced}
        self.promise(places=places)
        for held in self.log.projections.all(PART):
            self.evicted = max(self.evicted, part_of(held).keys_on_disk)

    def promise_saved(self, held: HostedProjection, offset: Offset | None) -> None:
        if offset is not None:
            key = held.definition.kind, held.definition.name
            self.promise(saved={**self.promises.saved, key: offset})

    def forget_saved(self, *kinds: str) -> None:
        saved = self.promises.saved
        self.promise(saved={key: at for key, at in saved.items() if key[0] not in kinds})

    # Crashes.

    def take(self, index: int, kind: str, path: str) -> None:
        """Before a change: keep the disk now and then."""
        if self.random.random() < 0.25 or (
            "projections" in path and kind in ("rename", "unlink", "sync_dir")
        ):
            where = f"{self.step}, {kind} {path}"
            self.points.append(Point(self.fs.copy(), self.promises, where))

    def crash(self) -> None:
        """Let every crash of this step happen, or as many as there is time for."""
        self.random.shuffle(self.points)
        last = Point(self.fs.copy(), self.promises, f"after {self.step}")
        most = self.points_max * (4 if "reregister" in self.step else 1)  # it has most stages
        for point in [last, *self.points][:most]:
            self._try(point.disk.kill(), point, is_kill=True)
            for state in point.disk.crash_states(self.states_max):
                self._try(state, point, is_kill=False)
        self.points.clear()

    def _try(self, disk: MemoryFilesystem, point: Point, *, is_kill: bool) -> None:
        self.crashes += 1
        for what in self.judge(disk, point.promises, is_kill=is_kill):
            how = "killed" if is_kill else "cut"
            self.violations.setdefault(f"{how}: {what}", point.where)

    def judge(self, disk: MemoryFilesystem, promises: Promises, *, is_kill: bool) -> list[str]:
        wrong = []
        for folder in disk.list(FOLDER):
            path = f"{FOLDER}/{folder}/state.bin"
            if disk.exists(path) and (why := checkpoint.check(disk, path)):
                wrong.append(f"a file is damaged: {why}")
        log = states.open_log(disk, FakeClock(self.clock.now_ms()))
        try:
            store: FeatureStore = log.core.features.store
            wrong += self._judge_store(log, store, promises)
            wrong += self._judge_records(log, promises, is_kill=is_kill)
            if not wrong and self.random.random() < ROWS_SHARE:
                wrong += feature_judge.judge_rows(store)
                wrong += self._push_again(log, store)
        except PenstockError as error:
            wrong.append(f"{type(error).__name__}: {error}")
        finally:
            log.close()
        return wrong

    def _judge_store(self, log: Log, store: FeatureStore, promises: Promises) -> list[str]:
        known = promises.definitions
        if store.version not in known:
            return [f"the registry has version {store.version}: expected {sorted(known)}"]
        if (
            store.version
            and msgspec.json.encode(store.definition.to_json()) != (known[store.version])
        ):
            return [f"version {store.version} has another definition"]
        wrong = []
        for held in (*log.projections.all(PART), *log.projections.all(DEDUPE)):
            runner = held.runner
            runner.restore()
            restored, head = runner.applied, runner.status.head
            self.restored += restored is not None
            promised = promises.saved.get((held.definition.kind, held.definition.name))
            if promised is None or head is None or promised.epoch != head.epoch:
                continue
            if restored is None or restored.seq < promised.seq:
                why = runner.counts.discard_reason
                wrong.append(f"{held.definition.kind}: a saved state is gone ({why})")
        return wrong + feature_judge.judge_projections(log, store)

    def _judge_records(self, log: Log, promises: Promises, *, is_kill: bool) -> list[str]:
        wrong = []
        for topic in feature_plans.EVENTS.values():
            found = feature_judge.ids_of(log, topic)
            wrong += feature_judge.judge_ids(found.values(), topic)
            promised = promises.acked if is_kill else promises.safe
            missing = promised.get(topic, frozenset()) - set(found.values())
            if missing:
                wrong.append(f"{topic}: {sorted(missing)[:5]} were acknowledged and are lost")
            for seq, one in promises.places.get(topic, {}).items():
                if found.get(seq) != one:
                    wrong.append(f"{topic}: seq {seq} was synced and is lost")
                    break
        return wrong

    def _push_again(self, log: Log, store: FeatureStore) -> list[str]:
        """A client that does not know what arrived pushes everything again."""
        wrong = []
        for event, topic in feature_plans.EVENTS.items():
            numbers = range(self.next_number)
            if event not in store.definition.events or not numbers:
                continue
            store.push(event, [feature_plans.event_of(event, n) for n in numbers])
            found = feature_judge.ids_of(log, topic)
            wrong += feature_judge.judge_ids(found.values(), topic)
            missing = {f"{event}{n}" for n in numbers} - set(found.values())
            if missing:
                wrong.append(f"{topic}: {sorted(missing)[:5]} were taken for known ids")
        return wrong + feature_judge.judge_projections(log, store)

    # Work.

    def push(self) -> None:
        """New events, and some that were pushed before."""
        event = self.random.choice(("E", "E", "E", "P"))
        new = range(self.next_number, self.next_number + self.random.choice((1, 3, 15, 30)))
        old = [self.random.randrange(new.stop) for _ in range(self.random.randint(0, 3))]
        self.next_number = new.stop
        numbers = [*new, *old]
        self.random.shuffle(numbers)
        self.push_these(event, numbers)

    def begin(self) -> None:
        """More keys than memory has room for."""
        self.next_number = BEGUN_WITH
        self.push_these("E", list(range(BEGUN_WITH)))

    def push_again(self) -> None:
        """The newest events, which are all known."""
        known = self.pushed["E"][-self.random.randint(1, 4) :]
        if known:
            self.push_these("E", known)

    def push_these(self, event: str, numbers: list[int]) -> None:
        sync = self.random.choice((None, "per_event"))
        events = [feature_plans.event_of(event, number) for number in numbers]
        self.store.push(event, events, sync=sync)  # type: ignore[arg-type]
        self.pushed[event] += numbers
        topic, ids = feature_plans.EVENTS[event], {one["id"] for one in events}
        acked, safe = self.promises.acked, self.promises.safe
        self.promise(acked={**acked, topic: acked.get(topic, frozenset()) | ids})
        if sync or event == "P":
            self.promise(safe={**safe, topic: safe.get(topic, frozenset()) | ids})

    def fold(self) -> None:
        for held in self.held():
            held.runner.catch_up(self.random.choice((1, 10, None)))

    def get(self) -> None:
        table = self.random.choice(list(self.store.definition.tables))
        for key in self.random.sample(feature_plans.keys_of(table), 1):
            self.store.get(table, key or None)

    def save(self) -> None:
        held = self.random.choice(self.held())
        held.runner.catch_up()
        self.is_between = True
        if held.runner.save():
            self.promise_saved(held, held.runner.status.snapshot)
        self.is_between = False

    def save_all(self) -> None:
        for held in self.held():
            held.runner.catch_up()
            if held.runner.save():
                self.promise_saved(held, held.runner.status.snapshot)

    def reregister(self) -> None:
        self.register(self.random.randrange(4))
        if self.random.random() < 0.7:
            self.store.wait(0)

    def register(self, choice: int) -> None:
        if 0 not in self.promises.definitions:
            self.log.create("paid", durability="fsync")  # a recreated one is refused
        document = feature_plans.document(choice)
        text = msgspec.json.encode(Definition.parse(document).to_json())
        before = self.promises.definitions
        ((version, known),) = before.items()
        if text != known:
            self.promise(definitions={**before, version + 1: text})
            self.forget_saved(DEDUPE)
        registered = self.store.register(document, force=True, whole=True)
        if registered.version != version + (text != known):
            raise AssertionError(f"version {registered.version} follows {version}")
        self.promise(definitions={registered.version: text})

    def load(self) -> None:
        """A snapshot of table T that was made elsewhere, of all records or the older ones."""
        store, tail = self.store, self.store._log.tail("events")
        part = TablePart(store.definition.plan("T"))
        head = 0 if tail.head is None else tail.head.seq
        if not head:
            return
        offset = feature_judge.folded(tail, part, self.random.randint(1, head))
        if offset is None:
            raise AssertionError("the topic is gone")
        identity = CheckpointIdentity(
            tail.log_id, tail.topic, part.kind, part.version, part.definition
        )
        name = f"{self.loads}.bin"
        state_folder.write_file(self.fs, SNAPSHOT, name, identity, offset, 0, part.snapshot())
        listed = state_folder.list_of(identity, offset, 0, [name])
        state_folder.commit(self.fs, SNAPSHOT, listed)
        done = store.load("T", SNAPSHOT)
        self.loads += 1
        for held in self.log.projections.all(PART):
            if done.is_saved and held.definition.name in done.parts:
                self.promise_saved(held, done.applied)

    def sync(self) -> None:
        self.log.sync()

    def checkpoint(self) -> None:
        self.log.checkpoint(everything=True)

    def pass_time(self) -> None:
        self.clock.advance(self.random.choice((10, 2_000, 60_000)))

    def recreate_topic(self) -> None:
        topic = self.random.choice(list(feature_plans.EVENTS.values()))
        gone: dict[str, Any] = {topic: frozenset()}
        self.promise(
            acked={**self.promises.acked, **gone}, safe={**self.promises.safe, **gone}, places={}
        )
        self.log.drop(topic)
        self.forget_saved(PART, DEDUPE)
        self.log.create(topic)  # of class disk
        self.push()

    def reopen(self) -> None:
        self.log.close()
        self.open()


Verb = Callable[[FeatureRig], None]
VERBS: Sequence[Verb] = (
    *[FeatureRig.push] * 8,
    *[FeatureRig.push_again] * 3,
    FeatureRig.fold,
    FeatureRig.get,
    *[FeatureRig.save] * 4,
    *[FeatureRig.save_all] * 3,
    *[FeatureRig.reregister] * 3,
    *[FeatureRig.load] * 2,
    FeatureRig.sync,
    FeatureRig.checkpoint,
    FeatureRig.pass_time,
    FeatureRig.recreate_topic,
    FeatureRig.reopen,
)
FIRST_VERBS: Sequence[Verb] = (
    FeatureRig.begin,
    FeatureRig.save_all,
    FeatureRig.push_again,
    FeatureRig.load,
    FeatureRig.reregister,
)
# A mutant shows within a few steps where the verbs that it breaks are most of the steps.
_SAVING: Sequence[Verb] = (FeatureRig.push, FeatureRig.save_all)
VERBS_OF_MUTANTS: dict[str, Sequence[Verb]] = {
    "acknowledged before the sync": (FeatureRig.push,),
    "duplicate unsynced": (FeatureRig.push, FeatureRig.push_again),
    "index one behind": _SAVING,
    "operator forgotten": _SAVING,
    "evicted left out": _SAVING,
    "registry after its parts": (
        FeatureRig.save_all,
        FeatureRig.push,
        *[FeatureRig.reregister] * 2,
    ),
    "time forgotten": _SAVING,
}
