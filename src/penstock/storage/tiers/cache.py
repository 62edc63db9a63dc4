"""A cache of fetched objects as files, so that a reader does not fetch the same object for each
page. It never has the only copy of an object."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import OrderedDict
from collections.abc import Iterator

from penstock.storage.fs import Filesystem
from penstock.storage.tiers.tier import Tier


class Cache:
    """Evicts the least recently used first. Emptied when it is created: files of an earlier process
    may be incomplete. A view stays valid when its file is removed."""

    def __init__(self, fs: Filesystem, directory: str, bytes_max: int) -> None:
        self._fs = fs
        self._directory = directory
        self._bytes_max = bytes_max
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()
        self._coming: dict[str, tuple[threading.Lock, int]] = {}  # who is fetched, who waits
        self._numbers = itertools.count()
        for name in fs.list(directory):
            with contextlib.suppress(FileNotFoundError):
                fs.unlink(f"{directory}/{name}")

    def map(self, tier: Tier, key: str) -> memoryview:
        """The object, fetched once for all concurrent callers."""
        name = key.replace("/", "__")
        with self._alone(name):
            try:
                view = self._fs.map(f"{self._directory}/{name}")
            except FileNotFoundError:
                view = self._keep(name, tier.map(key))
        with self._lock:
            if name in self._sizes:
                self._sizes.move_to_end(name)
        return view

    def forget(self, key: str) -> None:
        with self._lock:
            self._drop(key.replace("/", "__"))

    @contextlib.contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """One fetch at a time for each name."""
        with self._lock:
            coming, waiting = self._coming.get(name, (threading.Lock(), 0))
            self._coming[name] = coming, waiting + 1
        try:
            with coming:
                yield
        finally:
            with self._lock:
                _, waiting = self._coming[name]
                if waiting == 1:
                    del self._coming[name]
                else:
                    self._coming[name] = coming, waiting - 1

    def _keep(self, name: str, data: memoryview) -> memoryview:
        """The file's view. If the disk is full or fails, the object is not cached: the view is the
        object in memory, and it is fetched again next time."""
        path = f"{self._directory}/{name}"
        temporary = f"{path}.{next(self._numbers)}"
        try:
            self._fs.make_dirs(self._directory)
            file = self._fs.create(temporary)
            try:
                file.write_at(data, 0)
            finally:
                file.close()
            self._fs.rename(temporary, path)
            view = self._fs.map(path)
        except OSError:
            with contextlib.suppress(OSError):
                self._fs.unlink(temporary)
            return data
        with self._lock:
            self._sizes[name] = len(data)
            while sum(self._sizes.values()) > self._bytes_max and len(self._sizes) > 1:
                self._drop(next(iter(self._sizes)))
        return view

    def _drop(self, name: str) -> None:
        self._sizes.pop(name, None)
        with contextlib.suppress(FileNotFoundError):
            self._fs.unlink(f"{self._directory}/{name}")
