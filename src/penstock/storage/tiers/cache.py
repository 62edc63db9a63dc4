"""Objects that were fetched, kept as files for a while, so that a reader who turns pages does not
fetch the same object for each of them. Nothing here is the only copy of anything."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict

from penstock.storage.fs import Filesystem
from penstock.storage.tiers.tier import Tier


class Cache:
    """Least recently used first out. Emptied when it is made: what an earlier process fetched may
    be torn. A view stays valid when its file goes."""

    def __init__(self, fs: Filesystem, directory: str, bytes_max: int) -> None:
        self._fs = fs
        self._directory = directory
        self._bytes_max = bytes_max
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()
        self._coming: dict[str, threading.Lock] = {}
        for name in fs.list(directory):
            with contextlib.suppress(FileNotFoundError):
                fs.unlink(f"{directory}/{name}")

    def map(self, tier: Tier, key: str) -> memoryview:
        """The object, fetched once however many ask for it at the same time."""
        name = key.replace("/", "__")
        with self._lock:
            coming = self._coming.setdefault(name, threading.Lock())
        with coming:
            try:
                view = self._fs.map(f"{self._directory}/{name}")
            except FileNotFoundError:
                view = tier.map(key)
                self._keep(name, view)
        with self._lock:
            if name in self._sizes:
                self._sizes.move_to_end(name)
            if not coming.locked():
                self._coming.pop(name, None)
        return view

    def forget(self, key: str) -> None:
        with self._lock:
            self._drop(key.replace("/", "__"))

    def _keep(self, name: str, data: memoryview) -> None:
        """A disk that is full or fails keeps nothing: the object is fetched again."""
        path = f"{self._directory}/{name}"
        try:
            self._fs.make_dirs(self._directory)
            with contextlib.suppress(FileNotFoundError):
                self._fs.unlink(path + ".tmp")
            file = self._fs.create(path + ".tmp")
            try:
                file.write_at(data, 0)
            finally:
                file.close()
            self._fs.rename(path + ".tmp", path)
        except OSError:
            return
        with self._lock:
            self._sizes[name] = len(data)
            while sum(self._sizes.values()) > self._bytes_max and len(self._sizes) > 1:
                self._drop(next(iter(self._sizes)))

    def _drop(self, name: str) -> None:
        self._sizes.pop(name, None)
        with contextlib.suppress(FileNotFoundError):
            self._fs.unlink(f"{self._directory}/{name}")
