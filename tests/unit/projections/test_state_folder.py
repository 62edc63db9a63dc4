"""A folder of state files: whole or refused."""

from __future__ import annotations

import msgspec
import pytest

from penstock.errors import InvalidArgument
from penstock.projections import state_folder
from penstock.projections.checkpoint import CheckpointIdentity
from penstock.projections.state_folder import LIST_NAME, StateList
from penstock.testing.fs import MemoryFilesystem
from penstock.types import Offset

HOME = "/snapshots/1"
IDENTITY = CheckpointIdentity(bytes(range(16)), "rides", "features", 1, b'["T","base",[]]')
OFFSET = Offset(1, 70)


@pytest.fixture
def fs() -> MemoryFilesystem:
    made = MemoryFilesystem()
    made.make_dirs(HOME)
    return made


def write(
    fs: MemoryFilesystem, *names: str, identity: CheckpointIdentity = IDENTITY, seq: int = 70
) -> None:
    for name in names:
        parts = [name.encode(), b"more"]
        state_folder.write_file(fs, HOME, name, identity, Offset(1, seq), 5, parts)


def listed(*names: str) -> StateList:
    return state_folder.list_of(IDENTITY, OFFSET, 5, names, keys=3)


def test_a_committed_folder_is_loaded_with_all_its_files(fs: MemoryFilesystem) -> None:
    write(fs, "b.bin", "a.bin")
    state_folder.commit(fs, HOME, listed("b.bin", "a.bin"))

    found = state_folder.load(fs, HOME)

    assert found.state.files == ["a.bin", "b.bin"]
    assert [bytes(one.parts[0]) for one in found.files] == [b"a.bin", b"b.bin"]
    assert (found.state.offset, found.state.identity) == (OFFSET, IDENTITY)
    assert found.state.more == {"keys": 3}


def test_files_of_other_runs_are_removed_with_the_commit(fs: MemoryFilesystem) -> None:
    write(fs, "old.bin", "new.bin")
    state_folder.commit(fs, HOME, listed("old.bin"))
    write(fs, "new.bin")

    state_folder.commit(fs, HOME, listed("new.bin"))

    assert sorted(fs.list(HOME)) == ["new.bin", LIST_NAME]


def test_a_folder_that_was_not_finished_is_refused(fs: MemoryFilesystem) -> None:
    write(fs, "a.bin")

    assert state_folder.load_list(fs, HOME) is None
    with pytest.raises(InvalidArgument, match=r"/snapshots/1 has no state.json: expected a folder"):
        state_folder.load(fs, HOME)


def test_a_missing_a_cut_and_another_file_are_refused(fs: MemoryFilesystem) -> None:
    state_folder.commit(fs, HOME, listed("a.bin"))

    with pytest.raises(InvalidArgument, match=r"a.bin is missing, and state.json names it"):
        state_folder.load(fs, HOME)
    write(fs, "a.bin", seq=69)
    with pytest.raises(InvalidArgument, match="it is as of seq 69, not 70"):
        state_folder.load(fs, HOME)
    other = CheckpointIdentity(bytes(16), "rides", "features", 1, IDENTITY.definition)
    write(fs, "a.bin", identity=other)
    with pytest.raises(InvalidArgument, match="it belongs to another log"):
        state_folder.load(fs, HOME)
    write(fs, "a.bin")
    file = fs.open(f"{HOME}/a.bin", writable=True)
    file.truncate(file.size() - 1)
    file.close()
    with pytest.raises(InvalidArgument, match=r"a.bin cannot be used: it"):
        state_folder.load(fs, HOME)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"{", "is damaged"),
        (b"[]", "is damaged"),
        (msgspec.json.encode(msgspec.structs.replace(listed(), format=2)), "format version 2"),
        (msgspec.json.encode(listed("../a.bin")), "names a file '../a.bin' that cannot be one"),
    ],
)
def test_a_list_that_cannot_be_read_is_refused(fs: MemoryFilesystem, text: bytes, why: str) -> None:
    file = fs.create(f"{HOME}/{LIST_NAME}")
    file.write_at(text, 0)
    file.close()

    with pytest.raises(InvalidArgument, match=why):
        state_folder.load(fs, HOME)
