"""Brief writes: quick ones keep the interpreter, and a disk that makes its writers wait does so to
one thread alone."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from penstock.storage import nonblocking_write
from penstock.storage.fs import OsFilesystem
from penstock.storage.nonblocking_write import BRIEF_BYTES_MAX, NonblockingWrites
from penstock.testing import FakeClock


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    number = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield number
    os.close(number)


class Disk:
    """One on which a write takes as long as it is told."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.takes_ms = 0
        self.kept = 0

    def write(self, fd: int, data: bytes, offset: int) -> int:
        self.kept += 1
        self.clock.advance(self.takes_ms)
        return os.pwrite(fd, data, offset)


def test_what_is_written_is_there(fd: int) -> None:
    assert nonblocking_write.BRIEF.write(fd, b"0123", 0) == 4
    assert nonblocking_write.BRIEF.write(fd, b"ab\0c", 2) == 4

    assert os.pread(fd, 99, 0) == b"01ab\0c"


@pytest.mark.parametrize("size", [0, 1, BRIEF_BYTES_MAX, BRIEF_BYTES_MAX + 1])
def test_any_size_is_written(fd: int, size: int) -> None:
    data = Random(size).randbytes(size)

    assert nonblocking_write.BRIEF.write(fd, data, 5) == size
    assert os.pread(fd, size + 9, 5) == data


def test_a_failure_is_told_with_its_number(fd: int) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)) as caught:
        nonblocking_write.BRIEF.write(10_000_000, b"1", 0)

    assert caught.value.errno == errno.EBADF


def test_a_full_disk_is_told() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as caught:
            nonblocking_write.BRIEF.write(full, b"1", 0)
    finally:
        os.close(full)

    assert caught.value.errno == errno.ENOSPC


def test_after_a_slow_write_others_may_run_for_a_while(fd: int) -> None:
    clock = FakeClock()
    disk = Disk(clock)
    writes = NonblockingWrites(clock, disk.write)

    writes.write(fd, b"1", 0)
    disk.takes_ms = 200
    writes.write(fd, b"2", 1)
    disk.takes_ms = 0
    for at in range(2, 9):
        writes.write(fd, b"x", at)
        clock.advance(1000)

    assert disk.kept == 2
    clock.advance(5000)
    writes.write(fd, b"9", 9)
    assert disk.kept == 3
    assert os.pread(fd, 99, 0) == b"12xxxxxxx9"


def test_large_ones_let_others_run(fd: int) -> None:
    clock = FakeClock()
    disk = Disk(clock)

    NonblockingWrites(clock, disk.write).write(fd, bytes(BRIEF_BYTES_MAX + 1), 0)

    assert disk.kept == 0


def test_a_brief_write_that_is_cut_short_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        nonblocking_write.BRIEF, "_keeping", lambda fd, data, at: os.pwrite(fd, data[:3], at)
    )
    file = OsFilesystem().create(str(tmp_path / "file"))

    file.write_parts_at([b"0123", memoryview(b"456789")], 2, is_brief=True)

    assert file.read_at(0, 99) == b"\0\0" + b"0123456789"
    file.close()
