"""Whose a tier is, and what is said of one that does not answer."""

from __future__ import annotations

import errno

import pytest

from penstock.errors import ColdUnavailable, CorruptFrame
from penstock.storage.tiers import cold
from penstock.storage.tiers.cold import Cold, owner_of, remember, remembered, tier_at
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


def test_the_first_log_claims_a_tier_and_keeps_it() -> None:
    fs = MemoryFilesystem()
    claimed(fs)
    claimed(fs)

    assert owner_of(FolderTier(fs, "/cold")) == MINE
    with pytest.raises(ColdUnavailable, match="another log"):
        claimed(fs, THEIRS)


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
    assert not found.is_safe("nix", 1)


def test_a_claim_that_cannot_be_read_is_nobodys() -> None:
    fs = MemoryFilesystem()
    FolderTier(fs, "/cold").put(cold.CLAIM_KEY, [b"{"])

    with pytest.raises(ColdUnavailable, match=r"tier\.json: it cannot be read"):
        claimed(fs)


def test_a_directory_remembers_where_its_tier_is() -> None:
    fs = MemoryFilesystem()
    fs.make_dirs("/data")
    assert remembered(fs, "/data") == ""

    remember(fs, "/data", "s3://bucket/log")

    assert remembered(fs.power_cut(lambda change: VANISH), "/data") == "s3://bucket/log"


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
