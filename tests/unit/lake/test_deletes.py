from __future__ import annotations

import random

from penstock.lake.counts import TopicFacts
from penstock.lake.deletes import suspects
from penstock.lake.manifest import DataFile


class Log:
    """A log of one topic as a set of live seqs."""

    log_id = ""

    def __init__(
        self, live: set[int], *, floor: int = 0, exact: bool = True, epoch: int = 1
    ) -> None:
        self._live = live
        self._exact = exact
        head = max(live, default=0)
        self.topics = {"a": TopicFacts("a", epoch, head, len(live), floor)}

    def live(self, topic: str, first: int, last: int) -> int | None:
        return sum(first <= seq <= last for seq in self._live) if self._exact else None


def file(first: int, last: int, rows: int, *, dead: int = 0, topic: str = "a") -> DataFile:
    return DataFile(
        "records", f"{first}-{last}", rows, 1, "", topic=topic, epoch=1, first=first, last=last,
        dead=dead,
    )  # fmt: skip


def paths(files: list[DataFile]) -> list[str]:
    return [one.path for one in files]


FILES = [file(1, 10, 10), file(11, 20, 10), file(21, 30, 10)]
ALL = set(range(1, 31))


def test_a_log_that_has_everything_leaves_nothing_to_look_for() -> None:
    assert suspects(FILES, Log(ALL)) == []
    assert suspects(FILES, Log(ALL, exact=False)) == []


def test_only_files_of_the_range_where_something_is_gone() -> None:
    assert paths(suspects(FILES, Log(ALL - {15}))) == ["11-20"]


def test_without_exact_counts_it_is_the_whole_topic() -> None:
    assert suspects(FILES, Log(ALL - {15}, exact=False)) == FILES


def test_what_is_known_to_be_deleted_is_not_looked_for_again() -> None:
    known = [FILES[0], file(11, 20, 10, dead=1), FILES[2]]

    assert suspects(known, Log(ALL - {15})) == []


def test_what_the_log_has_let_go_of_is_nobodys_delete() -> None:
    assert suspects(FILES, Log(ALL - set(range(1, 11)), floor=10)) == []


def test_a_file_at_the_floor_is_looked_into() -> None:
    assert paths(suspects(FILES, Log(ALL - set(range(1, 13)), floor=12))) == ["11-20"]


def test_files_that_overlap_are_looked_at_together() -> None:
    mixed = [file(1, 20, 10), file(2, 19, 10), FILES[2]]

    assert suspects(mixed, Log(ALL)) == []
    assert suspects(mixed, Log(ALL - {3})) == mixed[:2]


def test_topics_that_are_no_more_or_new_keep_their_files() -> None:
    assert suspects([file(1, 5, 5, topic="gone")], Log(ALL)) == []
    assert suspects(FILES, Log({1}, epoch=2)) == []


def test_where_records_were_skipped_numbers_tell_nothing() -> None:
    assert suspects(FILES, Log(ALL), ["a"]) == FILES


def test_every_delete_is_in_a_suspect() -> None:
    chance = random.Random(5)
    for _ in range(200):
        cuts = sorted(chance.sample(range(1, 60), 4))
        held = set(chance.sample(range(1, 60), 40))
        files = []
        for low, high in zip([0, *cuts], [*cuts, 60], strict=True):
            inside = [seq for seq in held if low < seq <= high]
            if inside:
                files.append(file(min(inside), max(inside), len(inside)))
        gone = set(chance.sample(sorted(held), 3))

        found = suspects(files, Log(held - gone))

        assert all(any(one.first <= seq <= one.last for one in found) for seq in gone)
