"""One suite for every projection: a fold of the records and nothing else.

To add one, append a `Case` to `CASES`: how to make it empty, records that meet all its branches,
and what of its state a reader can see.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.features.dedupe_index import DedupeIndex
from penstock.features.definition import Definition
from penstock.features.event_decoder import FieldSchema
from penstock.features.part_memory import PartMemory
from penstock.features.table_part import TablePart
from penstock.projections.projection import Projection
from penstock.projections.runner import ProjectionRunner, RunnerOptions
from penstock.projections.spill import SpillFolder
from penstock.projections.table_keys import KeySource
from penstock.projections.tables import TableState
from penstock.testing.clock import FakeClock
from penstock.testing.fs import MemoryFilesystem
from penstock.types import Offset
from tests.support import feature_history
from tests.support.seeds import RIGS
from tests.unit.features.bounded_rig import pieces_of, states_of
from tests.unit.projections.support import Adder, ListTail

HOME = "/data/projections/1"


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[], Any]
    fill: Callable[[ListTail, Random, int], None]  # append that many records
    seen: Callable[[Any], object]  # equal for equal states, whatever led to them


def numbers(tail: ListTail, random: Random, count: int) -> None:
    tail.add(*(b"%d" % random.randint(-99, 99) for _ in range(count)))


def keyed(tail: ListTail, random: Random, count: int) -> None:
    """Few keys of all types, so that rows come, change and go; and records without a key."""
    keys = [True, False, *range(-3, 4), *"abcdefg", 1.5, None]
    for number in range(count):
        key, draw = random.choice(keys), random.random()
        data = json.dumps({"id": key, "n": number, "pad": "x" * random.randint(0, 40)}).encode()
        if draw < 0.2:
            tail.add(data, meta=b'{"deleted":true}')
        elif draw < 0.3:
            tail.add(b"null", tag=random.choice([b"a", b"b", b"1", None]))
        else:
            tail.add(data, tag=random.choice([b"a", b"b", None]), node=b"n%d" % (number % 5))


def table_seen(state: TableState) -> object:
    rows, is_more = state.scan(b"", None, 1 << 30, 1 << 40)
    return rows, is_more, state.count, state.skipped, state.lost


def table(key: str) -> Case:
    return Case(f"table by {key}", lambda: TableState(KeySource(key)), keyed, table_seen)


PLAN = Definition.parse(feature_history.document()).plan("T")  # with every operator
FIRST_TS = feature_history.START_MS + 1  # about the times of its events
PART_BYTES = 300_000
USERS = 40


class EagerMemory(PartMemory):
    """Moves keys to disk as soon as there are too many."""

    def is_due(self, keys: int, uses: int) -> bool:
        return super().is_due(keys, uses) or keys > 0


def bounded_part() -> TablePart:
    folder = SpillFolder(MemoryFilesystem(), "/spill")
    return TablePart(PLAN, EagerMemory(PLAN, folder, lambda _: PART_BYTES))


def of_features(tail: ListTail, random: Random, count: int) -> None:
    tail.add(*feature_history.events(random, count, keys=USERS))


def ids_seen(state: Any) -> Any:
    return [(bucket.start, dict(bucket.ids)) for bucket in state._buckets]


def part_seen(part: TablePart) -> object:
    """The state of every key, bit by bit, and its row."""
    now_ms = part.largest_time or 0
    keys = [(f"u{user}", band) for user in range(USERS) for band in (0, 1)]
    states = states_of(TablePart(PLAN), pieces_of(part))
    return states, part.rows(keys, now_ms), part.counters, part.largest_time


def with_ids(tail: ListTail, random: Random, count: int) -> None:
    """Ids of which some are repeated, some are missing, and some are no text."""
    for _ in range(count):
        one = random.choice([f"i{random.randrange(300)}", f"i{random.randrange(300)}", None, 7])
        tail.add(json.dumps({"id": one, "n": 1}).encode())


def index() -> DedupeIndex:
    """Its buckets have 8 records of a ListTail each: those of the oldest are forgotten."""
    return DedupeIndex("E", "id", FieldSchema("str"), 64)


CASES = [
    Case("adder", Adder, numbers, lambda state: (state.sum, state.order, state.lost)),
    table("id"),
    table("tag"),
    table("node"),
    Case("features", lambda: TablePart(PLAN), of_features, part_seen),
    Case("features, most of them on disk", bounded_part, of_features, part_seen),
    Case(
        "ids", index, with_ids, lambda state: [(one.start, dict(one.ids)) for one in state._buckets]
    ),
]

every = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def filled(case: Case, count: int = 200, seed: int = RIGS) -> ListTail:
    tail = ListTail(first_ts=FIRST_TS)
    case.fill(tail, Random(f"{seed} {case.name}"), count)
    return tail


def feed(state: Projection, tail: ListTail, after: int, sizes: Iterable[int]) -> None:
    """Apply the records past `after` in batches of these sizes, as many as there are."""
    for size in sizes:
        page = tail.read_columns(after, size, state.wanted)
        assert page is not None
        if not page.columns.count:
            return
        state.apply(page.columns)
        after = page.next_seq


def whole(case: Case, tail: ListTail) -> Any:
    state = case.make()
    feed(state, tail, 0, [len(tail.records)])
    return state


def runner_of(
    case: Case, tail: ListTail, fs: MemoryFilesystem, make: Callable[[], Any] | None = None
) -> ProjectionRunner:
    options = RunnerOptions(page_records=17)
    runner = ProjectionRunner(fs, HOME, tail, make or case.make, FakeClock(), options)
    runner.restore()
    return runner


@every
def test_it_says_what_it_is(case: Case) -> None:
    one, other = case.make(), case.make()

    assert (one.kind, one.version, one.definition) == (other.kind, other.version, other.definition)
    assert isinstance(one.definition, bytes)
    assert json.loads(one.definition) is not None
    assert one.wanted > 0
    assert one.bytes >= 0


@every
@settings(max_examples=10)
@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=8), seed=st.integers(0, 9))
def test_batches_divided_anyhow_give_the_same_state(
    case: Case, sizes: list[int], seed: int
) -> None:
    tail = filled(case, seed=seed)

    state = case.make()
    feed(state, tail, 0, sizes * 200)

    assert case.seen(state) == case.seen(whole(case, tail))


@every
def test_a_replay_gives_what_was_folded_live(case: Case) -> None:
    tail, random = ListTail(first_ts=FIRST_TS), Random(RIGS)
    live = runner_of(case, tail, MemoryFilesystem())
    for count in (1, 5, 40, 3, 100):
        case.fill(tail, random, count)
        live.read_own()

    replayed = runner_of(case, tail, MemoryFilesystem())
    replayed.catch_up()

    assert case.seen(replayed.projection) == case.seen(live.projection)


@every
@settings(max_examples=10)
@given(st.integers(0, 120), st.integers(1, 30))
def test_a_snapshot_and_the_rest_is_the_fold_of_all(case: Case, at: int, between: int) -> None:
    """Records are applied between any two parts."""
    tail = filled(case, 150)
    state = case.make()
    feed(state, tail, 0, [at] if at else [])
    before = case.seen(state)

    parts, position = [], at
    for part in state.snapshot():
        parts.append(bytes(part))
        feed(state, tail, position, [between])
        position = min(position + between, 150)

    again = case.make()
    again.restore(memoryview(part) for part in parts)
    assert case.seen(again) == before
    feed(again, tail, at, [1 << 20])
    feed(state, tail, position, [1 << 20])
    assert case.seen(again) == case.seen(state) == case.seen(whole(case, tail))


@every
def test_a_part_that_was_given_no_longer_changes(case: Case) -> None:
    tail = filled(case)
    state = case.make()
    feed(state, tail, 0, [150])

    given_parts = list(state.snapshot())
    then = [bytes(part) for part in given_parts]
    feed(state, tail, 150, [50])

    assert [bytes(part) for part in given_parts] == then


@every
def test_two_snapshots_of_a_restored_state_are_of_the_same_state(case: Case) -> None:
    state = whole(case, filled(case))
    first = case.make()
    first.restore(memoryview(bytes(part)) for part in state.snapshot())
    second = case.make()
    second.restore(memoryview(bytes(part)) for part in first.snapshot())

    assert case.seen(first) == case.seen(second) == case.seen(state)


@every
def test_it_goes_on_past_lost_records(case: Case) -> None:
    tail = filled(case, 30)
    tail.lose(5)
    case.fill(tail, Random(1), 30)
    runner, again = (runner_of(case, tail, MemoryFilesystem()) for _ in range(2))

    runner.catch_up()
    again.catch_up()

    assert (runner.applied, runner.counts.lost_seqs) == (Offset(1, 65), 5)
    assert case.seen(runner.projection) == case.seen(again.projection)


@every
def test_its_file_brings_it_back(case: Case) -> None:
    fs, tail = MemoryFilesystem(), filled(case)
    runner = runner_of(case, tail, fs)
    runner.catch_up()
    assert runner.save()
    case.fill(tail, Random(2), 20)

    again = runner_of(case, tail, fs)
    assert again.applied == Offset(1, 200)
    again.catch_up()

    assert case.seen(again.projection) == case.seen(whole(case, tail))
    assert again.counts.records == 20


@every
def test_a_crash_at_any_change_of_its_files_leaves_the_fold(case: Case) -> None:
    """Power cuts and kills while it folds and is saved, three times."""
    fs, tail = MemoryFilesystem(), ListTail(first_ts=FIRST_TS)
    runner = runner_of(case, tail, fs)
    disks: list[MemoryFilesystem] = []
    for count in (20, 60, 40):
        case.fill(tail, Random(f"{RIGS} {count}"), count)
        fs.on_operation = lambda index, kind, path: disks.append(fs.copy())
        runner.catch_up()
        assert runner.save()
        fs.on_operation = None
    crashes = (
        crashed for disk in [*disks, fs.copy()] for crashed in (disk.kill(), *disk.crash_states(3))
    )
    different = {crashed.fingerprint(): crashed for crashed in crashes}
    wanted, offsets = case.seen(whole(case, tail)), set()

    for crashed in different.values():
        again = runner_of(case, tail, crashed)
        offsets.add(again.applied)
        again.catch_up()
        assert case.seen(again.projection) == wanted

    assert offsets == {None, Offset(1, 20), Offset(1, 80), Offset(1, 120)}


@every
@pytest.mark.parametrize("change", [{"version": 99}, {"definition": b'{"other":1}'}])
def test_the_file_of_another_version_or_definition_is_not_used(
    case: Case, change: dict[str, Any]
) -> None:
    def other() -> Any:
        made = case.make()
        for name, value in change.items():
            setattr(made, name, value)
        return made

    fs, tail = MemoryFilesystem(), filled(case)
    runner = runner_of(case, tail, fs)
    runner.catch_up()
    runner.save()

    again = runner_of(case, tail, fs, other)

    assert (again.applied, again.counts.discarded) == (None, 1)
    again.catch_up()
    assert case.seen(again.projection) == case.seen(runner.projection)


@every
def test_parts_that_are_missing_are_refused(case: Case) -> None:
    """The checksums of the file are right: the parts themselves are not a snapshot."""
    parts = [bytes(part) for part in whole(case, filled(case)).snapshot()]

    with pytest.raises(ValueError, match=r"."):
        case.make().restore(memoryview(part) for part in parts[:-1])
    with pytest.raises(ValueError, match=r"."):
        case.make().restore(iter([]))


def test_the_bound_of_features_moves_keys_to_disk_here() -> None:
    case = next(case for case in CASES if case.make is bounded_part)

    part = case.make()
    feed(part, filled(case), 0, [20] * 10)

    assert 0 < part.keys_on_disk < part.keys


def test_a_fold_that_forgets_is_found() -> None:
    """The suite is worth what it catches: here, a batch's last record."""

    class Forgetful(Adder):
        def apply(self, columns: Any) -> None:
            super().apply(columns)
            self.order += columns.count > 1

    case = replace(CASES[0], make=Forgetful)
    tail = filled(case)
    state = case.make()
    feed(state, tail, 0, [1] * 200)

    assert case.seen(state) != case.seen(whole(case, tail))
