"""The laws of the crash model, the faults, and the copies."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.fs import File, Filesystem
from penstock.testing import CrashChoices, Fate, MemoryFilesystem
from penstock.testing.crash import LAND, VANISH, ZERO
from tests.unit.testing.support import contents, landing, only, settled, vanishing


def test_it_is_a_filesystem() -> None:
    fs: Filesystem = MemoryFilesystem()
    assert fs.list("/") == []


# --- files -------------------------------------------------------------------------------------


def test_an_unsynced_write_may_land_or_vanish() -> None:
    fs = MemoryFilesystem()
    settled(fs, "/f", b"old").write_at(b"new", 0)

    assert fs.read("/f") == b"new"
    assert fs.power_cut(landing).read("/f") == b"new"
    assert fs.power_cut(vanishing).read("/f") == b"old"


def test_a_synced_write_never_vanishes() -> None:
    fs = MemoryFilesystem()
    settled(fs, "/f", b"synced")

    assert fs.pending() == []
    assert contents(fs.crash_states(), "/f") == {b"synced"}


def test_a_torn_write_lands_by_whole_sectors() -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"")
    file.write_at(b"x" * 1500, 100)

    first = fs.power_cut(only("write", Fate("torn", sectors=1))).read("/f")
    second = fs.power_cut(only("write", Fate("torn", sectors=2))).read("/f")

    assert first == bytes(100) + b"x" * 412
    assert second == bytes(100) + b"x" * 924


def test_a_holed_write_lands_without_its_first_sectors() -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"o" * 2048)
    file.write_at(b"x" * 1500, 100)

    left = fs.power_cut(only("write", Fate("holed", sectors=2))).read("/f")

    assert left == b"o" * 1024 + b"x" * 576 + b"o" * 448


def test_a_zeroed_write_has_its_size_but_not_its_bytes() -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"keep")
    file.write_at(b"x" * 10, 4)

    assert fs.power_cut(only("write", ZERO)).read("/f") == b"keep" + bytes(10)


def test_garbage_spreads_over_the_unsynced_part_of_its_sectors_only() -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"s" * 600)
    file.write_at(b"a" * 100, 600)
    file.write_at(b"b" * 100, 700)
    last = fs.pending()[-1]

    left = fs.power_cut(lambda change: Fate("garbage", seed=1) if change == last else LAND).read(
        "/f"
    )

    assert left[:600] == b"s" * 600
    assert left[600:700] != b"a" * 100  # in the same sector, and not yet synced
    assert len(left) == 800


def test_an_unsynced_truncation_may_be_lost() -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"0123456789")
    file.truncate(4)

    assert fs.power_cut(landing).read("/f") == b"0123"
    assert fs.power_cut(vanishing).read("/f") == b"0123456789"


def test_an_unsynced_allocation_may_be_lost() -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"01")
    file.allocate(8)

    assert contents(fs.crash_states(), "/f") == {b"01", b"01" + bytes(6)}


def test_a_huge_allocation_costs_nothing() -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"x")
    file.allocate(1 << 50)
    file.sync()

    assert fs.copy().power_cut(landing).size("/f") == 1 << 50


def test_later_writes_may_overtake_earlier_ones() -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"....")
    file.write_at(b"a", 0)
    file.write_at(b"b", 1)

    assert {b"....", b"a...", b".b..", b"ab.."} <= contents(fs.crash_states(), "/f")


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("write"), st.integers(0, 3000), st.binary(min_size=1, max_size=4) | st.just(b"")
        ),
        st.tuples(st.just("long"), st.integers(0, 3000), st.just(b"")),
        st.tuples(st.sampled_from(["truncate", "allocate"]), st.integers(0, 3000), st.just(b"")),
        st.tuples(st.just("sync"), st.just(0), st.just(b"")),
    ),
    max_size=12,
)


def perform(file: File, step: tuple[str, int, bytes]) -> None:
    match step:
        case ("write", offset, data):
            file.write_at(data, offset)
        case ("long", offset, _):
            file.write_at(b"L" * 1300, offset)
        case ("truncate", size, _):
            file.truncate(size)
        case ("allocate", size, _):
            file.allocate(size)
        case _:
            file.sync()


@given(steps=steps, seed=st.integers(0, 1 << 16))
def test_a_cut_harms_no_byte_that_was_synced_and_not_touched_since(
    steps: list[tuple[str, int, bytes]], seed: int
) -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"")
    for step in steps:
        perform(file, step)
    pending = fs.pending()
    durable = fs.power_cut(vanishing).read("/f")
    cuts = [change.size for change in pending if change.kind == "truncate"]
    written = {
        at
        for change in pending
        if change.is_write
        for at in range(change.offset, change.offset + change.size)
    }

    left = fs.power_cut(CrashChoices(seed, fates=("vanish", "torn", "holed", "garbage", "zero")))

    safe = [at for at in range(min([len(durable), *cuts])) if at not in written]
    assert [left.read("/f")[at] for at in safe] == [durable[at] for at in safe]


@given(steps=steps)
def test_when_all_lands_nothing_is_lost_and_a_kill_loses_nothing(
    steps: list[tuple[str, int, bytes]],
) -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"")
    for step in steps:
        perform(file, step)
    seen = file.read_at(0, 10_000)

    assert fs.power_cut(landing).read("/f") == seen
    assert fs.copy().fingerprint() == fs.fingerprint()
    assert fs.kill().read("/f") == seen


# --- names -------------------------------------------------------------------------------------


def test_a_name_may_vanish_without_sync_dir_although_its_data_was_synced() -> None:
    fs = MemoryFilesystem()
    file = fs.create("/f")
    file.write_at(b"data", 0)
    file.sync()

    assert fs.power_cut(vanishing).paths() == []
    assert fs.power_cut(landing).read("/f") == b"data"
    fs.sync_dir("/")
    assert fs.power_cut(vanishing).read("/f") == b"data"


def test_a_durable_name_does_not_make_the_data_durable() -> None:
    fs = MemoryFilesystem()
    fs.create("/f").write_at(b"data", 0)
    fs.sync_dir("/")

    assert fs.power_cut(vanishing).read("/f") == b""


def test_a_rename_without_sync_dir_may_be_lost_but_is_never_halved() -> None:
    fs = MemoryFilesystem()
    settled(fs, "/current", b"old")
    settled(fs, "/temp", b"new")
    fs.rename("/temp", "/current")

    found = {
        tuple((path, state.read(path)) for path in state.paths()) for state in fs.crash_states()
    }

    assert found == {
        (("/current", b"old"), ("/temp", b"new")),
        (("/current", b"new"),),
    }
    fs.sync_dir("/")
    assert fs.power_cut(vanishing).read("/current") == b"new"


def test_renaming_an_unsynced_file_may_leave_an_empty_one() -> None:
    fs = MemoryFilesystem()
    settled(fs, "/current", b"old")
    fs.create("/temp").write_at(b"new", 0)
    fs.rename("/temp", "/current")
    fs.sync_dir("/")

    assert b"" in contents(fs.crash_states(), "/current")


def test_an_unlink_without_sync_dir_may_come_undone() -> None:
    fs = MemoryFilesystem()
    settled(fs, "/f", b"data")
    fs.unlink("/f")

    assert contents(fs.crash_states(), "/f") == {b"data", None}
    fs.sync_dir("/")
    assert contents(fs.crash_states(), "/f") == {None}


def test_a_lost_unlink_keeps_its_name_from_a_new_file() -> None:
    fs = MemoryFilesystem()
    settled(fs, "/f", b"old")
    fs.unlink("/f")
    file = fs.create("/f")
    file.write_at(b"new", 0)
    file.sync()

    assert contents(fs.crash_states(), "/f") == {b"old", b"new", None}
    assert fs.power_cut(only("unlink", VANISH)).read("/f") == b"old"


def test_a_file_renamed_twice_has_one_name_in_every_state() -> None:
    fs = MemoryFilesystem()
    settled(fs, "/a", b"data")
    fs.rename("/a", "/b")
    fs.rename("/b", "/c")

    found = sorted({tuple(state.paths()) for state in fs.crash_states()})

    assert found == [("/a",), ("/b",), ("/c",)]


def test_a_name_taken_over_never_costs_the_file_that_moved_away() -> None:
    fs = MemoryFilesystem()
    settled(fs, "/a", b"moved")
    fs.rename("/a", "/b")
    fs.create("/a")

    for state in fs.crash_states():
        assert b"moved" in [state.read(path) for path in state.paths()]


def test_directories_are_durable_once_made() -> None:
    fs = MemoryFilesystem()
    fs.make_dirs("/a/b")

    assert fs.pending() == []
    assert fs.power_cut(vanishing).list("/a") == ["b"]


def test_a_cut_between_making_and_syncing_a_directory_may_lose_it() -> None:
    fs = MemoryFilesystem()
    fs.fail("sync_dir")
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        fs.make_dirs("/a")
    file = fs.create("/a/f")
    file.sync()
    fs.sync_dir("/a")

    assert fs.power_cut(vanishing).list("/") == []
    assert fs.power_cut(landing).paths() == ["/a/f"]


def test_a_directory_is_not_gone_while_something_in_it_survived() -> None:
    fs = MemoryFilesystem()
    fs.make_dirs("/d")
    fs.create("/d/f").sync()
    fs.sync_dir("/d")
    fs.unlink("/d/f")
    fs.remove_dir("/d")

    assert fs.power_cut(only("unlink", VANISH)).paths() == ["/d/f"]
    assert fs.power_cut(only("rmdir", VANISH)).list("/") == ["d"]
    fs.sync_dir("/")
    assert fs.pending() == []
    assert fs.power_cut(vanishing).list("/") == []


def test_a_move_between_directories_is_durable_when_the_target_is_synced() -> None:
    fs = MemoryFilesystem()
    fs.make_dirs("/from")
    fs.make_dirs("/to")
    fs.create("/from/f").sync()
    fs.sync_dir("/from")
    fs.rename("/from/f", "/to/f")

    fs.sync_dir("/from")
    assert fs.power_cut(vanishing).paths() == ["/from/f"]
    fs.sync_dir("/to")
    assert fs.power_cut(vanishing).paths() == ["/to/f"]


def test_writes_to_a_file_that_is_durably_gone_are_not_pending() -> None:
    fs = MemoryFilesystem()
    file = settled(fs, "/f", b"")
    fs.unlink("/f")
    fs.sync_dir("/")

    file.write_at(b"unseen", 0)

    assert fs.pending() == []


VERBS = ["create", "rename", "unlink", "sync_dir", "make_dirs", "remove_dir"]
names = st.sampled_from(["/", "/a", "/b", "/d", "/e", "/d/a", "/d/b", "/e/a"])
moves = st.lists(st.tuples(st.sampled_from(VERBS), names, names), max_size=14)


def files(fs: MemoryFilesystem) -> dict[str, bytes]:
    return {path: fs.read(path) for path in fs.paths()}


def make_moves(fs: MemoryFilesystem, moves: list[tuple[str, str, str]]) -> None:
    """Carry out what makes sense of it. Every file created is synced and tells its number."""
    fs.make_dirs("/d")
    for number, (verb, one, other) in enumerate(moves):
        with contextlib.suppress(OSError):
            if verb == "create":
                file = fs.create(one)
                file.write_at(b"%d" % number, 0)
                file.sync()
            elif verb == "rename":
                fs.rename(one, other)
            else:
                getattr(fs, verb)(one)


@given(moves=moves)
def test_when_every_change_lands_the_names_are_those_last_seen(
    moves: list[tuple[str, str, str]],
) -> None:
    fs = MemoryFilesystem()
    make_moves(fs, moves)

    assert fs.power_cut(landing).fingerprint() == fs.fingerprint()
    assert fs.copy().power_cut(landing).fingerprint() == fs.fingerprint()
    assert fs.kill().fingerprint() == fs.fingerprint()


@given(moves=moves)
def test_when_every_directory_is_synced_no_name_is_lost(
    moves: list[tuple[str, str, str]],
) -> None:
    fs = MemoryFilesystem()
    make_moves(fs, moves)
    for path in ("/", "/a", "/b", "/d", "/e", "/d/a", "/d/b", "/e/a"):
        with contextlib.suppress(OSError):
            fs.sync_dir(path)

    assert fs.pending() == []
    assert fs.power_cut(vanishing).fingerprint() == fs.fingerprint()


@given(moves=moves, seed=st.integers(0, 1 << 16))
def test_no_file_has_two_names_after_any_cut(moves: list[tuple[str, str, str]], seed: int) -> None:
    fs = MemoryFilesystem()
    make_moves(fs, moves)

    left = list(files(fs.power_cut(CrashChoices(seed))).values())

    assert len(left) == len(set(left))


@given(
    moves=st.lists(
        st.tuples(
            st.sampled_from(["rename", "create", "sync_dir"]),
            st.sampled_from(["/a", "/b", "/d/a", "/d/b"]),
        ),
        max_size=14,
    ),
    seed=st.integers(0, 1 << 16),
)
def test_a_durable_file_survives_any_renames_and_reuse_of_its_old_names(
    moves: list[tuple[str, str]], seed: int
) -> None:
    fs = MemoryFilesystem()
    settled(fs, "/precious", b"precious")
    fs.make_dirs("/d")
    home = "/precious"
    for verb, path in moves:
        if verb == "sync_dir":
            fs.sync_dir(os.path.dirname(path))
        elif fs.exists(path):
            continue
        elif verb == "create":
            fs.create(path)
        else:
            fs.rename(home, path)
            home = path

    assert b"precious" in files(fs.power_cut(CrashChoices(seed))).values()


# --- processes ---------------------------------------------------------------------------------


def test_a_kill_keeps_what_was_written_and_kills_the_old_handles() -> None:
    fs = MemoryFilesystem()
    file = fs.create("/f")
    file.write_at(b"unsynced", 0)

    survivor = fs.kill()

    assert survivor.read("/f") == b"unsynced"
    with pytest.raises(OSError, match="killed") as caught:
        file.write_at(b"ghost", 0)
    assert caught.value.errno == errno.EBADF
    with pytest.raises(OSError, match="killed"):
        fs.create("/g")


def test_what_a_kill_left_unsynced_a_later_cut_may_take() -> None:
    fs = MemoryFilesystem()
    settled(fs, "/f", b"old").write_at(b"new", 0)

    survivor = fs.kill()

    assert survivor.power_cut(vanishing).read("/f") == b"old"


def test_the_boot_changes_with_the_power_and_not_with_the_process() -> None:
    fs = MemoryFilesystem()

    assert fs.kill().boot_id() == fs.copy().boot_id() == fs.boot_id()
    assert fs.power_cut(landing).boot_id() != fs.boot_id()


@pytest.mark.parametrize(
    "end", [MemoryFilesystem.kill, lambda fs: fs.power_cut(landing), MemoryFilesystem.copy]
)
def test_a_lock_dies_with_its_process(end: Callable[[MemoryFilesystem], MemoryFilesystem]) -> None:
    fs = MemoryFilesystem()
    lock = fs.lock("/lock")

    survivor = end(fs)

    second = survivor.lock("/lock")
    lock.release()
    with pytest.raises(BlockingIOError):
        survivor.lock("/lock")
    second.release()
