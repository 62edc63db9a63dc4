"""Writes a whole file atomically: a crash leaves the old file or the new one."""

from __future__ import annotations

import contextlib

from penstock.storage.fs import Buffer, Filesystem


def write_whole(fs: Filesystem, path: str, parts: list[Buffer]) -> None:
    """Write a file under a temporary name, sync it and rename it. The caller syncs the
    directory, once for all files it placed there."""
    temporary = path + ".tmp"
    with contextlib.suppress(FileNotFoundError):
        fs.unlink(temporary)
    file = fs.create(temporary)
    try:
        offset = 0
        for part in parts:
            file.write_at(part, offset)
            offset += len(part)
        # The data must be on disk before the name is: a rename of an unsynced file leaves an
        # empty or torn file behind after a power cut.
        file.sync()
    finally:
        file.close()
    fs.rename(temporary, path)
