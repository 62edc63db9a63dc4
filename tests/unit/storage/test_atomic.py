from __future__ import annotations

import pytest

from penstock.storage.atomic import write_whole
from penstock.testing import MemoryFilesystem

PATH = "/data/file"


@pytest.fixture
def fs() -> MemoryFilesystem:
    fs = MemoryFilesystem()
    fs.make_dirs("/data")
    return fs


def test_the_parts_are_one_file_and_no_other_is_left(fs: MemoryFilesystem) -> None:
    write_whole(fs, PATH, [b"one ", bytearray(b"two "), memoryview(b"three")])

    assert fs.paths() == [PATH]
    assert fs.read(PATH) == b"one two three"


def test_a_temporary_file_of_an_earlier_crash_is_in_nobodys_way(fs: MemoryFilesystem) -> None:
    fs.replace(f"{PATH}.tmp", b"left behind, and longer than the new one")

    write_whole(fs, PATH, [b"new"])

    assert fs.read(PATH) == b"new"


def test_a_power_cut_at_any_moment_leaves_the_old_file_or_the_new(fs: MemoryFilesystem) -> None:
    old, new = b"old" * 400, b"new" * 700
    write_whole(fs, PATH, [old])
    fs.sync_dir("/data")
    found: set[bytes] = set()
    start = fs.operations

    for step in range(20):
        trial = fs.copy()
        trial.on_operation = lambda index, kind, path, trial=trial, stop=start + step: (
            found.update(state.read(PATH) for state in trial.crash_states(200))
            if index == stop
            else None
        )
        write_whole(trial, PATH, [new])
        found.update(state.read(PATH) for state in trial.crash_states(200))

    assert found == {old, new}


@pytest.mark.parametrize("kind", ["create", "write", "sync", "rename"])
def test_a_failure_reaches_the_caller_and_leaves_the_old_file(
    fs: MemoryFilesystem, kind: str
) -> None:
    write_whole(fs, PATH, [b"old"])
    fs.fail(kind)

    with pytest.raises(OSError, match="Input/output error"):
        write_whole(fs, PATH, [b"new"])

    assert fs.read(PATH) == b"old"
