from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.storage import fs
from penstock.storage.fs import Buffer, OsFile, OsFilesystem, OsLock


@pytest.fixture
def file(tmp_path: Path) -> OsFile:
    return OsFilesystem().create(str(tmp_path / "file"))


def short_pwrite(step_bytes: int) -> Callable[[int, Buffer, int], int]:
    pwrite = os.pwrite
    return lambda fd, data, offset: pwrite(fd, memoryview(data)[:step_bytes], offset)


@pytest.mark.parametrize("step_bytes", [1, 3, 9, 10, 11])
def test_a_short_write_is_continued_where_it_stopped(
    file: OsFile, monkeypatch: pytest.MonkeyPatch, step_bytes: int
) -> None:
    monkeypatch.setattr(os, "pwrite", short_pwrite(step_bytes))

    file.write_at(b"0123456789", 2)

    assert file.read_at(0, 99) == b"\0\0" + b"0123456789"


def test_a_disk_that_takes_no_more_bytes_is_an_error_and_not_a_loop(
    file: OsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pwrite", short_pwrite(0))

    with pytest.raises(OSError, match="accepted no more bytes") as caught:
        file.write_at(b"data", 0)

    assert caught.value.errno == errno.EIO
    assert caught.value.filename == file.path


def test_an_error_after_a_short_write_reaches_the_caller(
    file: OsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite

    def fill_up(fd: int, data: Buffer, offset: int) -> int:
        if offset > 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwrite(fd, memoryview(data)[:4], offset)

    monkeypatch.setattr(os, "pwrite", fill_up)

    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        file.write_at(b"0123456789", 0)

    assert file.read_at(0, 99) == b"0123"


@pytest.mark.parametrize("step_bytes", [0, 1, 4, 5, 9, 10, 11])
def test_parts_lie_one_after_the_other_however_little_is_taken_at_once(
    file: OsFile, monkeypatch: pytest.MonkeyPatch, step_bytes: int
) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(
        os, "pwritev", lambda fd, parts, offset: pwrite(fd, b"".join(parts)[:step_bytes], offset)
    )
    monkeypatch.setattr(os, "pwrite", short_pwrite(max(1, step_bytes)))

    file.write_parts_at([b"0123", b"", b"4", memoryview(b"56789")], 2)

    assert file.read_at(0, 99) == b"\0\0" + b"0123456789"


@pytest.mark.parametrize("is_there", [True, False])
def test_parts_are_written_with_and_without_a_call_for_it(
    file: OsFile, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    monkeypatch.setattr(fs, "_HAS_PWRITEV", is_there)

    file.write_parts_at([b"0123", b"456789"], 0)

    assert file.read_at(0, 99) == b"0123456789"


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL])
def test_without_block_reservation_the_file_is_extended(
    file: OsFile, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(fd: int, offset: int, size: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", refuse)

    file.allocate(4096)

    assert file.size() == 4096


def test_a_full_disk_is_told_when_blocks_are_reserved(
    file: OsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", refuse)

    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        file.allocate(4096)

    assert file.size() == 0


def test_a_failed_sync_is_not_repeated(file: OsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def fail(fd: int, *_: int) -> None:
        nonlocal calls
        calls += 1
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    if hasattr(fcntl, "F_FULLFSYNC"):
        monkeypatch.setattr(fcntl, "fcntl", fail)
    else:
        monkeypatch.setattr(os, "fdatasync", fail)

    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        file.sync()

    assert calls == 1


def test_every_new_directory_is_synced_into_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fs = OsFilesystem()
    monkeypatch.setattr(fs, "sync_dir", synced.append)

    fs.make_dirs(str(tmp_path / "a" / "b"))

    assert synced == [str(tmp_path), str(tmp_path / "a")]


def test_files_and_directories_are_private_to_their_owner(tmp_path: Path) -> None:
    fs = OsFilesystem()
    fs.make_dirs(str(tmp_path / "a"))
    fs.create(str(tmp_path / "a" / "file")).close()
    fs.lock(str(tmp_path / "a" / "lock")).release()

    assert (tmp_path / "a").stat().st_mode & 0o077 == 0
    assert (tmp_path / "a" / "file").stat().st_mode & 0o077 == 0
    assert (tmp_path / "a" / "lock").stat().st_mode & 0o077 == 0


def test_a_refused_lock_leaves_the_holders_pid_in_place(tmp_path: Path) -> None:
    fs = OsFilesystem()
    lock = fs.lock(str(tmp_path / "lock"))

    with pytest.raises(BlockingIOError):
        fs.lock(str(tmp_path / "lock"))

    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    lock.release()


def test_looking_whether_a_lock_is_taken_keeps_nobody_from_taking_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = OsFilesystem()
    path = str(tmp_path / "lock")
    assert not fs.is_locked(path)
    lookers = [os.open(path, os.O_RDONLY | os.O_CREAT) for _ in range(3)]
    flock = fcntl.flock
    for looker in lookers:
        flock(looker, fcntl.LOCK_SH)

    def until_one_leaves(fd: int, operation: int) -> None:
        try:
            flock(fd, operation)
        except BlockingIOError:
            os.close(lookers.pop())
            raise

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", until_one_leaves)
        lock = fs.lock(path)

    assert not lookers
    assert fs.is_locked(path)
    lock.release()
    assert not fs.is_locked(path)


def test_a_child_neither_keeps_a_lock_that_was_released_nor_releases_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = OsFilesystem()
    path = str(tmp_path / "lock")
    lock = fs.lock(path)
    wait = [sys.executable, "-c", "input()"]
    # As a child that was forked by another thread and has not come to its program yet.
    with subprocess.Popen(wait, stdin=subprocess.PIPE, pass_fds=[lock._fd]) as child:
        lock.release()
        assert not fs.is_locked(path)
        again = fs.lock(path)
        twin = OsLock.__new__(OsLock)
        twin._pid, twin._fd = again._pid, os.dup(again._fd)
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: again._pid + 1)
            twin.release()
        assert fs.is_locked(path)
        again.release()
        child.communicate(b"\n")


def test_a_child_that_was_forked_off_holds_no_lock(tmp_path: Path) -> None:
    """It may live on when the one that took the lock is gone."""
    path = str(tmp_path / "lock")
    lock = OsFilesystem().lock(path)
    told, tell = os.pipe()
    may_end, let_end = os.pipe()
    child = os.fork()
    if not child:
        os.close(let_end)
        os.write(tell, b"1")
        os.read(may_end, 1)
        os._exit(0)
    try:
        assert os.read(told, 1) == b"1"
        assert OsFilesystem().is_locked(path)

        os.close(lock._fd)  # as when we die: nobody unlocks it

        OsFilesystem().lock(path).release()
    finally:
        lock._fd = -1
        for number in (told, tell, may_end, let_end):
            os.close(number)
        os.waitpid(child, 0)
