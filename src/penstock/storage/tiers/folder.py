"""A folder, on another disk or a network file system."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from penstock.storage import atomic
from penstock.storage.fs import Buffer, Filesystem
from penstock.storage.tiers.tier import Keys


class FolderTier:
    """Files under one folder, each named by its key."""

    def __init__(self, fs: Filesystem, root: str) -> None:
        self._fs = fs
        self._root = root

    @property
    def where(self) -> str:
        return self._root

    def put(self, key: str, parts: Sequence[Buffer]) -> None:
        path = self._path(key)
        directory = path.rpartition("/")[0]
        self._fs.make_dirs(directory)
        atomic.write_whole(self._fs, path, list(parts))
        self._fs.sync_dir(directory)

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        path = self._path(key)
        directory = path.rpartition("/")[0]
        self._fs.make_dirs(directory)
        try:
            file = self._fs.create(path)
        except FileExistsError:
            if self._fs.size(path):
                raise
            file = self._fs.open(path, writable=True)  # a crash came between name and content
        try:
            file.write_at(b"".join(parts), 0)
            file.sync()
        finally:
            file.close()
        self._fs.sync_dir(directory)

    def map(self, key: str) -> memoryview:
        return self._fs.map(self._path(key))

    def length(self, key: str) -> int:
        return self._fs.size(self._path(key))

    def is_safe(self, key: str, size: int) -> bool:
        """Reading past the end of a truncated mapped file would kill the process."""
        return self._fs.size(self._path(key)) >= size

    def list(self, prefix: str) -> Keys:
        return sorted(self._walk(prefix))

    def delete(self, key: str) -> None:
        path = self._path(key)
        directory = path.rpartition("/")[0]
        for one in (path, path + ".tmp"):
            with contextlib.suppress(FileNotFoundError):
                self._fs.unlink(one)
        if not self._fs.exists(directory):
            return
        self._fs.sync_dir(directory)
        if directory != self._root and not self._fs.list(directory):
            with contextlib.suppress(OSError):
                self._fs.remove_dir(directory)

    def _walk(self, prefix: str) -> Iterator[str]:
        for name in self._fs.list(self._path(prefix) if prefix else self._root):
            key = f"{prefix}/{name}" if prefix else name
            if name.endswith(".tmp"):
                continue  # never finished
            try:
                yield from list(self._walk(key))
            except NotADirectoryError:
                yield key

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"
