from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import penstock
from penstock.directory import log_identity
from penstock.directory.log_identity import FORMAT_NAME
from penstock.engine.fsck import check
from penstock.engine.opening import take_lock
from penstock.errors import DirectoryInUse, FormatTooNew, LogFailed, NetworkFilesystem
from penstock.storage import mounts
from penstock.testing import MemoryFilesystem
from penstock.testing.crash import LAND
from penstock.testing.log import ROOT, open_memory_log
from tests.unit.engine.support import (
    ASIDE,
    WAL,
    damaged_shards,
    everything,
    killed,
    paths,
    restarted,
)

IDENTITY = f"{ROOT}/{FORMAT_NAME}"


# Who may open.


class Far(MemoryFilesystem):
    """Of a network."""

    def network_kind(self, path: str) -> str:
        return "nfs4"


def test_a_directory_of_a_network_file_system_is_refused_and_nothing_is_made() -> None:
    fs = Far()

    with pytest.raises(NetworkFilesystem) as caught:
        open_memory_log(fs)

    assert (caught.value.path, caught.value.kind) == (ROOT, "nfs4")
    for part in (ROOT, "(nfs4)", "locks and syncs", "PENSTOCK_ALLOW_NETWORK_FS=1"):
        assert part in str(caught.value)
    assert not fs.exists(ROOT)


def test_the_setting_allows_it() -> None:
    fs = Far()
    with open_memory_log(fs, allow_network_fs=True) as log:
        log.append("t", [{}])

    with pytest.raises(NetworkFilesystem):
        open_memory_log(fs)
    with open_memory_log(fs, allow_network_fs=True) as log:
        assert [record.data for record in log.read("t").records] == [{}]


def test_the_checker_reads_a_directory_wherever_it_is() -> None:
    fs = Far()
    open_memory_log(fs, allow_network_fs=True).close()

    assert check(fs, ROOT).problems == []


def test_a_real_directory_is_looked_up_among_the_mounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "mounts"
    listed.write_text(f"/dev/vda / ext4 rw 0 0\nnas:/a {tmp_path.resolve()}/far cifs rw 0 0\n")
    monkeypatch.setattr(mounts, "MOUNTS", str(listed))
    monkeypatch.delenv("PENSTOCK_ALLOW_NETWORK_FS", raising=False)

    with pytest.raises(NetworkFilesystem, match="cifs"):
        penstock.open(tmp_path / "far" / "data")
    assert not (tmp_path / "far").exists()

    penstock.open(tmp_path / "near").close()
    penstock.open(tmp_path / "far" / "data", allow_network_fs=True).close()
    monkeypatch.setenv("PENSTOCK_ALLOW_NETWORK_FS", "1")
    penstock.open(tmp_path / "far" / "data").close()


def test_a_directory_in_use_names_its_holder() -> None:
    fs = MemoryFilesystem()
    with open_memory_log(fs):
        with pytest.raises(DirectoryInUse, match=f"process {os.getpid()}") as caught:
            open_memory_log(fs)

        assert (caught.value.path, caught.value.pid) == (ROOT, os.getpid())

    open_memory_log(fs).close()


def test_a_real_directory_in_use_names_its_holder(tmp_path: Path) -> None:
    with (
        penstock.open(tmp_path),
        pytest.raises(DirectoryInUse, match=f"process {os.getpid()}"),
    ):
        penstock.open(tmp_path)


def test_a_lock_without_a_readable_pid_still_says_in_use() -> None:
    class Nameless(MemoryFilesystem):
        def lock(self, path: str):
            raise BlockingIOError(11, "", path)

    with pytest.raises(DirectoryInUse, match="another process") as caught:
        take_lock(Nameless(), ROOT)

    assert caught.value.pid is None


def test_a_directory_of_a_later_version_is_refused_and_let_go() -> None:
    fs = MemoryFilesystem()
    open_memory_log(fs).close()
    held = json.loads(fs.read(IDENTITY))
    held |= {"format": 99, "format_check": log_identity.format_check(99)}
    fs.replace(IDENTITY, json.dumps(held).encode())
    before = fs.fingerprint()

    for _ in range(2):  # the second time shows that the lock was let go
        with pytest.raises(FormatTooNew):
            open_memory_log(fs)

    assert fs.fingerprint() == before


