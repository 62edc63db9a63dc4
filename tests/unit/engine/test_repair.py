"""Going past damage: what can be read stays, what cannot is told, and every byte is kept."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.engine.engine import Log
from penstock.engine.fsck import check
from penstock.engine.repair import RepairReport, repair
from penstock.errors import DirectoryInUse, InvalidArgument, NetworkFilesystem
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import ROOT, open_memory_log
from tests.unit.engine import harms
from tests.unit.engine.support import ASIDE, everything, paths

Harm = Callable[[MemoryFilesystem], None]
ALL = [1, 3, 4, 5, 6, 7, 8, 9, 10]
DERIVED: list[Harm] = [
    harms.mark_flipped,
    harms.newest_snapshot_flipped,
    harms.older_snapshot_flipped,
    harms.index_flipped,
    harms.index_removed,
    harms.tags_flipped,
]
DAMAGE: list[tuple[Harm, set[int]]] = [
    (harms.wal_record_flipped, {9}),
    (harms.last_wal_record_flipped, {10}),
    (harms.wal_cut, {9, 10}),
    (harms.segment_record_flipped, {3}),
    (harms.segment_cut, {7}),
    (harms.segment_removed, {5, 6, 7}),
]
each_damage = pytest.mark.parametrize(
    ("harm", "gone"), DAMAGE, ids=lambda v: getattr(v, "__name__", "")
)


def repaired(fs: MemoryFilesystem) -> tuple[RepairReport, Log]:
    """Repair, and hold everything that a repair promises for any harm."""
    clock = FakeClock()
    report = repair(fs, ROOT, clock)
    assert check(fs, ROOT).is_clean
    clock.advance(1000)
    assert repair(fs, ROOT, clock) == RepairReport([], 0)
    log = open_memory_log(fs)
    assert log.damage == []
    return report, log


def numbers(log: Log) -> list[int]:
    return [one for one in everything(log) if isinstance(one, int)]


def gaps(log: Log) -> set[int]:
    """Seqs up to 10 that readers are told they lost."""
    told = [one for one in everything(log) if isinstance(one, tuple)]
    assert all(reason == "damage" for _, _, reason in told)
    return {seq for first, last, _ in told for seq in range(first, min(last, 10) + 1)}


def test_a_healthy_directory_is_left_as_it_is() -> None:
    fs = harms.sample()

    report, log = repaired(fs)

    assert report == RepairReport([], 0)
    assert everything(log) == ALL
    assert paths(fs, ASIDE) == []


@pytest.mark.parametrize("harm", DERIVED, ids=lambda harm: harm.__name__)
def test_what_is_derived_is_made_anew_and_no_record_is_lost(harm: Harm) -> None:
    fs = harms.sample()
    harm(fs)

    report, log = repaired(fs)

    assert len(report.actions) == 1
    assert report.records_lost == 0
    assert everything(log) == ALL


@each_damage
def test_only_the_unreadable_is_lost_and_readers_are_told(harm: Harm, gone: set[int]) -> None:
    fs = harms.sample()
    harm(fs)

    report, log = repaired(fs)

    assert len(report.actions) == 1
    assert report.records_lost >= len(gone)
    assert numbers(log) == [number for number in ALL if number not in gone]
    assert gaps(log) >= gone
    assert not gaps(log) & set(numbers(log))


@each_damage
def test_a_lost_seq_is_never_handed_out_again(harm: Harm, gone: set[int]) -> None:
    fs = harms.sample()
    harm(fs)

    _, log = repaired(fs)

    assert log.append("t", ["new"]).first_seq > 10
    assert everything(log)[-1] == "new"


@each_damage
def test_every_file_that_is_touched_is_copied_aside_first(harm: Harm, gone: set[int]) -> None:
    fs = harms.sample()
    harm(fs)
    before = fs.copy()

    report, _ = repaired(fs)

    for action in report.actions:
        if before.exists(action.path):
            assert action.saved_as.startswith(f"{ASIDE}/")
            assert fs.read(action.saved_as) == before.read(action.path)
        else:
            assert action.saved_as == ""


def test_several_harms_are_mended_together() -> None:
    fs = harms.sample()
    for harm in (harms.wal_record_flipped, harms.segment_record_flipped, harms.tags_flipped):
        harm(fs)

    _, log = repaired(fs)

    assert numbers(log) == [1, 4, 5, 6, 7, 8, 10]
    assert gaps(log) == {3, 9}


def test_damage_found_later_below_an_earlier_one_is_told_apart() -> None:
    fs = harms.sample()
    harms.segment_cut(fs)
    _, log = repaired(fs)
    log.close()
    harms.segment_record_flipped(fs)

    clock = FakeClock()
    clock.advance(5000)
    repair(fs, ROOT, clock)
    log = open_memory_log(fs)

    assert numbers(log) == [1, 4, 5, 6, 8, 9, 10]
    assert gaps(log) == {3, 7}


@pytest.mark.parametrize(
    "harm", [harms.torn_tail, *(harm for harm, _ in DAMAGE), *DERIVED], ids=lambda h: h.__name__
)
def test_a_dry_run_tells_and_changes_nothing(harm: Harm) -> None:
    fs = harms.sample()
    harm(fs)
    before = {path: fs.read(path) for path in fs.paths()}

    report = repair(fs, ROOT, FakeClock(), dry_run=True)

    assert bool(report.actions) == (harm is not harms.torn_tail)
    assert {path: fs.read(path) for path in fs.paths()} == before


def test_a_directory_in_use_is_left_alone() -> None:
    fs = MemoryFilesystem()
    with open_memory_log(fs), pytest.raises(DirectoryInUse):
        repair(fs, ROOT, FakeClock())


def test_any_directory_will_not_do() -> None:
    fs = MemoryFilesystem()
    fs.make_dirs(ROOT)

    with pytest.raises(InvalidArgument):
        repair(fs, ROOT, FakeClock())


def test_a_directory_of_a_network_file_system_is_repaired_only_if_that_is_allowed() -> None:
    class Far(MemoryFilesystem):
        def network_kind(self, path: str) -> str:
            return "smb3"

    fs = Far()
    open_memory_log(fs, allow_network_fs=True).close()

    with pytest.raises(NetworkFilesystem, match="smb3"):
        repair(fs, ROOT, FakeClock())

    nothing = RepairReport([], 0)
    assert repair(fs, ROOT, FakeClock(), dry_run=True) == nothing
    assert repair(fs, ROOT, FakeClock(), allow_network_fs=True) == nothing
