"""The laws of the crash model, the faults, and the copies."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable

import pytest

from penstock.testing import MemoryFilesystem, PowerLost
from tests.unit.testing.support import contents, landing, settled, vanishing

# --- crash points ------------------------------------------------------------------------------


def test_every_changing_operation_is_announced_before_it_happens() -> None:
    fs = MemoryFilesystem()
    seen: list[tuple[int, str, str]] = []
    fs.on_operation = lambda index, kind, path: seen.append((index, kind, path))

    fs.make_dirs("/d")
    file = fs.create("/d/f")
    file.allocate(10)
    file.write_at(b"x", 0)
    file.truncate(5)
    file.sync()
    fs.rename("/d/f", "/d/g")
    fs.sync_dir("/d")
    fs.open("/d/g").read_at(0, 1)
    fs.unlink("/d/g")
    fs.remove_dir("/d")

    assert seen == [
        (0, "mkdir", "/d"),
        (1, "sync_dir", "/"),
        (2, "create", "/d/f"),
        (3, "allocate", "/d/f"),
        (4, "write", "/d/f"),
        (5, "truncate", "/d/f"),
        (6, "sync", "/d/f"),
        (7, "rename", "/d/g"),
        (8, "sync_dir", "/d"),
        (9, "unlink", "/d/g"),
        (10, "rmdir", "/d"),
    ]
    assert fs.operations == 11
    assert fs.counts["open"] == fs.counts["read"] == 1


def test_a_copy_can_be_taken_between_any_two_operations() -> None:
    fs = MemoryFilesystem()
    points: list[MemoryFilesystem] = []
    fs.on_operation = lambda index, kind, path: points.append(fs.copy())

    file = fs.create("/f")
    file.write_at(b"a", 0)
    file.write_at(b"b", 1)

    assert [contents([point], "/f") for point in points] == [{None}, {b""}, {b"a"}]


def test_once_the_power_is_lost_no_call_succeeds() -> None:
    fs = MemoryFilesystem()
    fs.stop_before(2)
    file = fs.create("/f")
    file.write_at(b"a", 0)

    with pytest.raises(PowerLost):
        file.write_at(b"b", 1)
    for call in (file.sync, file.size, lambda: fs.list("/"), lambda: fs.create("/g")):
        with pytest.raises(PowerLost):
            call()
    file.close()

    assert fs.power_cut(landing).read("/f") == b"a"


def test_a_hook_may_refuse_an_operation() -> None:
    fs = MemoryFilesystem()

    def refuse(index: int, kind: str, path: str) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), path)

    fs.on_operation = refuse
    with pytest.raises(OSError, match=os.strerror(errno.EDQUOT)):
        fs.create("/f")

    assert fs.paths() == []


def test_crash_states_differ_stay_in_the_limit_and_ignore_later_changes() -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"")
    for number in range(6):
        file.write_at(b"%d" % number * 600, number * 600)

    iterator = fs.crash_states(limit=50)
    file.sync()
    states = list(iterator)

    assert len(states) == 50
    assert len({state.fingerprint() for state in states}) == 50
    assert len(list(fs.crash_states())) == 1


def test_a_crash_state_tells_how_it_came_about_and_can_be_had_again() -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"")
    file.write_at(b"a" * 2000, 0)
    file.write_at(b"b" * 2000, 1000)

    for state in fs.crash_states():
        fates = dict(state.last_cut)
        again = fs.power_cut(fates.__getitem__)
        assert again.fingerprint() == state.fingerprint()


# --- faults ------------------------------------------------------------------------------------


def test_a_failed_sync_loses_the_data_and_a_retry_succeeds() -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"old")
    file.write_at(b"new", 0)
    fs.fail("sync")

    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        file.sync()
    file.sync()

    assert fs.synced_after_failure == 1
    assert fs.counts["sync"] == 3
    assert file.read_at(0, 3) == b"new"  # still in the cache
    assert contents(fs.crash_states(), "/f") == {b"old"}
    assert fs.copy().kill().read("/f") == b"old"
    file.drop_cache()
    assert file.read_at(0, 3) == b"old"


def test_a_failed_sync_leaves_zeros_in_allocated_space() -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"")
    file.allocate(8)
    file.write_at(b"data", 0)
    fs.fail("sync")

    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        file.sync()
    file.sync()

    assert fs.power_cut(vanishing).read("/f") == bytes(8)


def test_a_write_after_a_failed_sync_is_durable_once_synced_by_another_handle() -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"....")
    file.write_at(b"lost", 0)
    fs.fail("sync")
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        file.sync()

    other = fs.open("/f", writable=True)
    other.write_at(b"kept", 4)
    other.sync()

    assert fs.synced_after_failure == 0
    assert fs.power_cut(vanishing).read("/f") == b"....kept"


OPERATIONS: dict[str, Callable[[MemoryFilesystem], object]] = {
    "write": lambda fs: fs.open("/f", writable=True).write_at(b"x", 0),
    "sync": lambda fs: fs.open("/f").sync(),
    "truncate": lambda fs: fs.open("/f", writable=True).truncate(1),
    "allocate": lambda fs: fs.open("/f", writable=True).allocate(99),
    "read": lambda fs: fs.open("/f").read_at(0, 1),
    "open": lambda fs: fs.map("/f"),
    "create": lambda fs: fs.create("/g"),
    "rename": lambda fs: fs.rename("/f", "/g"),
    "unlink": lambda fs: fs.unlink("/f"),
    "mkdir": lambda fs: fs.make_dirs("/h"),
    "rmdir": lambda fs: fs.remove_dir("/d"),
    "sync_dir": lambda fs: fs.sync_dir("/"),
}


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR])
@pytest.mark.parametrize("kind", OPERATIONS)
def test_any_operation_can_fail_and_then_changes_nothing(kind: str, number: int) -> None:
    fs = MemoryFilesystem()
    fs.make_dirs("/d")
    settled(fs, "/f", b"data")
    before = fs.fingerprint()
    fault = fs.fail(kind, error=number)

    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        OPERATIONS[kind](fs)

    assert caught.value.errno == number
    assert fault.fired == 1
    assert fs.fingerprint() == before
    OPERATIONS[kind](fs)
    assert fault.fired == 1


def test_a_persistent_fault_lasts_until_healed() -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"")
    fault = fs.fail("write", nth=2, persistent=True)

    file.write_at(b"1", 0)
    for _ in range(3):
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            file.write_at(b"2", 1)
    fs.heal()
    file.write_at(b"3", 1)

    assert fault.fired == 3
    assert fs.read("/f") == b"13"


def test_a_short_write_leaves_its_first_bytes_and_a_full_disk() -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"")
    fs.fail("write", short=3)

    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        file.write_at(b"012345", 0)

    assert fs.read("/f") == b"012"


def test_a_fault_may_be_kept_to_some_paths_and_any_kind() -> None:
    fs = MemoryFilesystem()
    fault = fs.fail("any", nth=2, path="wal")

    fs.create("/other").write_at(b"x", 0)
    file = fs.create("/wal-1")
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        file.write_at(b"x", 0)

    assert (fault.seen, fault.fired) == (2, 1)


def test_a_fault_that_cannot_happen_is_refused() -> None:
    with pytest.raises(ValueError, match="fsync"):
        MemoryFilesystem().fail("fsync")


def test_a_full_disk_takes_what_fits_and_frees_what_is_removed() -> None:
    fs = MemoryFilesystem(capacity_bytes=100)
    file = fs.create("/f")
    file.allocate(60)
    other = fs.create("/g")

    assert fs.free_bytes("/") == 40
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        other.allocate(41)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        other.write_at(b"x" * 50, 0)
    assert (other.size(), fs.free_bytes("/")) == (40, 0)
    file.write_at(b"inside", 54)
    other.write_at(b"y" * 40, 0)
    fs.unlink("/f")
    other.write_at(b"z" * 10, 40)
    assert fs.free_bytes("/") == 50


# --- looking and harming -----------------------------------------------------------------------


def test_harm_is_durable_and_stays_in_its_copy() -> None:
    fs = MemoryFilesystem()
    settled(fs, "/f", b"0123")
    flipped, cut, replaced = fs.copy(), fs.copy(), fs.copy()

    flipped.corrupt("/f", 1, xor=0x01)
    cut.truncate_at("/f", 2)
    replaced.replace("/f", b"other")
    replaced.replace("/g", b"new")

    assert flipped.power_cut(vanishing).read("/f") == b"0023"
    assert cut.power_cut(vanishing).read("/f") == b"01"
    assert replaced.power_cut(vanishing).read("/f") == b"other"
    assert replaced.power_cut(vanishing).read("/g") == b"new"
    assert fs.read("/f") == b"0123"
    assert fs.paths() == ["/f"]


def test_a_byte_beyond_the_end_cannot_be_flipped() -> None:
    fs = MemoryFilesystem()
    settled(fs, "/f", b"0123")

    with pytest.raises(ValueError, match="none at 4"):
        fs.corrupt("/f", 4)


def test_a_map_survives_whatever_happens_to_its_file() -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"0123")
    view = fs.map("/f")

    file.write_at(b"XX", 0)
    file.truncate(1)
    file.write_at(b"long enough to move", 0)

    assert view.tobytes() == b"0123"


def test_a_copy_and_its_original_go_separate_ways() -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"old")
    file.write_at(b"new", 0)
    twin = fs.copy()

    twin.open("/f", writable=True).write_at(b"own", 0)
    fs.unlink("/f")

    assert file.read_at(0, 3) == b"new"
    assert twin.read("/f") == b"own"
    assert twin.power_cut(vanishing).read("/f") == b"old"


def test_fingerprints_tell_names_bytes_and_sizes_apart() -> None:
    base = MemoryFilesystem()
    base.replace("/f", b"a")
    prints = {base.fingerprint()}
    for path, data in [("/g", b""), ("/f", b"b"), ("/f", b"a\0"), ("/f", b"")]:
        other = base.copy()
        other.replace(path, data)
        prints.add(other.fingerprint())

    assert len(prints) == 5
    sparse = base.copy()
    sparse.truncate_at("/f", 2)
    assert sparse.fingerprint() in prints


def test_threads_may_write_side_by_side() -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"")

    def write(number: int) -> None:
        for step in range(100):
            file.write_at(bytes([number]), number * 100 + step)
            file.sync()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    expected = bytes(100) + b"".join(bytes([n]) * 100 for n in range(1, 5))
    assert fs.power_cut(vanishing).read("/f") == expected
