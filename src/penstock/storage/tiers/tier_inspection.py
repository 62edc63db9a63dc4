"""A tier as a read-only file system, so that code that reads a data directory can read a cold tier
in place."""

from __future__ import annotations

from typing import NoReturn

from penstock.storage.fs import DirectoryLock, File
from penstock.storage.tiers.tier import Keys, Tier


class TierFilesystem:
    """Paths begin with the tier's address. There are no locks."""

    def __init__(self, tier: Tier) -> None:
        self._tier = tier

    def map(self, path: str) -> memoryview:
        return self._tier.map(self._key(path))

    def size(self, path: str) -> int:
        return self._tier.length(self._key(path))

    def exists(self, path: str) -> bool:
        key = self._key(path)
        if not key:
            return True
        try:
            self._tier.length(key)
        except (FileNotFoundError, IsADirectoryError):
            return bool(self.list(path))
        return True

    def list(self, path: str) -> Keys:
        below = self._key(path)
        start = len(below) + 1 if below else 0
        return sorted({key[start:].partition("/")[0] for key in self._tier.list(below)})

    def open(self, path: str, *, writable: bool = False) -> File:
        if writable:
            self._refuse(path)
        raise FileNotFoundError(2, "an object is read whole", path)

    def is_locked(self, path: str) -> bool:
        return False

    def network_kind(self, path: str) -> str:
        return ""

    def boot_id(self) -> str:
        return ""

    def create(self, path: str) -> File:
        self._refuse(path)

    def make_dirs(self, path: str) -> None:
        self._refuse(path)

    def rename(self, source: str, target: str) -> None:
        self._refuse(source)

    def unlink(self, path: str) -> None:
        self._refuse(path)

    def remove_dir(self, path: str) -> None:
        self._refuse(path)

    def sync_dir(self, path: str) -> None:
        self._refuse(path)

    def lock(self, path: str) -> DirectoryLock:
        self._refuse(path)

    def _key(self, path: str) -> str:
        root = self._tier.where
        if path != root and not path.startswith(root + "/"):
            raise AssertionError((path, "is not below", root))
        return path[len(root) + 1 :]

    def _refuse(self, path: str) -> NoReturn:
        raise PermissionError(13, "a cold tier is only read here", path)
