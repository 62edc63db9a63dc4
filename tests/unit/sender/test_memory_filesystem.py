"""Files that live as long as their process."""

from __future__ import annotations

import pytest

from penstock.sender.memory_filesystem import RamFilesystem


def test_two_handles_see_the_same_bytes() -> None:
    fs = RamFilesystem()
    writer = fs.create("/a/f")
    writer.allocate(10)
    writer.write_at(b"abc", 2)

    reader = fs.open("/a/f")

    assert reader.read_at(0, 100) == b"\0\0abc" + bytes(5)
    assert (reader.size(), fs.size("/a/f"), bytes(fs.map("/a/f")[2:5])) == (10, 10, b"abc")
    writer.write_at(b"z", 12)
    assert reader.read_at(9, 9) == b"\0\0\0z"
    writer.truncate(3)
    assert reader.read_at(0, 9) == b"\0\0a"


def test_names_are_given_moved_and_taken() -> None:
    fs = RamFilesystem()
    fs.create("/a/f")
    fs.create("/a/b/g")
    fs.create("/ab/h")
    with pytest.raises(FileExistsError):
        fs.create("/a/f")

    fs.rename("/a/f", "/a/e")

    assert fs.list("/a") == ["b", "e"]
    assert (fs.exists("/a/f"), fs.exists("/a/e")) == (False, True)
    fs.unlink("/a/e")
    for call in (fs.unlink, fs.open, fs.size):
        with pytest.raises(FileNotFoundError):
            call("/a/e")


def test_an_open_file_outlives_its_name() -> None:
    fs = RamFilesystem()
    file = fs.create("/f")
    file.write_at(b"kept", 0)
    fs.unlink("/f")

    assert file.read_at(0, 4) == b"kept"
