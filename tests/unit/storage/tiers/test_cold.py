"""Whose a tier is, and what is said of one that does not answer."""

from __future__ import annotations

import errno

import pytest

from penstock.errors import ColdUnavailable, CorruptFrame
from penstock.storage.tiers import cold
from penstock.storage.tiers.cold import Cold, TierLocation, owner_of, remember, remembered, tier_at
from penstock.storage.tiers.folder import FolderTier
from penstock.storage.tiers.objects import ObjectTier
from penstock.testing.crash import VANISH
from penstock.testing.fs import MemoryFilesystem
from tests.support import s3

MINE, THEIRS = b"\1" * 16, b"\2" * 16


def claimed(fs: MemoryFilesystem, log_id: bytes = MINE) -> Cold:
    found = Cold(FolderTier(fs, "/cold"), log_id)
    found.claim()
    return found


def away(fs: MemoryFilesystem) -> MemoryFilesystem:
    """The same machine, with nothing mounted on the folder."""
    for path in [path for path in fs.paths() if path.startswith("/cold/")]:
        fs.unlink(path)
    return fs


def test_the_first_log_claims_a_tier_and_keeps_it() -> None:
    fs = MemoryFilesystem()
    claimed(fs).check()

    assert owner_of(FolderTier(fs, "/cold")) == MINE
    with pytest.raises(FileExistsError):
        claimed(fs, THEIRS)
    with pytest.raises(ColdUnavailable, match="another log"):
        Cold(FolderTier(fs, "/cold"), THEIRS).check()


def test_only_what_is_empty_can_be_claimed() -> None:
    """It may be somebody's data directory, or a backup."""
    fs = MemoryFilesystem()
    FolderTier(fs, "/cold").put("wal/shard-00/wal-1.log", [b"precious"])

    with pytest.raises(ColdUnavailable, match=r"not empty: it contains wal/shard-00/wal-1\.log"):
        claimed(fs)


def test_a_claim_that_a_crash_cut_off_can_be_made_again() -> None:
    fs = MemoryFilesystem()
    FolderTier(fs, "/cold").put(cold.CLAIM_KEY, [b""])

    claimed(fs).check()


def test_a_tier_that_goes_away_while_it_is_used_is_away_and_nothing_is_missing() -> None:
    fs = MemoryFilesystem()
    found = claimed(fs)
    found.tier.put("topics/01/seg.data", [b"mine"])
    found.data("topics/01/seg.data")
    away(fs)

    with pytest.raises(ColdUnavailable, match="no cold tier here"):
        found.data("topics/01/other.data")


def test_who_asks_right_after_a_failure_does_not_wait_again() -> None:
    fs = MemoryFilesystem()
    found = claimed(fs)
    found.tier.put("a", [b"x"])
    fault = fs.fail("any", error=errno.EIO, persistent=True, path="/cold")

    for _ in range(5):
        with pytest.raises(ColdUnavailable, match="cannot be read"):
            found.data("a")

    assert fault.fired == 1


def test_nothing_is_read_from_another_logs_tier() -> None:
    fs = MemoryFilesystem()
    claimed(fs).tier.put("topics/01/seg.data", [b"mine"])

    with pytest.raises(ColdUnavailable, match="another log"):
        Cold(FolderTier(fs, "/cold"), THEIRS).data("topics/01/seg.data")


def test_a_folder_that_is_not_mounted_is_unavailable_and_nothing_is_missing() -> None:
    with pytest.raises(ColdUnavailable, match="no cold tier here; mount it"):
        Cold(FolderTier(MemoryFilesystem(), "/cold"), MINE).data("topics/01/seg.data")


def test_a_file_that_is_gone_from_its_tier_is_damage() -> None:
    with pytest.raises(CorruptFrame, match=r"/cold/topics/01/seg\.data: it is not in"):
        claimed(MemoryFilesystem()).data("topics/01/seg.data")


def test_a_disk_that_fails_is_unavailable() -> None:
    fs = MemoryFilesystem()
    found = claimed(fs)
    found.tier.put("a", [b"x"])
    fs.fail("any", error=errno.EIO, persistent=True, path="/cold")

    with pytest.raises(ColdUnavailable, match="cannot be read"):
        found.data("a")


def test_a_claim_that_cannot_be_read_is_nobodys() -> None:
    fs = MemoryFilesystem()
    FolderTier(fs, "/cold").put(cold.CLAIM_KEY, [b"{"])

    with pytest.raises(ColdUnavailable, match=r"tier\.json: it cannot be read"):
        Cold(FolderTier(fs, "/cold"), MINE).check()


def test_a_directory_remembers_where_its_tier_is() -> None:
    fs = MemoryFilesystem()
    fs.make_dirs("/data")
    assert remembered(fs, "/data") == TierLocation()

    remember(fs, "/data", TierLocation("s3://bucket/log", True))

    survivor = fs.power_cut(lambda change: VANISH)
    assert remembered(survivor, "/data") == TierLocation("s3://bucket/log", True)


def test_a_note_that_cannot_be_read_says_what_to_do() -> None:
    fs = MemoryFilesystem()
    fs.make_dirs("/data")
    FolderTier(fs, "/data").put(cold.WHERE_NAME, [b"?"])

    with pytest.raises(ColdUnavailable, match="open the log with its cold_dir"):
        remembered(fs, "/data")


def test_addresses_lead_to_folders_or_objects(store: s3.Store) -> None:
    assert isinstance(tier_at("/cold", MemoryFilesystem()), FolderTier)
    assert isinstance(tier_at(store.url("x"), MemoryFilesystem()), ObjectTier)
    assert tier_at(store.url("x"), MemoryFilesystem()) is tier_at(
        store.url("x/"), MemoryFilesystem()
    )
