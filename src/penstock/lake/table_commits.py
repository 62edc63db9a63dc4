"""The commits of a table: its manifests on disk, and the data files that they name.

One process at a time writes to a lake; any number may read. A reader opens the newest manifest and
reads the files that it names. These files stay until `keep_versions` commits later.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from penstock.errors import StorageError
from penstock.lake.manifest import (
    DIRECTORY,
    DataFile,
    Manifest,
    decode,
    encode,
    name_of,
    version_of,
)
from penstock.storage.fs import Filesystem

STAGING = "_staging"


class Table:
    """Written under the lake's lock, read without one."""

    def __init__(self, fs: Filesystem, root: str, name: str) -> None:
        self.fs = fs
        self.root = root
        self.name = name
        self._manifests = f"{root}/{DIRECTORY}"

    def versions(self) -> list[int]:
        """The versions that have a manifest, oldest first."""
        found = (version_of(name) for name in self.fs.list(self._manifests))
        return [version for version in found if version is not None]

    def current(self) -> Manifest | None:
        """The newest manifest; None before the first commit."""
        versions = self.versions()
        return self.read(versions[-1]) if versions else None

    def read(self, version: int) -> Manifest:
        path = f"{self._manifests}/{name_of(version)}"
        manifest = decode(bytes(self.fs.map(path)), path)
        if manifest.version != version or manifest.table != self.name:
            raise StorageError(path, reason="this manifest is of another table or version")
        return manifest

    def path_of(self, file: DataFile) -> str:
        return f"{self.root}/{file.path}"

    def commit(self, manifest: Manifest) -> None:
        """Write the manifest, durably. Its data files are synced already. StorageError if there is
        a manifest of this version, which the lock of the lake should prevent."""
        fs = self.fs
        fs.make_dirs(self._manifests)
        path = f"{self._manifests}/{name_of(manifest.version)}"
        temporary = f"{path}.tmp"
        # Only the process that created the temporary file renames it. So no other process can add
        # this version between the check below and the rename.
        try:
            file = fs.create(temporary)
        except FileExistsError:
            raise StorageError(
                temporary,
                reason="another process is committing to this lake",
                hint="if none is, remove this file",
            ) from None
        try:
            if fs.exists(path):
                raise StorageError(path, reason="another process has committed this version")
            file.write_at(encode(manifest), 0)
            file.sync()
        finally:
            file.close()
        fs.rename(temporary, path)
        fs.sync_dir(self._manifests)

    def tidy(self) -> None:
        """Remove temporary files of an interrupted run. The caller holds the lake's lock."""
        for name in self.fs.list(self._manifests):
            if name.endswith(".tmp"):
                self.fs.unlink(f"{self._manifests}/{name}")

    def sweep(self, keep: int) -> int:
        """Remove all but the newest `keep` manifests, and then all data files that none of them
        names; how many data files were removed."""
        versions = self.versions()
        for version in versions[:-keep]:
            self.fs.unlink(f"{self._manifests}/{name_of(version)}")
        kept = versions[-keep:]
        if len(kept) < len(versions):
            self.fs.sync_dir(self._manifests)
        named = {file.path for version in kept for file in self.read(version).files}
        gone = 0
        for path in list(self._data_files("")):
            if path not in named:
                self.fs.unlink(f"{self.root}/{path}")
                gone += 1
        return gone

    def _data_files(self, inside: str) -> Iterator[str]:
        for name in self.fs.list(f"{self.root}/{inside}".rstrip("/")):
            path = f"{inside}{name}"
            if name.endswith(".parquet"):
                yield path
            elif name not in (DIRECTORY, STAGING):
                with contextlib.suppress(NotADirectoryError):
                    yield from self._data_files(f"{path}/")


def replaced(
    files: Iterable[DataFile], out: Iterable[DataFile], new: Iterable[DataFile]
) -> list[DataFile]:
    """The files without `out` and with `new`, in an order that does not depend on the history."""
    gone = {file.path for file in out}
    held = [file for file in files if file.path not in gone] + list(new)
    return sorted(held, key=lambda f: (f.part, f.topic, f.epoch, f.first, f.path))
