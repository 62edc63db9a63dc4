"""One suite for every file system: the real one and the one in memory keep the same promises."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.storage.fs import Filesystem, OsFilesystem
from penstock.testing import MemoryFilesystem


@pytest.fixture(params=["os", "memory"])
def fs(request: pytest.FixtureRequest) -> Filesystem:
    return OsFilesystem() if request.param == "os" else MemoryFilesystem()


@pytest.fixture
def home(fs: Filesystem, tmp_path: Path) -> str:
    """An empty directory, there for both."""
    fs.make_dirs(str(tmp_path))
    return str(tmp_path)


def put(fs: Filesystem, path: str, data: bytes) -> None:
    file = fs.create(path)
    file.write_at(data, 0)
    file.close()


def get(fs: Filesystem, path: str) -> bytes:
    file = fs.open(path)
    try:
        return file.read_at(0, file.size())
    finally:
        file.close()


def test_a_created_file_is_empty_and_listed(fs: Filesystem, home: str) -> None:
    fs.create(f"{home}/b").close()
    fs.create(f"{home}/a").close()

    assert fs.list(home) == ["a", "b"]
    assert fs.exists(f"{home}/a")
    assert not fs.exists(f"{home}/c")
    assert fs.size(f"{home}/a") == 0


def test_creating_twice_is_refused(fs: Filesystem, home: str) -> None:
    put(fs, f"{home}/a", b"kept")

    with pytest.raises(FileExistsError):
        fs.create(f"{home}/a")

    assert get(fs, f"{home}/a") == b"kept"


def test_a_missing_directory_lists_nothing_and_takes_no_files(fs: Filesystem, home: str) -> None:
    assert fs.list(f"{home}/none") == []
    with pytest.raises(FileNotFoundError):
        fs.create(f"{home}/none/a")
    with pytest.raises(FileNotFoundError):
        fs.sync_dir(f"{home}/none")


@pytest.mark.parametrize("verb", ["open", "map", "size", "unlink"])
def test_a_missing_file_is_reported_as_such(fs: Filesystem, home: str, verb: str) -> None:
    with pytest.raises(FileNotFoundError):
        getattr(fs, verb)(f"{home}/none")


def test_reading_stops_at_the_end(fs: Filesystem, home: str) -> None:
    put(fs, f"{home}/a", b"0123456789")

    file = fs.open(f"{home}/a")

    assert file.read_at(0, 4) == b"0123"
    assert file.read_at(8, 100) == b"89"
    assert file.read_at(10, 1) == b""
    assert file.read_at(99, 1) == b""
    assert file.read_at(3, 0) == b""


def test_a_write_lands_where_it_is_told(fs: Filesystem, home: str) -> None:
    file = fs.create(f"{home}/a")
    file.write_at(b"abcdef", 0)
    file.write_at(bytearray(b"XY"), 2)
    file.write_at(memoryview(b"end"), 9)
    file.write_at(b"", 40)

    assert file.size() == 12
    assert file.read_at(0, 99) == b"abXYef\0\0\0end"


def test_two_handles_see_one_file(fs: Filesystem, home: str) -> None:
    writer = fs.create(f"{home}/a")
    reader = fs.open(f"{home}/a")

    writer.write_at(b"seen", 0)

    assert reader.read_at(0, 10) == b"seen"
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        reader.write_at(b"no", 0)


def test_allocated_bytes_are_zero_and_allocation_never_shrinks(fs: Filesystem, home: str) -> None:
    file = fs.create(f"{home}/a")
    file.write_at(b"data", 0)

    file.allocate(4096)
    file.allocate(100)

    assert file.size() == fs.size(f"{home}/a") == 4096
    assert file.read_at(0, 5000) == b"data" + bytes(4092)
    assert bytes(fs.map(f"{home}/a")) == b"data" + bytes(4092)


def test_truncating_cuts_and_extends_with_zeros(fs: Filesystem, home: str) -> None:
    file = fs.create(f"{home}/a")
    file.write_at(b"0123456789", 0)

    file.truncate(4)
    file.truncate(6)

    assert file.read_at(0, 99) == b"0123\0\0"


def test_a_map_is_the_whole_file_and_read_only(fs: Filesystem, home: str) -> None:
    put(fs, f"{home}/a", b"mapped")
    put(fs, f"{home}/empty", b"")

    view = fs.map(f"{home}/a")

    assert view.tobytes() == b"mapped"
    assert view.readonly
    assert len(fs.map(f"{home}/empty")) == 0
    fs.unlink(f"{home}/a")
    assert view.tobytes() == b"mapped"


def test_a_rename_replaces_its_target(fs: Filesystem, home: str) -> None:
    put(fs, f"{home}/old", b"old")
    put(fs, f"{home}/new", b"new")

    fs.rename(f"{home}/new", f"{home}/old")

    assert fs.list(home) == ["old"]
    assert get(fs, f"{home}/old") == b"new"
    with pytest.raises(FileNotFoundError):
        fs.rename(f"{home}/new", f"{home}/old")


def test_a_directory_moves_with_all_that_is_in_it(fs: Filesystem, home: str) -> None:
    fs.make_dirs(f"{home}/a/b")
    put(fs, f"{home}/a/b/file", b"data")

    fs.rename(f"{home}/a", f"{home}/c")

    assert fs.list(home) == ["c"]
    assert get(fs, f"{home}/c/b/file") == b"data"


def test_an_open_file_outlives_its_name(fs: Filesystem, home: str) -> None:
    file = fs.create(f"{home}/a")
    file.write_at(b"data", 0)

    fs.unlink(f"{home}/a")

    assert file.read_at(0, 4) == b"data"
    assert not fs.exists(f"{home}/a")


def test_making_directories_may_be_repeated(fs: Filesystem, home: str) -> None:
    fs.make_dirs(f"{home}/a/b/c")
    fs.make_dirs(f"{home}/a/b/c")

    assert fs.list(f"{home}/a") == ["b"]
    assert fs.exists(f"{home}/a/b/c")


def test_only_an_empty_directory_is_removed(fs: Filesystem, home: str) -> None:
    fs.make_dirs(f"{home}/a")
    put(fs, f"{home}/a/file", b"")
    with pytest.raises(OSError, match=os.strerror(errno.ENOTEMPTY)):
        fs.remove_dir(f"{home}/a")

    fs.unlink(f"{home}/a/file")
    fs.remove_dir(f"{home}/a")

    assert not fs.exists(f"{home}/a")


def test_syncing_changes_nothing_that_is_seen(fs: Filesystem, home: str) -> None:
    file = fs.create(f"{home}/a")
    file.write_at(b"data", 0)

    file.sync()
    fs.sync_dir(home)
    file.drop_cache()

    assert fs.list(home) == ["a"]
    assert file.read_at(0, 10) == b"data"


def test_a_closed_file_refuses_everything_but_closing(fs: Filesystem, home: str) -> None:
    file = fs.create(f"{home}/a")
    file.close()
    file.close()

    calls: list[Callable[[], object]] = [
        lambda: file.write_at(b"x", 0),
        lambda: file.read_at(0, 1),
        file.size,
        lambda: file.truncate(0),
        lambda: file.allocate(1),
    ]
    for call in calls:
        with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
            call()


def test_a_lock_is_refused_with_its_holders_pid(fs: Filesystem, home: str) -> None:
    lock = fs.lock(f"{home}/lock")

    with pytest.raises(BlockingIOError) as caught:
        fs.lock(f"{home}/lock")

    assert caught.value.strerror == str(os.getpid())
    assert caught.value.filename == f"{home}/lock"
    assert fs.list(home) == ["lock"]
    lock.release()
    lock.release()
    fs.lock(f"{home}/lock").release()


def test_a_released_lock_cannot_let_others_in_again(fs: Filesystem, home: str) -> None:
    first = fs.lock(f"{home}/lock")
    first.release()
    second = fs.lock(f"{home}/lock")

    first.release()

    with pytest.raises(BlockingIOError):
        fs.lock(f"{home}/lock")
    second.release()


def test_the_boot_is_known(fs: Filesystem) -> None:
    assert fs.boot_id() == fs.boot_id()
