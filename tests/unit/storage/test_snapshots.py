from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.errors import FormatTooNew
from penstock.storage import snapshots
from penstock.testing import MemoryFilesystem

META = "/data/meta"
LOG_ID = bytes(range(16))


def written(*numbers: int) -> MemoryFilesystem:
    fs = MemoryFilesystem()
    for number in numbers:
        snapshots.write(fs, META, number, LOG_ID, b"body of %d" % number)
    return fs


def test_a_snapshot_comes_back_as_it_was_written() -> None:
    found = snapshots.read(written(7), META, 7)

    assert (found.number, found.log_id, found.body) == (7, LOG_ID, b"body of 7")
    assert found.path == f"{META}/snapshot-0000000000000007.bin"


def test_numbers_are_listed_newest_first_and_strangers_left_out() -> None:
    fs = written(2, 10, 9)
    for name in ("snapshot-11.bin", "snapshot-0000000000000012.bin.tmp", "notes.txt"):
        fs.replace(f"{META}/{name}", b"")

    assert snapshots.numbers(fs, META) == [10, 9, 2]
    assert snapshots.numbers(fs, "/nowhere") == []


def test_it_is_durable_once_written_and_a_cut_before_leaves_the_older_one() -> None:
    fs = written(1)
    snapshots.write(fs, META, 2, LOG_ID, b"two")

    for state in fs.crash_states(100):
        assert snapshots.read(state, META, 1).body == b"body of 1"
        assert snapshots.read(state, META, 2).body == b"two"


def test_two_are_kept() -> None:
    fs = written(1, 2, 3, 4)

    snapshots.remove_older(fs, META)

    assert snapshots.numbers(fs, META) == [4, 3]


def test_a_damaged_one_is_no_spare() -> None:
    fs = written(1, 2, 3, 4)
    fs.corrupt(snapshots.path_of(META, 3), 60)

    snapshots.remove_older(fs, META)

    assert snapshots.numbers(fs, META) == [4, 2]


def test_one_that_could_not_be_restored_is_no_spare() -> None:
    fs = written(1, 2, 3, 4)

    snapshots.remove_older(fs, META, is_spare=lambda found: found.body != b"body of 3")

    assert snapshots.numbers(fs, META) == [4, 2]


def test_the_only_one_stays() -> None:
    fs = written(5)

    snapshots.remove_older(fs, META)

    assert snapshots.numbers(fs, META) == [5]


def test_every_flipped_byte_and_every_cut_is_found() -> None:
    whole = written(1)
    path = snapshots.path_of(META, 1)

    for offset in range(whole.size(path)):
        for harm in (whole.copy().corrupt, whole.copy().truncate_at):
            fs = harm.__self__
            harm(path, offset)
            with pytest.raises(ValueError, match="snapshot"):
                snapshots.read(fs, META, 1)


Harm = Callable[[MemoryFilesystem, str], None]


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda fs, path: fs.replace(path, b""), "too short"),
        (lambda fs, path: fs.corrupt(path, 9), "head is damaged"),
        (lambda fs, path: fs.corrupt(path, fs.size(path) - 1), "body is damaged"),
        (lambda fs, path: fs.replace(path, fs.read(path) + b"x"), "body is damaged"),
        (lambda fs, path: fs.replace(path, bytes(fs.size(path))), "head is damaged"),
    ],
)
def test_what_is_wrong_is_told(harm: Harm, reason: str) -> None:
    fs = written(1)
    harm(fs, snapshots.path_of(META, 1))

    with pytest.raises(ValueError, match=reason):
        snapshots.read(fs, META, 1)


def test_a_snapshot_under_another_number_is_refused() -> None:
    fs = written(1)
    fs.rename(snapshots.path_of(META, 1), snapshots.path_of(META, 2))

    with pytest.raises(ValueError, match="body is damaged"):
        snapshots.read(fs, META, 2)


def test_one_of_a_later_version_is_not_damaged_but_too_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "VERSION", 99)
    fs = written(1)
    monkeypatch.undo()

    with pytest.raises(FormatTooNew, match="version 99") as caught:
        snapshots.read(fs, META, 1)

    assert caught.value.path == snapshots.path_of(META, 1)
    assert caught.value.hint
