"""The directories of a lake, and the lock against a second run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from penstock.errors import DirectoryInUse
from penstock.lake.project import Project
from penstock.lake.table_commits import Table
from penstock.storage.fs import Filesystem

LOCK = "LOCK"


def bronze(fs: Filesystem, project: Project) -> Table:
    return Table(fs, f"{project.lake.path}/bronze", "bronze")


def silver(fs: Filesystem, project: Project, name: str) -> Table:
    return Table(fs, f"{project.lake.path}/silver/{name}", name)


def gold(fs: Filesystem, project: Project, name: str) -> Table:
    return Table(fs, f"{project.lake.path}/gold/{name}", name)


def tables(fs: Filesystem, project: Project) -> list[Table]:
    """All tables that the project declares."""
    return [
        bronze(fs, project),
        *(silver(fs, project, one.name) for one in project.silver),
        *(gold(fs, project, one.name) for one in project.gold),
    ]


@contextlib.contextmanager
def locked(fs: Filesystem, project: Project) -> Iterator[None]:
    """Hold the lock of the lake, or raise DirectoryInUse with the pid of the holder. The lock ends
    with the process."""
    root = project.lake.path
    fs.make_dirs(root)
    try:
        lock = fs.lock(f"{root}/{LOCK}")
    except BlockingIOError as error:
        holder = error.strerror or ""
        raise DirectoryInUse(root, pid=int(holder) if holder.isdecimal() else None) from None
    try:
        yield
    finally:
        lock.release()
