"""Where records lie, and how far back references to them may reach."""

from __future__ import annotations

import pytest

from penstock.engine.wal_positions import References, WalPositions
from penstock.entries import WalRange
from penstock.storage.wal.recovery import Positions


def place(start: int, end: int, file: int = 1, group: str = "") -> WalRange:
    return WalRange(group, file, start, end)


def test_what_was_written_end_to_end_is_one_step() -> None:
    wal_positions = WalPositions()
    wal_positions.note(1, 10, place(0, 100))
    wal_positions.note(11, 20, place(100, 200))

    step = wal_positions.between(5, 15)

    assert step is not None
    assert (step.first, step.last, step.place) == (1, 20, place(0, 200))
    assert step.needs == (place(0, 200),)


def test_others_may_lie_in_between() -> None:
    wal_positions = WalPositions()
    wal_positions.note(1, 1, place(0, 50))
    wal_positions.note(2, 2, place(500, 550))

    step = wal_positions.between(1, 2)

    assert step is not None
    assert step.place == place(0, 550)
    assert step.has(1, 2)
    assert not step.has(1, 3)


def test_two_files_are_never_one_step() -> None:
    wal_positions = WalPositions()
    wal_positions.note(1, 1, place(0, 50))
    wal_positions.note(2, 2, place(0, 50, file=2))

    assert wal_positions.between(1, 2) is None
    assert wal_positions.between(2, 2) is not None
    assert wal_positions.between(3, 9) is None


def test_a_copy_needs_what_it_refers_to() -> None:
    wal_positions = WalPositions()
    far = place(7, 9, group="shard-01")
    wal_positions.note(1, 1, place(0, 50), (far,))

    step = wal_positions.between(1, 1)

    assert step is not None
    assert set(step.needs) == {place(0, 50), far}


def test_what_nobody_asks_for_is_forgotten() -> None:
    wal_positions = WalPositions()
    wal_positions.note(1, 5, place(0, 50))
    wal_positions.note(6, 9, place(90, 99))

    wal_positions.prune(5)

    assert wal_positions.between(1, 5) is None
    assert wal_positions.between(6, 9) is not None
    wal_positions.clear()
    assert wal_positions.between(6, 9) is None


def test_a_checkpoint_counts_from_what_references_under_way_refer_to() -> None:
    references = References()
    token = references.admit((place(10, 20), place(5, 9, group="shard-01")))
    assert token is not None

    positions = references.bound(lambda: {"": (1, 500), "shard-01": (2, 0)})

    assert positions == {"": (1, 10), "shard-01": (1, 5)}


def test_those_that_are_published_count_no_more() -> None:
    references = References()
    references.release(references.admit((place(10, 20),)))

    assert references.bound(lambda: {"": (1, 500)}) == {"": (1, 500)}


def test_after_a_checkpoint_nothing_reaches_behind_it() -> None:
    references = References()
    references.bound(lambda: {"": (3, 100)})

    assert references.admit((place(99, 120, file=3),)) is None
    assert references.admit((place(100, 120, file=3), place(0, 9, file=2))) is None
    assert references.admit((place(100, 120, file=3),)) is not None
    assert references.admit((place(0, 120, file=4),)) is not None


def test_a_checkpoint_that_fails_leaves_everything_as_it_was() -> None:
    references = References()

    def broken() -> Positions:
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        references.bound(broken)

    assert references.admit((place(0, 1),)) is not None
