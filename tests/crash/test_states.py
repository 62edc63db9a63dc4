"""R6: all short sequences of operations, crashed at every point in every way, and recovered."""

from __future__ import annotations

from random import Random

import pytest

from penstock.engine.engine import Log
from penstock.testing.clock import FakeClock
from penstock.testing.crash import LAND, VANISH, Fate, Pending
from penstock.testing.fs import MemoryFilesystem
from tests.support import rig, states

PARTS = 6
SEQUENCES_PER_PART = None if rig.IS_FULL else 4
STATES_PER_POINT = 24
AFTERLIFE_NTH = 40 if rig.IS_FULL else 30
SHARDS = (1, 1, 2)


def numbered(part: int) -> list[tuple[str, tuple[states.Step, ...]]]:
    """This part's share of all sequences on all preparations."""
    every = [(name, steps) for steps in states.SEQUENCES for name in states.PREPARATIONS]
    return every[part::PARTS]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(3_600)
def test_every_crash_of_a_short_sequence_keeps_every_promise(part: int, report: rig.Report) -> None:
    """Crash points within all but the last step belong to the shorter sequence."""
    seed = rig.new_seed()
    random = Random(f"{seed} {part}")
    chosen = numbered(part)
    if SEQUENCES_PER_PART is not None:
        chosen = random.sample(chosen, SEQUENCES_PER_PART)
    bounds = states.settings(shards=SHARDS[part % len(SHARDS)])
    worlds = {name: states.prepared(name, bounds) for name in states.PREPARATIONS}
    inspector = states.Inspector(
        random, bounds=bounds, states_max=STATES_PER_POINT, nth=AFTERLIFE_NTH
    )

    for name, steps in chosen:
        story = f"{name}: {', '.join(step.name for step in steps)}"
        world = worlds[name].copy(settled=random.random() < 0.8)
        for point in states.crash_points(world, steps):
            inspector.inspect(point, story)

    report(
        f"R6 part {part}: {len(chosen)} sequences, {inspector.checked} crashes, "
        f"{inspector.distinct} distinct states, {inspector.nested} crashes in recovery, "
        f"{len(inspector.violations)} violations, seed {seed}"
    )
    told = [f"{wrong}\n    {story}" for wrong, story in inspector.violations.items()]
    assert not told, "\n".join([f"seed {seed}, {len(told)} violations:", *told[:12]])


# The shortest stories behind what the enumeration and the model have found.


def lose_all(change: Pending) -> Fate:
    return VANISH


def started(topic: str, durability: str, **config: int) -> tuple[MemoryFilesystem, Log]:
    fs = MemoryFilesystem()
    log = states.open_log(fs)
    log.create(topic, durability=durability, **config)
    return fs, log


def test_a_loss_once_told_is_told_for_ever() -> None:
    fs, log = started("d", "disk")
    log.create("f", durability="fsync")
    log.append("d", ["lost"])
    fs = fs.power_cut(lose_all)
    log = states.open_log(fs)
    head = log.topic("d").head_seq
    log.append("f", ["elsewhere"])

    log = states.open_log(fs.kill())

    assert log.topic("d").head_seq == head >= 1
    assert log.append("d", ["another"]).first_seq == head + 1


def test_records_after_the_last_wal_file_was_removed_are_kept() -> None:
    fs, log = started("f", "fsync")
    log.append("f", [1])
    log.close()
    log = states.open_log(fs)
    log.checkpoint()
    log.checkpoint()
    log.close()

    with states.open_log(fs) as again:
        again.append("f", [2])

    with states.open_log(fs) as at_last:
        assert [record.data for record in at_last.read("f").records] == [1, 2]


def test_a_clean_close_says_nothing_about_the_run_after_it() -> None:
    fs, log = started("d", "disk")
    log.append("d", [1])
    log.close()
    states.open_log(fs).append("d", [2])

    log = states.open_log(fs.power_cut(lose_all))

    assert log.topic("d").head_seq >= 2
    assert log.append("d", ["another"]).first_seq > 2


def test_sync_syncs_at_any_time_of_the_clock() -> None:
    fs, log = started("d", "disk")
    log.append("d", [1])
    log.sync()

    log = states.open_log(fs.power_cut(lose_all))

    assert [record.data for record in log.read("d").records] == [1]


def test_a_shard_without_writes_since_a_power_cut_alarms_nobody() -> None:
    bounds = states.settings(shards=2)
    fs = MemoryFilesystem()
    log = states.open_log(fs, bounds=bounds)
    for name in "abcdefgh":
        log.append(name, [1])
    log.sync()
    fs = fs.power_cut(lambda change: LAND)
    log = states.open_log(fs, bounds=bounds)
    log.append("new", [1])

    log = states.open_log(fs.kill(), bounds=bounds)

    assert log.topic("new").head_seq == 1


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_crash_in_the_first_checkpoint_forgets_no_key(is_killed: bool) -> None:
    fs, log = started("f", "fsync")
    log.append("f", [1], tag="a", idempotency_key="k")
    points: list[MemoryFilesystem] = []
    fs.on_operation = lambda index, kind, path: points.append(fs.copy())

    log.checkpoint(everything=True)

    for point in points:
        survivor = point.kill() if is_killed else point.power_cut(lose_all)
        assert states.open_log(survivor).append("f", [1], idempotency_key="k").deduped


def test_seqs_of_a_ram_only_topic_are_not_used_again_after_a_kill() -> None:
    fs, log = started("e", "ephemeral")
    log.close()
    states.open_log(fs).append("e", [1, 2, 3])

    log = states.open_log(fs.kill())

    assert log.append("e", ["another"]).first_seq > 3


def test_seqs_of_a_ram_only_topic_that_was_emptied_are_not_used_again() -> None:
    fs, log = started("e", "ephemeral")
    log.append("e", [1, 2, 3])
    log.delete("e", before_seq=9)
    log.close()

    with states.open_log(fs) as again:
        assert again.append("e", ["another"]).first_seq > 3


def test_seqs_of_a_topic_that_was_ram_only_are_not_used_again() -> None:
    fs, log = started("e", "ephemeral")
    log.append("e", [1, 2, 3])
    log.create("e", durability="disk")
    log.close()

    with states.open_log(fs) as again:
        assert again.append("e", ["another"]).first_seq > 3


def test_a_cap_tells_nothing_of_what_was_deleted_on_purpose() -> None:
    _, log = started("f", "fsync")
    log.append("f", [1, 2, 3])
    log.compact()
    log.append("f", [4, 5])
    log.delete("f", seqs=[3])

    log.create("f", durability="fsync", cap_records=2)

    assert log.read("f", after=2).gap is None


def test_a_ttl_tells_nothing_of_what_was_deleted_on_purpose() -> None:
    clock = FakeClock()
    log = states.open_log(MemoryFilesystem(), clock)
    log.create("f", durability="fsync", ttl_ms=1_000)
    log.append("f", [1, 2])
    log.delete("f", seqs=[2])

    clock.advance(5_000)

    assert log.read("f", after=1).gap is None
