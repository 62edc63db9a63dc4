"""The file that is written to, its successor, and the mark."""

from __future__ import annotations

import errno
import threading

import pytest

from penstock.storage.wal import durable_mark, files
from penstock.storage.wal.rotation import MARK_FRAME_BYTES, PreparedFile, RotatingFile
from penstock.testing import MemoryFilesystem
from penstock.testing.fs import MemoryFile
from tests.unit.storage.wal.support import WAL, wal_paths

SIZE = 4096


@pytest.fixture
def fs() -> MemoryFilesystem:
    return MemoryFilesystem()


@pytest.fixture
def wal(fs: MemoryFilesystem) -> RotatingFile:
    return rotating(fs)


def rotating(fs: MemoryFilesystem, boot_id: str = "boot") -> RotatingFile:
    numbers = files.FileNumbers(1)
    return RotatingFile(fs, WAL, numbers, file_bytes=SIZE, durable_end=(0, 0), boot_id=boot_id)


def name_of(index: int) -> str:
    return f"{WAL}/wal-{index:016d}.log"


def prepared(wal: RotatingFile) -> PreparedFile:
    found = wal.prepare_next()
    assert found is not None
    return found


def test_the_first_file_has_no_predecessor(wal: RotatingFile) -> None:
    assert not wal.rotate(0)

    assert (wal.index, wal.offset, wal.size) == (1, 0, SIZE)
    assert wal.retired == []
    assert wal.durable == (0, 0)


def test_a_rotation_makes_the_old_file_durable_and_retires_it(
    fs: MemoryFilesystem, wal: RotatingFile
) -> None:
    wal.rotate(0)
    old = wal.file
    assert old is not None
    old.write_at(b"x" * 100, 0)
    wal.offset, wal.dirty_since = 100, 1.0

    assert wal.rotate(0)

    assert wal.end == (2, 0)
    assert wal.durable == (1, 100)
    assert wal.dirty_since is None
    assert wal.retired == [old]
    assert durable_mark.read(fs, WAL) == durable_mark.DurableMark(2, 0, "boot")


def test_the_next_file_is_prepared_in_the_second_half_of_this_one(
    fs: MemoryFilesystem, wal: RotatingFile
) -> None:
    wal.rotate(0)
    assert wal.prepare_next() is None
    wal.offset = SIZE // 2

    wal.keep(prepared(wal), threading.Lock())

    assert wal.prepare_next() is None, "one is enough"
    assert wal_paths(fs) == [name_of(1), name_of(2)]
    kinds: list[str] = []
    fs.on_operation = lambda index, kind, path: kinds.append(kind)
    wal.rotate(0)
    assert wal.index == 2
    assert "allocate" not in kinds


def test_a_file_that_comes_after_a_rotation_is_removed(
    fs: MemoryFilesystem, wal: RotatingFile
) -> None:
    """Replay goes by number: it must not be written to after the one with the higher number."""
    wal.rotate(0)
    wal.offset = SIZE // 2
    late = prepared(wal)

    wal.rotate(0)
    wal.keep(late, threading.Lock())

    assert wal.index == 3
    assert wal_paths(fs) == [name_of(1), name_of(3)]


def test_a_file_that_is_too_small_is_replaced(fs: MemoryFilesystem, wal: RotatingFile) -> None:
    wal.rotate(0)
    wal.offset = SIZE // 2
    wal.keep(prepared(wal), threading.Lock())

    wal.rotate(3 * SIZE)

    assert wal.index == 3
    assert wal.size == 3 * SIZE + MARK_FRAME_BYTES
    assert wal_paths(fs) == [name_of(1), name_of(3)]


def test_without_room_no_file_is_prepared(fs: MemoryFilesystem, wal: RotatingFile) -> None:
    wal.rotate(0)
    wal.offset = SIZE // 2
    fs.fail("allocate", error=errno.ENOSPC)

    assert wal.prepare_next() is None
    assert wal_paths(fs) == [name_of(1)]


def test_a_sync_after_one_that_failed_gets_its_error(
    fs: MemoryFilesystem, wal: RotatingFile
) -> None:
    """The system tells one caller of an error, and nobody later."""
    wal.rotate(0)
    file = wal.file
    assert file is not None
    fs.fail("sync", nth=1)
    errors: list[OSError] = []

    for _ in range(3):
        with pytest.raises(OSError, match="Input") as caught:
            wal.sync(file)
        errors.append(caught.value)

    assert errors[0] is errors[1] is errors[2]
    assert fs.synced_after_failure == 0


def test_a_sync_that_a_signal_handler_ended_may_be_made_again(
    wal: RotatingFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    wal.rotate(0)
    file = wal.file
    assert file is not None

    def interrupted(file: MemoryFile) -> None:
        raise OSError("raised by a handler, without a number")

    with monkeypatch.context() as patched:
        patched.setattr(MemoryFile, "sync", interrupted)
        with pytest.raises(OSError, match="handler"):
            wal.sync(file)

    wal.sync(file)


def test_a_mark_claims_this_boot_only_when_it_is_told(fs: MemoryFilesystem) -> None:
    wal = rotating(fs, boot_id="the one before")
    wal.rotate(0)
    before = durable_mark.read(fs, WAL)

    wal.claim_boot()

    after = durable_mark.read(fs, WAL)
    assert before is not None
    assert after is not None
    assert (before.boot_id, after.boot_id) == ("the one before", fs.boot_id())


def test_closing_leaves_what_was_written_and_no_prepared_file(
    fs: MemoryFilesystem, wal: RotatingFile
) -> None:
    wal.rotate(0)
    wal.offset = SIZE // 2
    wal.keep(prepared(wal), threading.Lock())

    for _ in range(2):
        wal.close(failed=False)

    assert wal_paths(fs) == [name_of(1)]
    assert len(fs.read(name_of(1))) == SIZE // 2
    mark = durable_mark.read(fs, WAL)
    assert mark == durable_mark.DurableMark(1, SIZE // 2, "boot", is_clean=True)


def test_closing_after_a_failure_changes_no_file(fs: MemoryFilesystem, wal: RotatingFile) -> None:
    wal.rotate(0)
    wal.offset = 100
    wal.write_mark((1, 0), failed=True)
    before = fs.fingerprint()

    wal.close(failed=True)

    assert fs.fingerprint() == before
    mark = durable_mark.read(fs, WAL)
    assert mark is not None
    assert mark.is_failed
