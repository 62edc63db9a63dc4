from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.wal.files import (
    FileNumbers,
    WalFile,
    discover,
    groups,
    may_hold,
    prepare,
    shard_dir,
    shard_number,
)
from penstock.testing import MemoryFilesystem

WAL = "/data/wal"
u64s = st.integers(0, (1 << 64) - 1)


def fs_with(*names: str) -> MemoryFilesystem:
    fs = MemoryFilesystem()
    fs.make_dirs(WAL)
    for name in names:
        fs.make_dirs(f"{WAL}/{name}".rsplit("/", 1)[0])
        fs.replace(f"{WAL}/{name}", b"")
    return fs


def test_files_are_found_in_the_order_of_their_numbers_whatever_the_layout_was() -> None:
    fs = fs_with(
        "shard-01/wal-0000000000000002.log",
        "wal-0000000000000003.log",
        "shard-00/wal-0000000000000010.log",
        "wal-0000000000000001.log",
        "shard-00/wal-0000000000000004.log",
    )

    found = discover(fs, WAL)

    assert [file.index for file in found] == [1, 2, 3, 4, 10]
    assert found[1] == WalFile(f"{WAL}/shard-01/wal-0000000000000002.log", f"{WAL}/shard-01", 2)
    assert groups(fs, WAL) == [WAL, f"{WAL}/shard-00", f"{WAL}/shard-01"]


def test_what_is_not_a_wal_file_is_left_alone() -> None:
    fs = fs_with("durable.mark", "wal-1.log", "wal-0000000000000001.log.bak", "shard-1/x", "tmp/y")

    assert discover(fs, WAL) == []
    assert groups(fs, WAL) == [WAL]
    assert discover(fs, "/nowhere") == []


def test_one_shard_is_flat_and_several_have_a_directory_each() -> None:
    assert shard_dir(WAL, 0, 1) == WAL
    assert [shard_dir(WAL, n, 3) for n in range(3)] == [
        f"{WAL}/shard-00",
        f"{WAL}/shard-01",
        f"{WAL}/shard-02",
    ]


def test_numbers_are_taken_once() -> None:
    numbers = FileNumbers(7)

    assert [numbers.take() for _ in range(3)] == [7, 8, 9]


@given(key=u64s, shards=st.integers(1, 64))
def test_a_key_has_one_shard(key: int, shards: int) -> None:
    assert 0 <= shard_number(key, shards) == shard_number(key, shards) < shards


def test_small_keys_are_spread_over_all_shards() -> None:
    assert {shard_number(key, 8) for key in range(1, 200)} == set(range(8))


def test_the_shard_of_a_key_never_changes_between_versions() -> None:
    """Pinned: a topic looked for in another shard would seem to be gone."""
    assert [shard_number(key, 8) for key in range(1, 9)] == [6, 3, 5, 0, 4, 3, 7, 6]


@given(key=u64s, shards=st.integers(2, 8), more=st.integers(0, 4))
def test_a_directory_may_hold_a_key_for_every_count_it_could_have_had(
    key: int, shards: int, more: int
) -> None:
    every = [WAL, *(f"{WAL}/shard-{n:02d}" for n in range(shards + more))]

    assert may_hold(every, f"{WAL}/shard-{shard_number(key, shards):02d}", key)
    assert may_hold(every, WAL, key)


def test_a_directory_that_no_count_leads_to_holds_nothing_of_a_key() -> None:
    every = [WAL, f"{WAL}/shard-00", f"{WAL}/shard-01"]
    key = next(key for key in range(1, 99) if shard_number(key, 2) == 0)

    assert not may_hold(every, f"{WAL}/shard-01", key)


def test_a_prepared_file_is_there_after_a_power_cut_with_all_its_zeros() -> None:
    fs = fs_with()

    file, handle = prepare(fs, WAL, 5, 8192)
    handle.close()

    for state in fs.crash_states(50):
        assert state.read(file.path) == bytes(8192)


@pytest.mark.parametrize("kind", ["allocate", "sync", "sync_dir"])
def test_a_file_that_could_not_be_prepared_is_not_left_behind(kind: str) -> None:
    fs = fs_with()
    fs.fail(kind)

    with pytest.raises(OSError, match="Input/output error"):
        prepare(fs, WAL, 5, 8192)

    assert fs.paths() == []
