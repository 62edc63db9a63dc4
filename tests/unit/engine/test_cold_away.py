"""A cold tier that does not answer, is not mounted, is somebody else's, or is full."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.cold_mover import ColdReport
from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.engine.repair import repair
from penstock.errors import ColdUnavailable, InvalidArgument
from penstock.storage.tiers.folder import FolderTier
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import ROOT, open_memory_log
from tests.support.serving import DEADLINE_S
from tests.unit.engine.colds import COLD, TIER, fill, filled, mount, unmount
from tests.unit.engine.support import TOPICS, everything, paths, restarted


@pytest.fixture
def fs() -> MemoryFilesystem:
    return MemoryFilesystem()


@pytest.fixture
def log(fs: MemoryFilesystem) -> Log:
    return filled(fs)


def test_a_tier_that_is_away_costs_old_records_only(fs: MemoryFilesystem, log: Log) -> None:
    log.core.parts.shelf.maps.forget("")
    fs.fail("any", error=errno.EIO, persistent=True, path=f"{COLD}/")

    with pytest.raises(ColdUnavailable, match="cannot be read"):
        log.read("t", 0)
    assert log.append("t", ["new"]).last_seq == 51
    assert [record.data for record in log.read("t", 45).records] == [45, 46, 47, 48, 49, "new"]


def test_a_log_opens_without_its_tier(fs: MemoryFilesystem, log: Log) -> None:
    log.close()
    for path in paths(fs, f"{COLD}/"):
        fs.unlink(path)

    with open_memory_log(fs) as again:
        assert again.append("t", ["new"]).last_seq == 51
        with pytest.raises(ColdUnavailable, match="no cold tier here; mount it"):
            again.read("t", 0)
        assert repair_finds(fs, again) == []


def repair_finds(fs: MemoryFilesystem, log: Log) -> list[str]:
    """Repair must not report records as lost because a tier is not mounted."""
    log.close()
    with pytest.raises(ColdUnavailable):
        repair(fs, ROOT, FakeClock())
    return [path for path in fs.paths() if "/aside/" in path]


def test_a_full_tier_is_tried_again(fs: MemoryFilesystem) -> None:
    log = open_memory_log(fs, **TIER)
    fill(log, 50)
    mover = log.core.parts.mover
    assert mover is not None
    log.checkpoint()
    fault = fs.fail("write", error=errno.ENOSPC, persistent=True, path=f"{COLD}/")

    mover.beat()

    assert fault.fired
    assert "No space" in mover.trouble
    assert log.stats().cold_failures_total == 1
    assert log.failed is None
    assert everything(log) == list(range(50))
    fs.heal()
    mover.beat()
    assert mover.trouble == ""
    assert log.stats().cold_segments == 4


def test_writes_go_on_while_a_move_hangs(fs: MemoryFilesystem) -> None:
    log = open_memory_log(fs, **TIER)
    fill(log, 50)
    log.checkpoint()
    mover = log.core.parts.mover
    assert mover is not None
    reached, go_on = threading.Event(), threading.Event()
    real = mover._tier.put

    def slow(key: str, parts: Any) -> None:
        if key.endswith(".data"):
            reached.set()
            assert go_on.wait(DEADLINE_S)
        real(key, parts)

    mover._tier.put = slow  # type: ignore[method-assign]
    thread = threading.Thread(target=mover.beat)
    thread.start()
    assert reached.wait(DEADLINE_S)

    assert log.append("t", ["new"]).last_seq == 51
    assert everything(log)[-1] == "new"
    log.checkpoint(everything=True)
    assert log.delete("t", seqs=[3]).deleted == 1

    go_on.set()
    thread.join()
    assert everything(log) == [0, 1, *range(3, 50), "new"]


@pytest.mark.parametrize("is_open", [True, False])
def test_a_tier_that_is_not_mounted_is_neither_claimed_nor_filled(
    fs: MemoryFilesystem, log: Log, is_open: bool
) -> None:
    log.core.parts.shelf.maps.forget("")
    held = unmount(fs)
    if not is_open:
        log = restarted(log, **TIER)
    fill(log, 30, "u")
    mover = log.core.parts.mover
    assert mover is not None

    mover.beat()

    assert "no cold tier here" in mover.trouble
    assert paths(fs, f"{COLD}/") == []
    assert everything(log, "u") == list(range(30))
    mount(fs, held)
    mover.beat()
    assert everything(log) == list(range(50))
    assert everything(log, "u") == list(range(30))
    assert log.stats().cold_segments == 6


def test_a_tier_that_is_unmounted_during_a_copy_gets_the_segment_later(
    fs: MemoryFilesystem,
) -> None:
    log = open_memory_log(fs, **TIER)
    fill(log, 20)
    log.relocate()
    fill(log, 20, "u")
    log.checkpoint()
    mover = log.core.parts.mover
    assert mover is not None
    held: dict[str, bytes] = {}
    put = mover._tier.put

    def put_elsewhere(key: str, parts: Any) -> None:
        if key.endswith(".data") and not held:
            held.update(unmount(fs))
        put(key, parts)

    mover._tier.put = put_elsewhere  # type: ignore[method-assign]
    mover.beat()

    assert "no cold tier here" in mover.trouble
    for path in paths(fs, f"{COLD}/"):
        fs.unlink(path)  # what was written below the mount point does not count
    assert everything(log, "u") == list(range(20))
    mount(fs, held)
    mover.beat()
    assert everything(log, "u") == list(range(20))


def test_a_folder_that_holds_something_is_not_taken(fs: MemoryFilesystem) -> None:
    other = open_log(COLD, fs=fs, clock=FakeClock(), background=False)
    other.append("t", ["precious"])
    other.close()
    before = {path: bytes(fs.map(path)) for path in paths(fs, f"{COLD}/")}
    log = open_memory_log(fs, **TIER)
    fill(log, 30)

    with pytest.raises(ColdUnavailable, match="not empty"):
        log.relocate()

    assert {path: bytes(fs.map(path)) for path in paths(fs, f"{COLD}/")} == before


def test_a_data_directory_reached_by_another_name_is_not_its_own_tier(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)

    for data, cold in ((link, real), (real, link), (real / "data", real)):
        with pytest.raises(InvalidArgument, match="data directory"):
            open_log(str(data), cold_dir=str(cold), background=False)


def test_two_logs_that_come_at_once_do_not_both_get_a_tier(fs: MemoryFilesystem) -> None:
    log = open_memory_log(fs, **TIER)
    other = open_log("/other", fs=fs, clock=FakeClock(), background=False, **TIER)
    fill(log, 30)
    for n in range(0, 30, 10):
        other.append("t", [f"other {k}" for k in range(n, n + 10)])
    other.checkpoint(everything=True)
    mover = other.core.parts.mover
    assert mover is not None
    listed = mover._tier.list

    def list_early(prefix: str) -> list[str]:
        found = listed(prefix)
        log.relocate()  # the one comes while the other looks
        return found

    mover._tier.list = list_early  # type: ignore[method-assign]
    with pytest.raises((FileExistsError, ColdUnavailable)):
        other.relocate()

    assert everything(log) == list(range(30))
    assert everything(other) == [f"other {k}" for k in range(30)]


def test_a_lost_index_and_a_tier_that_is_away_close_nothing(fs: MemoryFilesystem, log: Log) -> None:
    log.create("t", ttl_ms=1 << 40)
    log.core.parts.shelf.maps.forget("")
    for path in [*paths(fs, TOPICS, "0011.idx"), *paths(fs, TOPICS, "0011.tags")]:
        fs.unlink(path)
    held = unmount(fs)

    for what in ({"tag": "k1"}, {"seqs": [13]}, {"before_seq": 15}):
        with pytest.raises(ColdUnavailable):
            log.delete("t", **what)
    log.upkeep()

    assert log.failed is None
    assert log.append("t", ["new"]).last_seq == 51
    mount(fs, held)
    assert log.delete("t", tag="k1").deleted == 25


def test_a_hot_segment_without_an_index_keeps_no_other_from_going(fs: MemoryFilesystem) -> None:
    log = open_memory_log(fs, **TIER)
    fill(log, 30)
    fill(log, 30, "u")
    for path in paths(fs, f"{TOPICS}/00000001", "0001.idx"):
        fs.unlink(path)

    log.relocate()

    assert log.stats().cold_segments == 3
    log.relocate()  # its index was written anew meanwhile
    assert log.stats().cold_segments == 4
    assert everything(log) == everything(log, "u") == list(range(30))


def test_jobs_of_a_queue_stay(fs: MemoryFilesystem) -> None:
    log = open_memory_log(fs, **TIER)
    log.create("jobs", type="queue")
    fill(log, 50, "jobs")

    assert log.relocate() == ColdReport()


def test_closing_does_not_wait_for_a_put_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.engine.maintenance._MOVE_WAIT_S", 0.1)
    reached, go_on = threading.Event(), threading.Event()
    put = FolderTier.put

    def hang(self: FolderTier, key: str, parts: Any) -> None:
        if key.endswith(".data"):
            reached.set()
            assert go_on.wait(DEADLINE_S)
        put(self, key, parts)

    monkeypatch.setattr(FolderTier, "put", hang)
    settings = {**TIER, "cold_dir": str(tmp_path / "cold")}
    log = open_log(str(tmp_path / "data"), **settings)
    fill(log, 50)
    assert reached.wait(DEADLINE_S)
    moving = log.core.maintenance._moving
    assert moving is not None

    log.close()

    go_on.set()
    with open_log(str(tmp_path / "data"), background=False) as again:
        assert everything(again) == list(range(50))
    moving._thread.join(DEADLINE_S)  # its folder goes with the test


def test_a_new_tier_gets_what_was_sealed_before(fs: MemoryFilesystem) -> None:
    """Also when nothing is written any more."""
    log = open_memory_log(fs, segment_max_events=10)
    fill(log, 50)
    log = restarted(log, **TIER)
    mover = log.core.parts.mover
    assert mover is not None

    mover.beat()

    assert log.stats().cold_segments == 4
