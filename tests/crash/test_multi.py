"""R9: a batch over several topics, crashed at every point in every way, and in its recovery too.

After each crash the parts are all there, exactly once and in order, or none of them is; a batch
that was acknowledged is there; and a retry with its key changes nothing but to make it so.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest import mock

import msgspec
import pytest
from msgspec.structs import replace

from penstock.config import Settings
from penstock.engine import batch_intents
from penstock.engine.atomic_batches import AtomicBatches
from penstock.engine.batch_intents import BatchIntents
from penstock.engine.engine import Log
from penstock.errors import LogFailed, PenstockError
from penstock.testing.crash import VANISH
from penstock.testing.fs import MemoryFilesystem
from penstock.types import Record
from tests.support import rig, states

STATES_PER_POINT = 64 if rig.IS_FULL else 10
STATES_PER_NESTED = 16 if rig.IS_FULL else 3
NESTED_NTH = 3 if rig.IS_FULL else 80  # one in so many states is crashed again in its recovery
AFTERLIFE_NTH = 4
KEY = "once"


# The worlds.


@dataclass(frozen=True, slots=True)
class Scenario:
    """Topics by name with their class, what else they are told, and how many shards there are."""

    name: str
    classes: dict[str, str]
    shards: int = 1
    key: str | None = KEY
    config: dict[str, Any] = field(default_factory=dict)
    has_earlier_batch: bool = False
    has_earlier_loss: bool = False
    is_compacted: bool = False
    singles: int = 0  # appended to each topic while the batch is under way

    @property
    def bounds(self) -> Settings:
        return states.settings(shards=self.shards)

    def sent(self, topic: str) -> list[Record]:
        """Different sizes, so that some frames fill sectors and some do not, and all columns."""
        number = list(self.classes).index(topic)
        pad = "." * (30, 700, 5)[number % 3]
        return [
            Record({"batch": topic, "n": n, "pad": pad}, *(("t", None, {"m": n}) if n % 2 else ()))
            for n in range((2, 3, 1)[number % 3])
        ]

    def writes(self) -> list[tuple[str, list[Any]]]:
        return [(topic, self.sent(topic)) for topic in self.classes]

    @property
    def durable(self) -> list[str]:
        """A RAM-only topic keeps its part only as long as the process lives."""
        return [topic for topic, class_ in self.classes.items() if class_ != "ephemeral"]


SCENARIOS = (
    Scenario("one shard", {"f": "fsync", "d": "disk"}),
    Scenario("one shard, no key", {"d": "disk", "m": "memory"}, key=None),
    Scenario("two shards", {"f": "fsync", "d": "disk"}, shards=2),
    Scenario("three shards", {"d": "disk", "f": "fsync", "m": "memory"}, shards=3),
    Scenario("after a batch", {"d": "disk", "f": "fsync"}, shards=2, has_earlier_batch=True),
    Scenario("after a loss", {"d": "disk", "m": "memory"}, shards=2, has_earlier_loss=True),
    Scenario("sealed", {"f": "fsync", "d": "disk"}, shards=2, is_compacted=True),
    Scenario("in memory", {"d": "disk", "e": "ephemeral", "f": "fsync"}, shards=2),
    Scenario("capped", {"d": "disk", "f": "fsync"}, shards=2, config={"cap_records": 6}),
    Scenario(
        "full",
        {"d": "disk", "f": "fsync"},
        shards=2,
        config={"cap_records": 6, "discard": "reject"},
    ),
    Scenario("singles", {"d": "disk", "f": "fsync"}, shards=2, singles=2),
    Scenario("many topics", dict.fromkeys("abcdefgh" if rig.IS_FULL else "abcd", "disk"), shards=3),
)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


@dataclass(slots=True)
class World:
    """A log on the eve of its batch; everything in it so far is past a sync."""

    scenario: Scenario
    fs: MemoryFilesystem
    log: Log
    answered: list[tuple[str, int]] = field(default_factory=list)  # single appends: topic, number

    def append(self) -> None:
        """The batch, and single appends that meet it."""
        scenario = self.scenario
        self.log.append_many(scenario.writes(), idempotency_key=scenario.key)

    def meet(self) -> None:
        """While the batch holds its topics, send single appends, each once."""
        log = self.log
        held = all(
            log.core.catalogue.find(topic).holder is not None for topic in self.scenario.classes
        )
        if held and self.scenario.singles and not self.answered:
            self.answered.append(("", 0))  # sent
            for topic, number in self.expected_singles():
                log.submit(
                    topic,
                    [{"single": number}],
                    lambda answer, t=topic, n=number: self.answered.append((t, n)),
                )

    def expected_singles(self) -> Iterator[tuple[str, int]]:
        return itertools.product(self.scenario.classes, range(self.scenario.singles))


def prepared(scenario: Scenario) -> World:
    fs = MemoryFilesystem()
    log = states.open_log(fs, bounds=scenario.bounds)
    used: set[object] = set()
    fillers = itertools.count()
    for topic, durability in scenario.classes.items():
        while True:  # ids decide the shard: skip those whose shard is taken, if others are free
            log.create(topic, durability=durability, **scenario.config)
            shard = log.core.catalogue.find(topic).shard
            if shard not in used or len(used) == scenario.shards:
                used.add(shard)
                break
            log.drop(topic)
            log.create(f"filler{next(fillers)}")
    for topic in scenario.classes:
        log.append(topic, [{"base": 1}, {"base": 2}])
    if scenario.has_earlier_batch:
        log.append_many([(topic, [{"earlier": topic}]) for topic in scenario.classes])
    log.sync()
    if scenario.is_compacted:
        log.compact()
    if scenario.has_earlier_loss:
        log.append(next(iter(scenario.classes)), [{"lost": 1}])
        fs = fs.power_cut(lambda change: VANISH)
        log = states.open_log(fs, bounds=scenario.bounds)
        log.sync()
    return World(scenario, fs, log)


# Judging.


@dataclass(slots=True)
class Inspector:
    """Opens crashed disks and says what is wrong with them. Keeps the count."""

    scenario: Scenario
    random: Random
    nested_nth: int
    checked: int = 0
    nested: int = 0
    happened: int = 0
    not_happened: int = 0
    violations: dict[str, str] = field(default_factory=dict)  # what -> one way to get there
    _known: set[tuple[str, str, bool]] = field(default_factory=set)

    def inspect(self, disk: MemoryFilesystem, story: str, *, is_acked: bool) -> None:
        """Every crash at this point: the process killed, or the power cut in many ways."""
        for state, how in crashes(disk, STATES_PER_POINT):
            self.checked += 1
            points = self._check(state, f"{story}: {how}", is_acked=is_acked)
            if points and self.random.randrange(self.nested_nth) == 0:
                for at, point in enumerate(points):
                    for again, how_again in crashes(point, STATES_PER_NESTED):
                        self.nested += 1
                        where = f"{story}: {how}, again in recovery at {at}: {how_again}"
                        self._check(again, where, is_acked=is_acked)

    def _check(
        self, state: MemoryFilesystem, story: str, *, is_acked: bool
    ) -> list[MemoryFilesystem]:
        """The disk before each change that the opening made to it; none when it was seen before."""
        key = (state.fingerprint(), state.boot_id(), is_acked)
        if key in self._known:
            return []
        self._known.add(key)
        points: list[MemoryFilesystem] = []
        state.on_operation = lambda index, kind, path: points.append(state.copy())
        try:
            log = states.open_log(state, bounds=self.scenario.bounds)
            state.on_operation = None
            wrong = self._objections(log, is_acked=is_acked)
            if not wrong and self.random.randrange(AFTERLIFE_NTH) == 0:
                wrong = self._afterlife(state, log)
        except (PenstockError, OSError, AssertionError) as error:
            wrong = [f"{type(error).__name__}: {error}"]
        finally:
            state.on_operation = None
        for objection in wrong:
            self.violations.setdefault(objection, story)
        return points

    def _objections(self, log: Log, *, is_acked: bool) -> list[str]:
        if log.damage:
            return [f"damage: {log.damage[0]}"]
        scenario = self.scenario
        found = {topic: everything(log, topic) for topic in scenario.classes}
        wrong: list[str] = []
        is_there: set[bool] = set()
        for topic in scenario.classes:
            mine = [record for record in found[topic] if "batch" in record.data]
            if mine:
                wrong += self._parts_in_order(topic, found[topic], mine)
            if topic in scenario.durable:
                is_there.add(bool(mine))
                wrong += self._base_is_kept(topic, found[topic])
        if len(is_there) > 1:
            wrong.append("some parts are there and some are not")
        elif is_acked and is_there == {False}:
            wrong.append("an acknowledged batch is gone")
        self.happened += is_there == {True}
        self.not_happened += is_there == {False}
        return wrong

    def _parts_in_order(
        self, topic: str, all_: Sequence[Record], mine: Sequence[Record]
    ) -> list[str]:
        if [replace(record, seq=0, ts=0) for record in mine] != self.scenario.sent(topic):
            return ["a part is torn, doubled or out of order"]
        seqs = [record.seq for record in mine]
        if seqs != list(range(seqs[0], seqs[0] + len(seqs))):
            return ["the seqs of a part are not consecutive"]
        singles = [record.data["single"] for record in all_ if "single" in record.data]
        if singles != list(range(len(singles))):
            return [f"single appends are lost, doubled or out of order: {singles}"]
        if any(record.seq < seqs[-1] for record in all_ if "single" in record.data):
            return ["a single append that came later lies before the batch"]
        return []

    def _base_is_kept(self, topic: str, all_: Sequence[Record]) -> list[str]:
        if self.scenario.config.get("discard", "old") == "old" and self.scenario.config:
            return []  # the cap may have let it go
        base = [record.data["base"] for record in all_ if "base" in record.data]
        if base != [1, 2] or (
            self.scenario.has_earlier_batch
            and sum("earlier" in record.data for record in all_) != 1
        ):
            return [f"what was there before is not: {topic}"]
        return []

    def _afterlife(self, fs: MemoryFilesystem, log: Log) -> list[str]:
        """The caller comes back with its key; then life goes on, and there is a restart."""
        scenario = self.scenario
        if scenario.key is not None:
            before = {topic: everything(log, topic) for topic in scenario.durable}
            had = any("batch" in record.data for record in next(iter(before.values())))
            answers = log.append_many(scenario.writes(), idempotency_key=scenario.key)
            for answer in answers:
                if answer.topic in scenario.durable and answer.deduped != had:
                    return ["a retry was not told whether its batch had happened"]
                mine = [r.seq for r in everything(log, answer.topic) if "batch" in r.data]
                if mine != list(range(answer.first_seq, answer.last_seq + 1)):
                    return ["a retry names other seqs than those of its records"]
            wrong = self._objections(log, is_acked=True)
            if wrong:
                return [f"after a retry: {one}" for one in wrong]
        if not scenario.config:
            for topic in scenario.classes:
                head = log.topic(topic).head_seq
                if log.append(topic, [{"later": 1}]).first_seq != head + 1:
                    return ["a seq was skipped"]
        log.sync()
        is_killed = bool(self.random.getrandbits(1))
        if not is_killed:
            log.close()
        again = states.open_log(fs.kill() if is_killed else fs, bounds=scenario.bounds)
        wrong = self._objections(again, is_acked=scenario.key is not None)
        return [f"after a retry and a restart: {one}" for one in wrong]


def crashes(disk: MemoryFilesystem, most: int) -> Iterator[tuple[MemoryFilesystem, str]]:
    yield disk.copy().kill(), "kill"
    for state in disk.crash_states(most):
        yield state, f"cut {states.fates(state)}"


def everything(log: Log, topic: str) -> list[Record]:
    found: list[Record] = []
    after = 0
    while True:
        page = log.read(topic, after, 1000)
        found += page.records
        if page.caught_up:
            return found
        assert page.next_seq > after, "a read does not move on"
        after = page.next_seq


def enumerate_crashes(
    scenario: Scenario, random: Random, nested_nth: int = NESTED_NTH
) -> tuple[Inspector, int]:
    """The inspector, and how many points there were."""
    world = prepared(scenario)
    inspector = Inspector(scenario, random, nested_nth)
    points: list[tuple[MemoryFilesystem, str, bool]] = []

    def note(index: int, kind: str, path: str) -> None:
        world.meet()
        points.append((world.fs.copy(), f"before {index}, {kind} {path}", False))

    world.fs.on_operation = note
    world.append()
    world.fs.on_operation = None
    points.append((world.fs.copy(), "at the end", True))
    for disk, where, is_acked in points:
        inspector.inspect(disk, f"{scenario.name}, {where}", is_acked=is_acked)
    if scenario.singles:
        assert world.answered[1:] == list(world.expected_singles())
    return inspector, len(points)


# The rig.


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.timeout(3_600)
def test_a_batch_happens_wholly_or_not_at_all_whatever_crashes(
    scenario: Scenario, report: rig.Report
) -> None:
    seed = rig.new_seed()

    inspector, points = enumerate_crashes(scenario, Random(f"{seed} {scenario.name}"))

    report(
        f"R9 {scenario.name}: {points} points, {inspector.checked} crashes, "
        f"{inspector.nested} in recovery, {inspector.happened} with and "
        f"{inspector.not_happened} without the batch, "
        f"{len(inspector.violations)} violations, seed {seed}"
    )
    told = [f"{wrong}\n    {story}" for wrong, story in inspector.violations.items()]
    assert not told, "\n".join([f"seed {seed}, {len(told)} violations:", *told[:12]])
    assert inspector.happened, "no crash found the batch there: the rig sees too little"
    assert inspector.not_happened, "no crash found the batch absent: the rig sees too little"


@pytest.mark.parametrize("kind", ["write", "sync"])
@pytest.mark.parametrize("name", ["two shards", "three shards", "after a batch", "in memory"])
@pytest.mark.timeout(3_600)
def test_a_batch_happens_wholly_or_not_at_all_whatever_fails(
    name: str, kind: str, report: rig.Report
) -> None:
    """Each write and sync of the batch fails in turn. Then the process dies, or the power goes."""
    scenario = BY_NAME[name]
    seed = rig.new_seed()
    inspector = Inspector(scenario, Random(f"{seed} {name} {kind}"), NESTED_NTH)

    for nth in itertools.count(1):
        world = prepared(scenario)
        fault = world.fs.fail(kind, nth=nth)
        is_acked = False
        try:
            world.append()
        except LogFailed:
            assert fault.fired
            assert world.log.failed is not None
        else:
            is_acked = True
        if not fault.fired:
            break
        inspector.inspect(world.fs, f"{name}, {kind} {nth} fails", is_acked=is_acked)

    report(
        f"R9 {name}: {nth - 1} failing {kind}s, {inspector.checked} crashes, "
        f"{inspector.nested} in recovery, {len(inspector.violations)} violations, seed {seed}"
    )
    told = [f"{wrong}\n    {story}" for wrong, story in inspector.violations.items()]
    assert not told, "\n".join([f"seed {seed}, {len(told)} violations:", *told[:12]])
    assert nth > 3, "no failure met the batch"


# The rig is worth what it catches.


def _without_intent(self: AtomicBatches, parts: list[Any], intents: Any) -> list[Any]:
    """The parts one after another, and nothing that says they belong together."""
    answers = [self._intents.write(part.handle, part.batch, self) for part in parts]
    self._intents.sync([part.handle for part in parts])
    return answers


def _never_finished(self: BatchIntents) -> int:
    return 0


def _unsynced(self: BatchIntents, handles: list[Any]) -> None:
    """The promise is forgotten before its parts are durable."""


def _always_kept(handle: Any, promise: Any) -> bool:
    return True


def _never_kept(handle: Any, promise: Any) -> bool:
    return False


def _kept_by_head_alone(handle: Any, promise: Any) -> bool:
    """Seqs that are used up count as written, lost or not."""
    return bool(handle.topic.head >= promise.first_seq + len(promise.datas) - 1)


_log_intent = BatchIntents._log


def _both_promises_stand(self: BatchIntents, intents: Any, text: bytes) -> int:
    """A promise of other seqs does not say which one it stands in for."""
    intent = msgspec.json.decode(text, type=batch_intents.Intent)
    return _log_intent(self, intents, msgspec.json.encode(batch_intents.Intent(intent.parts)))


Mutant = tuple[object, str, Callable[..., Any], str, int]  # where, what, instead, scenario, nested
MUTANTS: dict[str, Mutant] = {
    "no intent": (AtomicBatches, "_append", _without_intent, "one shard", 99),
    "never finished": (BatchIntents, "finish_interrupted", _never_finished, "one shard", 99),
    "not synced": (BatchIntents, "sync", _unsynced, "three shards", 99),
    "always kept": (batch_intents, "_is_kept", _always_kept, "one shard", 99),
    "never kept": (batch_intents, "_is_kept", _never_kept, "one shard, no key", 99),
    "losses ignored": (batch_intents, "_is_kept", _kept_by_head_alone, "one shard", 99),
    "both stand": (BatchIntents, "_log", _both_promises_stand, "one shard, no key", 4),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_batch_is_caught(name: str, report: rig.Report) -> None:
    where, attribute, instead, scenario, nested_nth = MUTANTS[name]

    with mock.patch.object(where, attribute, instead):
        inspector, _ = enumerate_crashes(BY_NAME[scenario], Random(7), nested_nth)

    assert inspector.violations, f"{name} survived"
    report(f"R9 {name}: caught by {scenario}: {next(iter(inspector.violations))}")