def test_a_lost_identity_file_is_written_again() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [1])
    log.checkpoint()
    log.close()
    before = fs.read(IDENTITY)
    fs.unlink(IDENTITY)

    again = open_memory_log(fs)

    assert fs.read(IDENTITY) == before
    assert everything(again) == [1]


# What it finds.


def test_opening_and_closing_again_changes_no_record() -> None:
    log = open_memory_log()
    log.append("t", [1, 2], tag="x")
    log.append("u", [3])
    log.delete("t", seqs=[1])

    for again in (restarted, killed, restarted):
        log = again(log)
        assert (everything(log), everything(log, "u")) == ([2], [3])

    assert log.recovery.is_healthy


def test_a_torn_tail_is_cut_and_kept_aside() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [1])
    log.append("t", [2])
    path = paths(fs, WAL, ".log")[0]
    left = fs.kill()
    end = len(left.read(path).rstrip(b"\0"))
    left.truncate_at(path, end - 5)

    again = open_memory_log(left)

    assert everything(again) == [1]
    assert len(paths(left, ASIDE)) == 1
    assert again.append("t", [3]).first_seq == 2


def test_what_a_killed_process_left_in_the_cache_is_durable_before_anyone_sees_it() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [1])
    left = fs.kill()

    open_memory_log(left)

    for state in left.crash_states(50):
        assert everything(open_memory_log(state))[0] == 1


def test_a_disk_that_cannot_keep_it_refuses_to_open_and_lets_go() -> None:
    fs = MemoryFilesystem()
    open_memory_log(fs).append("t", [1])
    left = fs.kill()
    left.fail("sync")

    with pytest.raises(LogFailed, match="cannot be opened"):
        open_memory_log(left)

    left.heal()
    assert everything(open_memory_log(left)) == [1]


@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 1), (2, 3), (3, 2)])
def test_the_number_of_shards_may_change_between_runs(before: int, after: int) -> None:
    log = open_memory_log(wal_shards=before)
    names = [f"t{number}" for number in range(8)]
    for shards in (after, before, after):
        for name in names:
            log.append(name, [shards])
        log = restarted(log, wal_shards=shards)

    for name in names:
        assert everything(log, name) == [after, before, after]
        assert [r.seq for r in log.read(name).records] == [1, 2, 3]


# Damage.


def test_opening_a_damaged_log_takes_nothing_away() -> None:
    fs, _, _ = damaged_shards()
    before = {path: fs.read(path) for path in paths(fs, WAL, ".log")}

    open_memory_log(fs, wal_shards=2).close()

    assert {path: fs.read(path) for path in before} == before


def test_progress_is_told_while_files_are_replayed() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    for _ in range(2):
        log.append("t", [1])
        log = restarted(log)
    log.close()
    seen: list[tuple[int, int]] = []

    settings = penstock.Settings(background=False, wal_shards=1)
    penstock.open(ROOT, settings=settings, fs=fs, progress=lambda *step: seen.append(step)).close()

    assert seen == [(0, 2), (1, 2), (2, 2)]


# Failing.


def test_a_close_that_fails_says_so_and_still_lets_the_directory_go() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [1])
    fs.fail("truncate")

    with pytest.raises(LogFailed, match="closing failed"):
        log.close()

    fs.heal()
    assert everything(open_memory_log(fs)) == [1]


# Marks and boots.


@pytest.mark.parametrize("shards", [1, 2])
def test_a_kill_during_the_first_write_after_a_reboot_is_not_reported_as_a_loss(
    shards: int,
) -> None:
    """All WAL files are absorbed at the reboot, so its opening replays none of this shard."""
    log = open_memory_log(MemoryFilesystem(), wal_shards=shards)
    log.create("t", durability="disk")
    log.append("t", [1, 2])
    absorbed = killed(log, wal_shards=shards)
    absorbed.checkpoint()
    fs = absorbed.core.parts.fs
    assert isinstance(fs, MemoryFilesystem)
    rebooted = fs.power_cut(lambda _: LAND)
    log = open_memory_log(rebooted, wal_shards=shards)
    states: list[MemoryFilesystem] = []
    rebooted.on_operation = lambda *_: states.append(rebooted.copy())

    log.append("t", [3])

    found = [everything(open_memory_log(state.kill(), wal_shards=shards)) for state in states]
    assert [1, 2] in found
    assert all(one in ([1, 2], [1, 2, 3]) for one in found), found
