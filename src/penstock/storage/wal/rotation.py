"""The file that a shard writes to, the one that follows it, and the mark of the durable end.

The next file is prepared ahead, outside the shard's locks, so that a rotation does not wait for
the allocation of its blocks. The shard decides when to write, sync and rotate.
"""

from __future__ import annotations

import contextlib
import threading

import msgspec

from penstock.codec.entry import encode_durable_mark
from penstock.storage.fs import File, Filesystem
from penstock.storage.wal import durable_mark, files

MARK_FRAME_BYTES = len(encode_durable_mark(0, 0, 0))


class PreparedFile(msgspec.Struct, frozen=True, eq=False):
    """A file with `size` allocated bytes and a durable name. Nothing is written to it yet."""

    place: files.WalFile
    file: File
    size: int


class RotatingFile:
    """Guarded by the shard's write lock, except where a method says otherwise.

    An exception from outside (Ctrl-C) may interrupt any call. So the fields that belong together
    change in one call of `__dict__.update`, here and in the shard.
    """

    def __init__(
        self,
        fs: Filesystem,
        group: str,
        numbers: files.FileNumbers,
        *,
        file_bytes: int,
        durable_end: tuple[int, int],
        boot_id: str,
    ) -> None:
        self._fs = fs
        self._group = group
        self._numbers = numbers
        self._file_bytes = file_bytes
        # Marks claim this boot only once the losses of the last one are logged: `claim_boot`.
        # Until then they go on to claim the last one: whether that was this very boot still counts.
        self._boot_id = boot_id
        self.file: File | None = None
        self.index = 0
        self.offset = 0  # of the next write
        self.size = 0
        self.dirty_since: float | None = None  # the oldest write that no sync covers
        self.durable = durable_end  # of the last run, so that the first file names it
        self.marked = (0, 0)  # the durable end that a frame in this file names
        self.retired: list[File] = []  # to be closed after the next sync
        self._prepared: PreparedFile | None = None
        self._mark_file: File | None = None  # opened by the first rotation, before any sync
        # A rotation may sync the file that a tick syncs. The system reports an error of such a pair
        # to one of the two, and to nobody later: so one sync at a time, and none after an error.
        self._file_sync_lock = threading.Lock()  # the innermost of all
        self._sync_error: OSError | None = None

    @property
    def end(self) -> tuple[int, int]:
        """(file index, offset) of the next write."""
        return self.index, self.offset

    def rotate(self, size: int) -> bool:
        """Continue in a new file with room for `size` bytes; true if there was an older one. It is
        synced first, so a file with a successor has no torn tail."""
        need = size + MARK_FRAME_BYTES
        old = self.file
        if old is not None:
            self.sync(old)
        new = self._prepared
        if new is None or new.size < need:
            new = self._prepare(max(self._file_bytes, need))
        if old is None:
            # The mark of the last run may say that it was closed. That must not survive a power
            # cut in this one.
            self.write_mark((new.place.index, 0)).sync()
        unused = self._prepared if self._prepared is not new else None
        self.__dict__.update(
            file=new.file,
            size=new.size,
            index=new.place.index,
            offset=0,
            retired=self.retired if old is None else [*self.retired, old],
            durable=self.durable if old is None else self.end,
            dirty_since=self.dirty_since if old is None else None,
            _prepared=None,
        )
        if old is not None:
            self.write_mark((self.index, 0))
        if unused is not None:
            self._discard(unused)
        return old is not None

    # Preparing the next file: outside the write lock, on one of the shard's own threads at a time.

    def prepare_next(self) -> PreparedFile | None:
        """Make the next file before it is needed; None when it is too early or there is no room on
        the disk. Then `keep` it."""
        if self._prepared is not None or self.offset * 2 < self.size:
            return None
        try:
            return self._prepare(self._file_bytes)
        except OSError:
            return None  # a full disk: rotation will meet it again, and that one counts

    def keep(self, prepared: PreparedFile, write_lock: threading.Lock) -> None:
        """Continue in this file at the next rotation, or remove it when there was one meanwhile: a
        file with a lower number than the one in use must never be written to, replay goes by
        number. Takes the write lock."""
        with write_lock:
            if self._prepared is None and prepared.place.index > self.index:
                self._prepared = prepared
                return
        self._discard(prepared)

    def _prepare(self, size: int) -> PreparedFile:
        self._fs.make_dirs(self._group)
        place, file = files.prepare(self._fs, self._group, self._numbers.take(), size)
        return PreparedFile(place, file, size)

    def _discard(self, prepared: PreparedFile) -> None:
        prepared.file.close()
        with contextlib.suppress(FileNotFoundError):
            self._fs.unlink(prepared.place.path)

    # Syncing: without the write lock.

    def sync(self, file: File) -> None:
        """Sync one of our files, or raise the error of the first sync that failed. Any thread."""
        with self._file_sync_lock:
            if self._sync_error is not None:
                raise self._sync_error
            self._sync_once(file)

    def _sync_once(self, file: File) -> None:
        try:
            file.sync()
        except OSError as error:
            if error.errno is not None:  # else a signal handler raised it
                self._sync_error = error  # at once: the next line may be interrupted
            raise

    def write_mark(self, end: tuple[int, int], *, failed: bool = False) -> File:
        """Write the durable end. Not synced: a stale mark only claims less."""
        if self._mark_file is None:
            self._mark_file = durable_mark.open_file(self._fs, self._group)
        mark = durable_mark.DurableMark(*end, self._boot_id, is_failed=failed)
        self._mark_file.write_at(mark.encode(), 0)
        return self._mark_file

    def claim_boot(self) -> None:
        """From now on marks have this boot."""
        self._boot_id = self._fs.boot_id()
        if self.file is not None:
            self.write_mark(self.durable)

    def close(self, *, failed: bool) -> None:
        """Close all files; after a failure none of them is changed. May be repeated."""
        file, self.file = self.file, None
        if file is not None and not failed:
            file.truncate(self.offset)  # give the unused blocks back
            file.sync()
            if self._mark_file is None:
                self._mark_file = durable_mark.open_file(self._fs, self._group)
            clean = durable_mark.DurableMark(*self.end, self._boot_id, is_clean=True)
            self._mark_file.write_at(clean.encode(), 0)
            self._mark_file.sync()
        prepared, self._prepared = self._prepared, None
        leftovers = [file, self._mark_file, *self.retired]
        self._mark_file = None
        self.retired = []
        for left in leftovers:
            if left is not None:
                left.close()
        if prepared is not None:
            self._discard(prepared)
