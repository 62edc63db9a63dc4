"""Old segments go to the cold tier and are read from there. Crashes in between are in
tests/crash/test_cold.py."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.engine import check
from penstock.engine.cold import ColdReport
from penstock.engine.engine import Log, open_log
from penstock.engine.repair import repair
from penstock.engine.slices import SliceReader, Wanted, cut
from penstock.engine.view import look
from penstock.errors import ColdUnavailable, CorruptFrame, InvalidArgument
from penstock.storage.tiers.folder import FolderTier
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import ROOT, open_memory_log
from penstock.types import Record
from tests.support.s3 import serving
from tests.unit.engine.support import TOPICS, everything, killed, paths, restarted

COLD = "/cold"
TIER: dict[str, Any] = {"cold_dir": COLD, "hot_retain_segments": 1, "segment_max_events": 10}


@pytest.fixture
def fs() -> MemoryFilesystem:
    return MemoryFilesystem()


@pytest.fixture
def log(fs: MemoryFilesystem) -> Log:
    """Five segments of ten records, of which all but the newest are cold."""
    log = open_memory_log(fs, **TIER)
    fill(log, 50)
    log.relocate()
    return log


def fill(log: Log, count: int, topic: str = "t") -> None:
    for start in range(0, count, 10):
        log.append(topic, [Record(n, tag=f"k{n % 2}") for n in range(start, start + 10)])
    log.checkpoint(everything=True)


def in_tier(fs: MemoryFilesystem, ending: str = ".data") -> list[str]:
    return [path.rpartition("/")[2] for path in paths(fs, f"{COLD}/topics", ending)]


def test_all_but_the_newest_segments_go(fs: MemoryFilesystem, log: Log) -> None:
    hot = [path.rpartition("/")[2] for path in paths(fs, TOPICS, ".data")]

    assert hot == ["seg-0000000000000041.data"]
    assert len(in_tier(fs)) == len(in_tier(fs, ".idx")) == len(in_tier(fs, ".tags")) == 4
    stats = log.stats()
    assert (stats.segments, stats.cold_segments, stats.cold_moved_total) == (5, 4, 4)
    assert stats.cold_bytes > 0


def test_nothing_changes_for_readers(log: Log) -> None:
    assert everything(log) == list(range(50))
    assert everything(log, tag="k1") == list(range(1, 50, 2))
    assert log.seek("t", log.read("t", 20, 1).records[0].ts or 0) <= 20


@pytest.mark.parametrize("again", [restarted, killed])
def test_nothing_changes_over_a_restart(log: Log, again: Any) -> None:
    reopened = again(log, **TIER)

    assert everything(reopened) == list(range(50))
    assert reopened.stats().cold_segments == 4
    assert reopened.relocate() == ColdReport()


def test_the_directory_remembers_its_tier(log: Log) -> None:
    assert everything(restarted(log)) == list(range(50))


def test_a_second_pass_finds_nothing_to_do(fs: MemoryFilesystem, log: Log) -> None:
    meta = paths(fs, f"{COLD}/meta")

    assert log.relocate() == ColdReport()
    assert paths(fs, f"{COLD}/meta") == meta


def test_deletes_read_no_cold_data(fs: MemoryFilesystem, log: Log) -> None:
    log.parts.shelf.maps.forget("")
    fs.fail("any", error=errno.EIO, persistent=True, path=f"{COLD}/")

    assert log.delete("t", tag="k0").deleted == 25
    assert log.delete("t", before_seq=11).deleted == 5


def test_what_is_wholly_dead_goes_from_the_tier(fs: MemoryFilesystem, log: Log) -> None:
    log.delete("t", before_seq=26)

    assert log.relocate().segments_removed == 2
    assert in_tier(fs) == ["seg-0000000000000021.data", "seg-0000000000000031.data"]
    assert paths(fs, TOPICS, "0001.cold") == []
    assert everything(log) == list(range(25, 50))


def test_what_a_cap_evicts_goes_from_the_tier(fs: MemoryFilesystem, log: Log) -> None:
    log.create("t", cap_records=15)
    log.relocate()

    assert in_tier(fs) == ["seg-0000000000000031.data"]
    assert everything(log)[0] == (1, 35, "cap")


def test_a_dropped_topic_leaves_nothing_behind(fs: MemoryFilesystem, log: Log) -> None:
    log.drop("t")
    log.relocate()

    assert in_tier(fs) == in_tier(fs, ".idx") == in_tier(fs, ".tags") == []
    assert paths(fs, TOPICS) == []


def test_a_partly_dead_cold_segment_stays_as_it_is(fs: MemoryFilesystem, log: Log) -> None:
    log.delete("t", seqs=list(range(1, 9)))

    log.relocate()

    assert "seg-0000000000000001.data" in in_tier(fs)
    assert everything(log) == list(range(8, 50))


def test_a_log_without_a_tier_says_so() -> None:
    with pytest.raises(InvalidArgument, match="cold_dir"):
        open_memory_log().relocate()


def test_a_tier_inside_the_data_directory_is_refused(fs: MemoryFilesystem) -> None:
    with pytest.raises(InvalidArgument, match="data directory itself"):
        open_memory_log(fs, cold_dir=f"{ROOT}/cold")


def test_a_tier_is_not_opened_as_a_log(fs: MemoryFilesystem, log: Log) -> None:
    with pytest.raises(InvalidArgument, match="cold tier of a log"):
        open_log(COLD, fs=fs)


def test_the_tier_of_another_log_is_left_alone(fs: MemoryFilesystem, log: Log) -> None:
    other = open_log("/other", fs=fs, clock=FakeClock(), background=False, **TIER)
    fill(other, 30)
    before = in_tier(fs)

    with pytest.raises(ColdUnavailable, match="another log"):
        other.relocate()

    assert in_tier(fs) == before
    assert everything(other) == list(range(30))


def test_a_tier_that_moved_is_found_by_its_new_name(fs: MemoryFilesystem, log: Log) -> None:
    for path in paths(fs, f"{COLD}/"):
        FolderTier(fs, "/moved").put(path.removeprefix(f"{COLD}/"), [bytes(fs.map(path))])
        fs.unlink(path)

    assert everything(restarted(log, **{**TIER, "cold_dir": "/moved"})) == list(range(50))


# When the tier does not answer.


def test_a_tier_that_is_away_costs_old_records_only(fs: MemoryFilesystem, log: Log) -> None:
    log.parts.shelf.maps.forget("")
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
    mover = log.parts.mover
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
    mover = log.parts.mover
    assert mover is not None
    reached, go_on = threading.Event(), threading.Event()
    real = mover._tier.put

    def slow(key: str, parts: Any) -> None:
        if key.endswith(".data"):
            reached.set()
            assert go_on.wait(30)
        real(key, parts)

    mover._tier.put = slow  # type: ignore[method-assign]
    thread = threading.Thread(target=mover.beat)
    thread.start()
    assert reached.wait(30)

    assert log.append("t", ["new"]).last_seq == 51
    assert everything(log)[-1] == "new"
    log.checkpoint(everything=True)
    assert log.delete("t", seqs=[3]).deleted == 1

    go_on.set()
    thread.join()
    assert everything(log) == [0, 1, *range(3, 50), "new"]


def unmount(fs: MemoryFilesystem) -> dict[str, bytes]:
    """What was in the tier; an empty folder stays."""
    held = {path: bytes(fs.map(path)) for path in paths(fs, f"{COLD}/")}
    for path in held:
        fs.unlink(path)
    return held


def mount(fs: MemoryFilesystem, held: dict[str, bytes]) -> None:
    for path, data in held.items():
        FolderTier(fs, COLD).put(path.removeprefix(f"{COLD}/"), [data])


@pytest.mark.parametrize("is_open", [True, False])
def test_a_tier_that_is_not_mounted_is_neither_claimed_nor_filled(
    fs: MemoryFilesystem, log: Log, is_open: bool
) -> None:
    log.parts.shelf.maps.forget("")
    held = unmount(fs)
    if not is_open:
        log = restarted(log, **TIER)
    fill(log, 30, "u")
    mover = log.parts.mover
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
    mover = log.parts.mover
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
    mover = other.parts.mover
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
    log.parts.shelf.maps.forget("")
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
    monkeypatch.setattr("penstock.engine.keeper._MOVE_WAIT_S", 0.1)
    reached, go_on = threading.Event(), threading.Event()
    put = FolderTier.put

    def hang(self: FolderTier, key: str, parts: Any) -> None:
        if key.endswith(".data"):
            reached.set()
            assert go_on.wait(60)
        put(self, key, parts)

    monkeypatch.setattr(FolderTier, "put", hang)
    settings = {**TIER, "cold_dir": str(tmp_path / "cold")}
    log = open_log(str(tmp_path / "data"), **settings)
    fill(log, 50)
    assert reached.wait(60)

    log.close()

    go_on.set()
    with open_log(str(tmp_path / "data"), background=False) as again:
        assert everything(again) == list(range(50))


def test_a_new_tier_gets_what_was_sealed_before(fs: MemoryFilesystem) -> None:
    """Also when nothing is written any more."""
    log = open_memory_log(fs, segment_max_events=10)
    fill(log, 50)
    log = restarted(log, **TIER)
    mover = log.parts.mover
    assert mover is not None

    mover.beat()

    assert log.stats().cold_segments == 4


# Damage.


def test_a_note_of_the_tier_that_cannot_be_read_closes_nothing(
    fs: MemoryFilesystem, log: Log
) -> None:
    log.close()
    FolderTier(fs, ROOT).put("cold.json", [b"?"])

    found = check.check(fs, ROOT)
    assert [problem.kind for problem in found.problems] == ["cold"]
    with open_memory_log(fs) as again:
        assert again.append("t", ["new"]).last_seq == 51
        with pytest.raises(ColdUnavailable, match="cold_dir"):
            again.read("t", 0)
    with open_memory_log(fs, **TIER) as again:
        assert everything(again) == [*range(50), "new"]


def test_a_lost_stub_is_made_anew_by_repair(fs: MemoryFilesystem, log: Log) -> None:
    log.close()
    for path in paths(fs, TOPICS, "0011.cold"):
        fs.unlink(path)

    assert repair(fs, ROOT, FakeClock()).records_lost == 0

    assert everything(open_memory_log(fs)) == list(range(50))


def test_repair_keeps_what_it_takes_from_the_tier(fs: MemoryFilesystem, log: Log) -> None:
    path = paths(fs, COLD, "0011.data")[0]
    spoil(fs, path)
    spoilt = bytes(fs.map(path))
    log.close()

    (action,) = repair(fs, ROOT, FakeClock()).actions

    assert action.path == path
    assert bytes(fs.map(action.saved_as)) == spoilt


def test_a_copy_that_broke_off_leaves_nothing(fs: MemoryFilesystem) -> None:
    log = open_memory_log(fs, **TIER)
    fill(log, 50)
    log.checkpoint()
    fs.fail("rename", error=errno.EIO, path=f"{COLD}/topics/00000001/seg-0000000000000011.data")
    with pytest.raises(OSError, match="Input/output"):
        log.relocate()
    assert paths(fs, COLD, ".tmp")

    log.drop("t")
    log.relocate()

    assert paths(fs, f"{COLD}/topics") == paths(fs, TOPICS) == []


def test_a_damaged_segment_is_not_moved(fs: MemoryFilesystem) -> None:
    log = open_memory_log(fs, **TIER)
    fill(log, 30)
    path = paths(fs, TOPICS, "0001.data")[0]
    spoil(fs, path)

    assert log.relocate().segments_moved == 1

    assert fs.exists(path)
    assert [error.path for error in log.damage] == [path]


def test_damage_in_the_tier_is_named_by_its_file_there(fs: MemoryFilesystem, log: Log) -> None:
    path = paths(fs, COLD, "0011.data")[0]
    spoil(fs, path)
    log.parts.shelf.maps.forget("")

    with pytest.raises(CorruptFrame, match=path):
        everything(log)

    log.close()
    found = check.check(fs, ROOT)
    assert [(problem.path, problem.kind) for problem in found.problems] == [(path, "damage")]


def test_repair_reports_what_is_damaged_in_the_tier(fs: MemoryFilesystem, log: Log) -> None:
    spoil(fs, paths(fs, COLD, "0011.data")[0])
    log.close()

    found = repair(fs, ROOT, FakeClock())

    assert found.records_lost == 1
    with open_memory_log(fs) as again:
        assert len(everything(again)) == 50
        assert (15, 15, "damage") in everything(again)
    assert check.check(fs, ROOT).is_clean


def spoil(fs: MemoryFilesystem, path: str) -> None:
    """Flip a byte in the fifth record."""
    data = bytes(fs.map(path))
    at = data.index(b"14") if b"14" in data else len(data) // 2
    file = fs.open(path, writable=True)
    file.write_at(bytes([data[at] ^ 1]), at)
    file.sync()
    file.close()


def test_a_lost_index_is_rebuilt_and_brought_back_from_the_tier(
    fs: MemoryFilesystem, log: Log
) -> None:
    log.close()
    for path in (lost := [*paths(fs, TOPICS, "0001.idx"), *paths(fs, TOPICS, "0011.tags")]):
        fs.unlink(path)

    again = open_memory_log(fs)
    assert everything(again) == list(range(50))
    assert everything(again, tag="k1") == list(range(1, 50, 2))
    assert again.delete("t", tag="nix").deleted == 0  # looks at all tags
    again.relocate()

    assert all(fs.exists(path) for path in lost)
    again.close()
    assert check.check(fs, ROOT).is_clean


def test_topics_are_rebuilt_from_both_tiers_without_a_snapshot(
    fs: MemoryFilesystem, log: Log
) -> None:
    log.close()
    for path in paths(fs, f"{ROOT}/meta"):
        fs.unlink(path)

    assert everything(open_memory_log(fs)) == list(range(50))


# The tier alone.


def test_a_tier_can_be_read_where_nothing_else_is_left(fs: MemoryFilesystem, log: Log) -> None:
    log.append("t", ["not cold"])
    log.delete("t", seqs=[2])
    log.relocate()

    topic = look(COLD, fs=fs).topic("t")

    assert topic is not None
    assert (topic.head, topic.live, topic.earliest) == (40, 39, 1)


def test_a_tier_that_went_back_is_told_to_who_reads_it_alone(fs: MemoryFilesystem) -> None:
    log = open_memory_log(fs, **TIER)
    fill(log, 20)
    log.relocate()
    early = {path: bytes(fs.map(path)) for path in paths(fs, f"{COLD}/meta")}
    fill(log, 30)
    log.relocate()
    view = look(COLD, fs=fs)
    topic = view.topic("t")
    assert topic is not None
    (part,) = cut(view, topic, after=20, last=30, records_max=100).slices
    for path in [*paths(fs, f"{COLD}/meta"), *paths(fs, COLD, "0021.data")]:
        fs.unlink(path)
    mount(fs, early)

    with pytest.raises(CorruptFrame, match="topic t ends at seq 10 here"):
        list(SliceReader(fs).read(part, Wanted(0)))


def test_an_object_store_is_a_tier_too(fs: MemoryFilesystem) -> None:
    with serving() as store:
        url = store.url("engine")
        log = open_memory_log(fs, **{**TIER, "cold_dir": url})
        fill(log, 50)

        assert log.relocate().segments_moved == 4

        again = restarted(log)
        assert everything(again) == list(range(50))
        assert len(paths(fs, f"{ROOT}/cache")) == 4
        again.drop("t")
        assert again.relocate().segments_removed == 4
        topic = look(url).topic("t")
        assert topic is None
        assert paths(fs, f"{ROOT}/cache") == []
