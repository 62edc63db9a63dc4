from __future__ import annotations

import pytest

from penstock.lake.compaction import chosen, inherited, layers
from penstock.lake.manifest import DataFile
from penstock.lake.project import Compaction

RULES = Compaction(files_min=3, small_bytes=100, target_bytes=250)


def file(
    first: int, size: int = 50, *, topic: str = "a", epoch: int = 1, day: str = "d"
) -> DataFile:
    path = f"{topic}-{epoch}-{day}-{first}"
    return DataFile(
        "rows", path, 10, size, "", topic=topic, day=day, epoch=epoch, first=first, last=first + 9,
        since=first, dead=1,
    )  # fmt: skip


def firsts(groups: list[list[DataFile]]) -> list[list[int]]:
    return [[one.first for one in group] for group in groups]


def test_enough_small_files_of_one_place_become_one() -> None:
    files = [file(30), file(10), file(20), file(10, day="e"), file(20, epoch=2), file(40, 100)]

    assert firsts(chosen(files, RULES)) == [[10, 20, 30]]


def test_a_new_file_is_not_made_larger_than_it_should_be() -> None:
    files = [file(number * 10, 80) for number in range(7)]

    assert firsts(chosen(files, RULES)) == [[0, 10, 20], [30, 40, 50]]


def test_two_groups_of_one_place_are_written_one_after_the_other() -> None:
    one, two = chosen([file(number * 10, 80) for number in range(6)], RULES)
    other = [file(0, topic="b")]

    assert layers([one, two, other]) == [[one, other], [two]]


def test_a_new_file_keeps_what_is_known_of_the_old_ones() -> None:
    group = [file(10), file(20)]
    made = DataFile("rows", "new", 20, 90, "", topic="a", day="d", epoch=1, first=10, last=29)

    (found,) = inherited([group], [made])

    assert (found.since, found.dead, found.path) == (20, 2, "new")


@pytest.mark.parametrize(("rows", "day"), [(19, "d"), (21, "d"), (20, "e")])
def test_rows_that_come_or_go_are_no_compaction(rows: int, day: str) -> None:
    made = DataFile("rows", "new", rows, 90, "", topic="a", day=day, epoch=1)

    with pytest.raises(AssertionError):
        inherited([[file(10), file(20)]], [made])
