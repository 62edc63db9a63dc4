"""Groups, alone: told by hand, beside a desk that has only what they ask of it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from penstock.topics.queue_groups import QueueGroups


class Desk:
    """Who is out, who rests and who is put off, as a test says."""

    def __init__(self) -> None:
        self.deliveries: dict[int, int] = {}
        self.out: set[int] = set()
        self.resting: set[int] = set()
        self.put_off: set[int] = set()

    def is_free(self, seq: int) -> bool:
        return seq not in self.out | self.resting | self.put_off

    def holds(self, seq: int) -> bool:
        return seq in self.resting or (seq in self.out and seq in self.deliveries)

    def hand_out(self, *seqs: int) -> None:
        self.out.update(seqs)
        self.deliveries.update(dict.fromkeys(seqs, 1))


def told(view: Desk, *tags: str | None) -> QueueGroups:
    """Jobs from 1 on."""
    groups = QueueGroups()
    by_seq = {seq: tag for seq, tag in enumerate(tags, 1) if tag is not None}
    groups.tell(range(1, len(tags) + 1), by_seq, view)
    return groups


def picked(groups: QueueGroups, view: Desk) -> list[int]:
    """All that may go, each kept from the next pick, and not out yet."""
    found: list[int] = []
    while (seq := groups.pick(view)) is not None:
        view.out.add(seq)
        found.append(seq)
    return found


def hand_out_all(groups: QueueGroups, view: Desk) -> list[int]:
    found = picked(groups, view)
    view.hand_out(*found)
    return found


def give_back(groups: QueueGroups, view: Desk, seqs: Iterable[int]) -> None:
    for seq in seqs:
        view.out.discard(seq)
        view.resting.discard(seq)
        view.put_off.discard(seq)
        groups.free(seq, view)


@pytest.fixture
def view() -> Desk:
    return Desk()


# Picking.


def test_nothing_is_picked_of_nothing(view: Desk) -> None:
    assert QueueGroups().pick(view) is None
    assert QueueGroups().blocked == 0


def test_the_oldest_of_each_group_and_all_without_a_tag(view: Desk) -> None:
    groups = told(view, "a", "a", None, "b", "a", None, "b")

    assert picked(groups, view) == [1, 3, 4, 6]


def test_what_is_out_or_put_off_is_not_picked(view: Desk) -> None:
    view.put_off = {1, 3}
    view.hand_out(4)
    groups = told(view, "a", "a", None, "b", None)

    assert picked(groups, view) == [2, 5]


def test_those_that_were_out_before_come_first(view: Desk) -> None:
    view.deliveries = {3: 1, 5: 2}
    groups = told(view, "a", None, None, "b", "b", "c")

    assert picked(groups, view) == [3, 1, 2, 4, 6]


def test_whoever_is_picked_has_the_turn_before_it_is_out(view: Desk) -> None:
    groups = told(view, "a", "a")

    assert groups.pick(view) == 1
    view.out.add(1)
    assert groups.pick(view) is None


# Turns.


def test_the_next_goes_when_the_owner_is_gone(view: Desk) -> None:
    groups = told(view, "a", "a", "a")
    hand_out_all(groups, view)

    groups.gone(1, view)

    assert picked(groups, view) == [2]


def test_one_that_comes_back_still_has_the_turn(view: Desk) -> None:
    view.put_off.add(1)
    groups = told(view, "a", "a")
    hand_out_all(groups, view)

    give_back(groups, view, [1, 2])

    assert picked(groups, view) == [2]


def test_a_fresh_one_that_is_put_back_has_it_no_more(view: Desk) -> None:
    view.put_off.add(1)
    groups = told(view, "a", "a")
    assert picked(groups, view) == [2]

    give_back(groups, view, [1, 2])

    assert picked(groups, view) == [1]


def test_a_rest_keeps_the_turn(view: Desk) -> None:
    groups = told(view, "a", "a", "b")
    hand_out_all(groups, view)

    view.out.discard(1)
    view.resting.add(1)

    assert picked(groups, view) == []
    give_back(groups, view, [1])
    assert picked(groups, view) == [1]


def test_one_that_is_released_lets_the_next_go_and_has_its_place_later(view: Desk) -> None:
    groups = told(view, "a", "a", "a")
    hand_out_all(groups, view)

    view.out.discard(1)
    view.put_off.add(1)
    groups.release(1, view)

    assert picked(groups, view) == [2]
    give_back(groups, view, [1])
    groups.gone(2, view)
    assert picked(groups, view) == [1]
    assert groups.tags == {1: "a", 3: "a"}


@pytest.mark.parametrize(("gone", "found"), [([2], [3]), ([2, 3], [4]), ([3], [2]), ([4, 2], [3])])
def test_those_that_go_while_they_wait_are_passed_by(
    view: Desk, gone: list[int], found: list[int]
) -> None:
    groups = told(view, "a", "a", "a", "a")
    hand_out_all(groups, view)

    for seq in [*gone, 1]:
        groups.gone(seq, view)

    assert picked(groups, view) == found


def test_a_late_one_goes_before_those_that_wait(view: Desk) -> None:
    view.put_off = {1, 2}
    groups = told(view, "a", "a", "a", "b")

    give_back(groups, view, [2])
    assert groups.pick(view) == 2
    view.hand_out(2)
    give_back(groups, view, [1])
    groups.gone(2, view)

    assert picked(groups, view) == [1, 4]


def test_of_what_is_gone_or_has_no_tag_nothing_is_known(view: Desk) -> None:
    groups = told(view, None, "a")
    hand_out_all(groups, view)

    for seq in (1, 2, 2, 9):
        groups.release(seq, view)
        groups.gone(seq, view)

    assert groups.tags == {}
    assert groups.blocked == 0


# Telling.


def test_one_that_is_out_or_rests_when_it_is_told_has_the_turn(view: Desk) -> None:
    view.hand_out(2, 4)
    view.out.discard(4)
    view.resting.add(4)

    groups = told(view, "a", "a", "b", "b", "c")

    assert picked(groups, view) == [5]
    assert groups.blocked == 2
    groups.gone(2, view)
    give_back(groups, view, [4])
    assert picked(groups, view) == [4, 1]


def test_what_is_free_and_was_not_told_yet_waits_for_that(view: Desk) -> None:
    groups = told(view, "a")

    groups.free(2, view)
    assert picked(groups, view) == [1]
    groups.tell([2, 3], {2: "a"}, view)

    assert picked(groups, view) == [3]
    assert groups.known == 3


def test_jobs_that_are_told_twice_are_there_once(view: Desk) -> None:
    groups = told(view, "a", "a", None)
    groups.tell([1, 2, 3], {1: "a", 2: "a"}, view)

    assert groups.blocked == 1
    assert picked(groups, view) == [1, 3]


# Counting.


def test_blocked_are_those_behind_others_of_their_group(view: Desk) -> None:
    groups = told(view, "a", "a", "a", None, "b", "b")
    told_only = groups.blocked

    hand_out_all(groups, view)
    all_out = groups.blocked
    give_back(groups, view, [1])
    first_back = groups.blocked
    groups.gone(2, view)

    assert (told_only, all_out, first_back, groups.blocked) == (3, 3, 3, 2)
    groups.gone(1, view)
    assert groups.blocked == 1
    groups.gone(3, view)
    assert groups.blocked == 1


def test_nothing_stays_of_groups_that_are_through(view: Desk) -> None:
    groups = told(view, *["a", "b"] * 50)
    while found := hand_out_all(groups, view):
        for seq in found:
            groups.gone(seq, view)

    for name in set(QueueGroups.__slots__) - {"known"}:
        assert not getattr(groups, name), name
