"""A segment on its way to the cold tier, crashed at every point in every way: no record is lost,
none is read twice, and the tier keeps nothing that nobody knows of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any
from unittest import mock

import pytest

from penstock.directory.directory_view import look
from penstock.engine.cold_mover import Mover
from penstock.storage.fs import Buffer
from penstock.storage.segments.reader import Segment
from penstock.storage.tiers.folder import FolderTier
from penstock.testing.fs import MemoryFilesystem
from tests.support import rig, states
from tests.support.states import COLD_DIR, RELOCATE, Step

SEQUENCES_MAX = None if rig.IS_FULL else 3
STATES_PER_POINT = 24
BOUNDS = states.settings(cold_dir=COLD_DIR, hot_retain_segments=0)


def sequences() -> Iterator[tuple[Step, ...]]:
    yield (RELOCATE,)
    for step in states.STEPS:
        yield (step, RELOCATE)
        yield (RELOCATE, step)
        yield (RELOCATE, step, RELOCATE)
        yield (states.COMPACT, RELOCATE, step, states.COMPACT, RELOCATE)


def inspected(chosen: Sequence[tuple[str, tuple[Step, ...]]], random: Random) -> states.Inspector:
    worlds = {name: states.prepared(name, BOUNDS) for name in states.PREPARATIONS}
    inspector = states.Inspector(random, bounds=BOUNDS, states_max=STATES_PER_POINT, nth=30)
    for name, steps in chosen:
        story = f"{name}: {', '.join(step.name for step in steps)}"
        world = worlds[name].copy(settled=random.random() < 0.8)
        for point in states.crash_points(world, steps):
            inspector.inspect(point, story)
    return inspector


@pytest.mark.timeout(3_600)
def test_every_crash_of_a_move_keeps_every_promise(report: rig.Report) -> None:
    seed = rig.new_seed()
    random = Random(f"{seed}")
    chosen = [(name, steps) for steps in sequences() for name in states.PREPARATIONS]
    if SEQUENCES_MAX is not None:
        chosen = random.sample(chosen, SEQUENCES_MAX)

    found = inspected(chosen, random)

    report(
        f"cold tier: {len(chosen)} sequences, {found.checked} crashes, {found.distinct} distinct "
        f"states, {len(found.violations)} violations, seed {seed}"
    )
    told = [f"{wrong}\n    {story}" for wrong, story in found.violations.items()]
    assert not told, "\n".join([f"seed {seed}, {len(told)} violations:", *told[:12]])


# Mutants: each breaks one rule of the order, and must be caught.


PUT = FolderTier.put


def unsynced(self: FolderTier, key: str, parts: Sequence[Buffer]) -> None:
    """The copy is written and not synced."""
    if not key.endswith(".data"):
        PUT(self, key, parts)
        return
    path = self._path(key)
    directory = path.rpartition("/")[0]
    self._fs.make_dirs(directory)
    if self._fs.exists(path):
        self._fs.unlink(path)
    file = self._fs.create(path)
    file.write_at(b"".join(parts), 0)
    file.close()
    self._fs.sync_dir(directory)


def hot_first() -> Callable[..., bool]:
    """The data here goes before the copy is there."""
    move = Mover._move

    def hasty(self: Mover, segment: Segment) -> bool:
        held = bytes(segment.data())
        with mock.patch.object(Segment, "data", return_value=memoryview(held)):
            self._fs.unlink(segment.data_path)
            with mock.patch.object(self._fs, "exists", return_value=True):
                return move(self, segment)

    return hasty


MUTANTS: dict[str, tuple[type, str, Any]] = {
    "copy-unsynced": (FolderTier, "put", unsynced),
    "hot-goes-first": (Mover, "_move", hot_first()),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mover_that_breaks_the_order_is_caught(name: str, report: rig.Report) -> None:
    where, attribute, instead = MUTANTS[name]
    steps = (RELOCATE, states.STEPS[0], states.COMPACT, RELOCATE)

    with mock.patch.object(where, attribute, instead):
        found = inspected([("sealed", steps)], Random(1))

    assert found.violations, f"{name} survived {found.checked} crashes"
    report(f"cold tier, {name}: caught, {next(iter(found.violations))[:100]}")


# Afterwards the tier holds what the log says that it holds.


def test_a_tier_is_left_with_what_is_named_after_any_crash() -> None:
    """A pass after a crash finishes what the one before it began."""
    world = states.prepared("sealed", BOUNDS)
    world.run(states.COMPACT)
    points = [*states.crash_points(world.copy(settled=True), (RELOCATE,))]

    for point in points:
        survivor = point.fs.copy().kill()
        log = states.open_log(survivor, bounds=BOUNDS)
        log.relocate()
        log.drop("d")
        log.relocate()
        live = {info.epoch for info in log.topics()}
        log.close()
        in_tier = FolderTier(survivor, COLD_DIR).list("topics")
        assert {int(key.split("/")[1], 16) for key in in_tier} <= live, point.where
        hot = [path for path in survivor.paths() if path.endswith(".data") and "/data/" in path]
        assert not hot, (point.where, hot)


def test_the_tier_alone_shows_a_beginning_of_every_topic_after_any_crash() -> None:
    world = states.prepared("sealed", BOUNDS)
    world.run(states.COMPACT)
    world.run(RELOCATE)
    world.run(states.STEPS[1])
    world.run(states.COMPACT)
    before = states.see(states.open_log(world.fs.copy().kill(), bounds=BOUNDS))

    for point in states.crash_points(world.copy(settled=True), (RELOCATE,)):
        for state in [point.fs.copy().kill(), *point.fs.crash_states(8)]:
            check_beginning(state, before, point.where)


def check_beginning(state: MemoryFilesystem, whole: dict[str, Any], where: str) -> None:
    view = look(COLD_DIR, fs=state)
    for topic in view.topics():
        seen = whole[topic.name]
        assert topic.head <= seen.head, where
        assert topic.live == len([seq for seq in seen.records if seq <= topic.head]), where
        for span in topic.spans:
            assert isinstance(span.run, Segment)
            assert not span.run.unreadable(span.start, span.count, span.bits), where
