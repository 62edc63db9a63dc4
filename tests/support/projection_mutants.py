"""Projections with one rule broken at a time, to see that the rig notices."""

from __future__ import annotations

import contextlib
import os.path
import struct
from collections.abc import Callable, Iterable
from typing import Any

from penstock.projections import checkpoint, runner
from penstock.projections.checkpoint import CheckpointIdentity, StoredProjection
from penstock.projections.runner import ProjectionRunner
from penstock.projections.tables import TableState
from penstock.storage.fs import Buffer, Filesystem
from penstock.types import Offset
from tests.support.projection_rig import Toy

Patch = tuple[object, str, Callable[..., Any]]  # where, name, what instead


def _past_the_synced_seq() -> list[Patch]:
    """The state is saved before its records are."""
    return [(ProjectionRunner, "_before_rename", lambda self, offset, generation: None)]


def _writer(
    *, is_synced: bool = True, is_named: bool = True, is_old_first: bool = False
) -> list[Patch]:
    def write(
        fs: Filesystem,
        path: str,
        identity: CheckpointIdentity,
        offset: Offset,
        created_ms: int,
        parts: Iterable[Buffer],
        before_rename: Callable[[], None] = lambda: None,
    ) -> int:
        temporary = path + ".tmp"
        for old in (temporary, path) if is_old_first else (temporary,):
            with contextlib.suppress(FileNotFoundError):
                fs.unlink(old)
        if is_old_first:
            fs.sync_dir(os.path.dirname(path))
        file = fs.create(temporary)
        size = checkpoint._write_all(
            file, checkpoint.encode_head(identity, offset, created_ms), parts
        )
        before_rename()
        if is_synced:
            file.sync()
        fs.rename(temporary, path)
        file.close()
        if is_named:
            fs.sync_dir(os.path.dirname(path))
        return size

    return [(checkpoint, "write", write)]


def _rename_before_sync() -> list[Patch]:
    """The name is there before the bytes."""
    return _writer(is_synced=False)


def _no_directory_sync() -> list[Patch]:
    """The name may go back to the old file after it was reported as the new one."""
    return _writer(is_named=False)


def _old_one_first() -> list[Patch]:
    """The file before is removed before the new one is durable."""
    return _writer(is_old_first=True)


def _offset_of_the_end() -> list[Patch]:
    """The offset is taken when the parts were, and not before."""
    pulled = ProjectionRunner._pulled

    def late(self: ProjectionRunner, first: Any, parts: Any, generation: int, spread: float) -> Any:
        return iter(list(pulled(self, first, parts, generation, spread)))

    def write(self: ProjectionRunner, spread: float) -> int:
        identity, generation = self._identity(), self._generation
        self._fs.make_dirs(self._directory)
        parts = self.projection.snapshot()
        taken = list(late(self, next(parts, None), parts, generation, spread))
        offset = self._applied
        if offset is None or not self._is_dirty:
            return 0
        size = checkpoint.write(
            self._fs,
            self._path,
            identity,
            offset,
            0,
            taken,
            lambda: self._before_rename(offset, generation),
        )
        self._saved, self._is_dirty = offset, False
        return size

    return [(ProjectionRunner, "_write", write)]


def _parts_of_now() -> list[Patch]:
    """A part shows what was applied since the first one."""

    def snapshot(self: Any) -> Any:
        yield struct.pack("<q", self.sum)
        type(self).between()
        yield struct.pack("<q", self.order)
        type(self).between()
        yield struct.pack("<q", self.lost)

    return [(Toy, "snapshot", snapshot)]


def _any_topic_of_the_name() -> list[Patch]:
    """A topic that was created again is taken for the one before."""

    def misplaced(stored: StoredProjection, head: Offset | None) -> str | None:
        return None if head is not None and stored.offset.seq <= head.seq else "newer"

    def outdated(self: ProjectionRunner, page: Any) -> str:
        return ""

    return [(runner, "_misplaced", misplaced), (ProjectionRunner, "_outdated", outdated)]


def _any_definition() -> list[Patch]:
    """The state of another definition is used."""

    def differs(self: StoredProjection, wanted: CheckpointIdentity) -> str | None:
        return None

    return [(StoredProjection, "differs", differs)]


def _folded_twice() -> list[Patch]:
    """After a restart the last record of the saved state is folded once more."""
    take = ProjectionRunner._take

    def earlier(self: ProjectionRunner, head: Offset | None) -> str:
        why = take(self, head)
        if self._applied is not None and self._applied.seq:
            self._applied = Offset(self._applied.epoch, self._applied.seq - 1)
        return why

    return [(ProjectionRunner, "_take", earlier)]


def _row_forgotten() -> list[Patch]:
    """A table restores all rows but one."""
    restore = TableState.restore

    def partial(self: TableState, parts: Iterable[memoryview]) -> None:
        restore(self, parts)
        if self._rows:
            self._rows.popitem()

    return [(TableState, "restore", partial)]


MUTANTS: dict[str, Callable[[], list[Patch]]] = {
    "past the synced seq": _past_the_synced_seq,
    "rename before sync": _rename_before_sync,
    "no directory sync": _no_directory_sync,
    "old one first": _old_one_first,
    "offset of the end": _offset_of_the_end,
    "parts of now": _parts_of_now,
    "any topic of the name": _any_topic_of_the_name,
    "any definition": _any_definition,
    "folded twice": _folded_twice,
    "row forgotten": _row_forgotten,
}
