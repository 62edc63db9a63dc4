"""What only a folder has: files that can be cut or left unfinished."""

from __future__ import annotations

from penstock.storage.tiers.folder import FolderTier
from penstock.testing.crash import VANISH
from penstock.testing.fs import MemoryFilesystem

ROOT = "/cold"


def test_a_put_that_returned_survives_a_power_cut() -> None:
    fs = MemoryFilesystem()
    FolderTier(fs, ROOT).put("topics/01/a", [b"kept"])

    survivor = fs.power_cut(lambda change: VANISH)

    assert bytes(FolderTier(survivor, ROOT).map("topics/01/a")) == b"kept"


def test_a_put_is_never_seen_in_part() -> None:
    fs = MemoryFilesystem()
    tier = FolderTier(fs, ROOT)
    tier.put("a", [b"old"])
    points: list[MemoryFilesystem] = []
    fs.on_operation = lambda index, kind, path: points.append(fs.copy())

    tier.put("a", [b"new and longer"])

    states = [state for point in points for state in (point.kill(), *point.crash_states(16))]
    assert len(states) > 5
    for state in states:
        assert bytes(FolderTier(state, ROOT).map("a")) in (b"old", b"new and longer")
        assert FolderTier(state, ROOT).list("") == ["a"]


def test_a_file_that_was_cut_is_not_safe_to_touch() -> None:
    fs = MemoryFilesystem()
    tier = FolderTier(fs, ROOT)
    tier.put("a", [b"x" * 100])
    file = fs.open(f"{ROOT}/a", writable=True)
    file.truncate(10)
    file.close()

    assert not tier.is_safe("a", 100)
    assert tier.is_safe("a", 10)
