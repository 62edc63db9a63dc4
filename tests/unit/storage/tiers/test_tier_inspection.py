"""A tier that is looked at as if it were a file system."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.storage.tiers.folder import FolderTier
from penstock.storage.tiers.tier_inspection import TierFilesystem
from penstock.testing.fs import MemoryFilesystem

ROOT = "s3://bucket/log"


class Named(FolderTier):
    """A folder that says it is something else. It has no folders of its own, as a store."""

    def length(self, key: str) -> int:
        return len(self.map(key))

    @property
    def where(self) -> str:
        return ROOT


@pytest.fixture
def fs() -> TierFilesystem:
    tier = Named(MemoryFilesystem(), "/cold")
    tier.put("meta/snapshot-1", [b"one"])
    tier.put("topics/01/seg.data", [b"data"])
    tier.put("topics/01/seg.idx", [b"index"])
    return TierFilesystem(tier)


def test_files_and_folders_are_there(fs: TierFilesystem) -> None:
    assert fs.exists(ROOT)
    assert fs.exists(f"{ROOT}/topics/01")
    assert fs.exists(f"{ROOT}/topics/01/seg.idx")
    assert not fs.exists(f"{ROOT}/topics/02")


def test_names_are_those_directly_in_a_folder(fs: TierFilesystem) -> None:
    assert fs.list(ROOT) == ["meta", "topics"]
    assert fs.list(f"{ROOT}/topics") == ["01"]
    assert fs.list(f"{ROOT}/topics/01") == ["seg.data", "seg.idx"]
    assert fs.list(f"{ROOT}/wal") == []


def test_contents_are_the_blobs(fs: TierFilesystem) -> None:
    assert bytes(fs.map(f"{ROOT}/meta/snapshot-1")) == b"one"
    assert fs.size(f"{ROOT}/topics/01/seg.idx") == 5


def test_nobody_holds_it(fs: TierFilesystem) -> None:
    assert not fs.is_locked(f"{ROOT}/.penstock.lock")


@pytest.mark.parametrize(
    "change",
    [
        lambda fs: fs.create(f"{ROOT}/a"),
        lambda fs: fs.open(f"{ROOT}/meta/snapshot-1", writable=True),
        lambda fs: fs.make_dirs(f"{ROOT}/a"),
        lambda fs: fs.rename(f"{ROOT}/a", f"{ROOT}/b"),
        lambda fs: fs.unlink(f"{ROOT}/meta/snapshot-1"),
        lambda fs: fs.remove_dir(f"{ROOT}/meta"),
        lambda fs: fs.sync_dir(ROOT),
        lambda fs: fs.lock(f"{ROOT}/lock"),
    ],
)
def test_nothing_can_be_changed(
    fs: TierFilesystem, change: Callable[[TierFilesystem], object]
) -> None:
    with pytest.raises(PermissionError, match="only read"):
        change(fs)

    assert fs.list(f"{ROOT}/meta") == ["snapshot-1"]
