"""Groups, alone: told by hand, beside a desk that has only what they ask of it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from penstock.topics.groups import Groups


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


def told(desk: Desk, *tags: str | None) -> Groups:
    """Jobs from 1 on."""
    groups = Groups()
    by_seq = {seq: tag for seq, tag in enumerate(tags, 1) if tag is not None}
    groups.tell(range(1, len(tags) + 1), by_seq, desk)
    return groups


def picked(groups: Groups, desk: Desk) -> list[int]:
    """All that may go, each kept from the next pick, and not out yet."""
    found: list[int] = []
    while (seq := groups.pick(desk)) is not None:
        desk.out.add(seq)
        found.append(seq)
    return found


def hand_out_all(groups: Groups, desk: Desk) -> list[int]:
    found = picked(groups, desk)
    desk.hand_out(*found)
    return found


def give_back(groups: Groups, desk: Desk, seqs: Iterable[int]) -> None:
    for seq in seqs:
        desk.out.discard(seq)
        desk.resting.discard(seq)
        desk.put_off.discard(seq)
        groups.free(seq, desk)


@pytest.fixture
def desk() -> Desk:
    return Desk()


# Picking.


def test_nothing_is_picked_of_nothing(desk: Desk) -> None:
    assert Groups().pick(desk) is None
    assert Groups().blocked == 0


def test_the_oldest_of_each_group_and_all_without_a_tag(desk: Desk) -> None:
    groups = told(desk, "a", "a", None, "b", "a", None, "b")

    assert picked(groups, desk) == [1, 3, 4, 6]


def test_what_is_out_or_put_off_is_not_picked(desk: Desk) -> None:
    desk.put_off = {1, 3}
    desk.hand_out(4)
    groups = told(desk, "a", "a", None, "b", None)

    assert picked(groups, desk) == [2, 5]


def test_those_that_were_out_before_come_first(desk: Desk) -> None:
    desk.deliveries = {3: 1, 5: 2}
    groups = told(desk, "a", None, None, "b", "b", "c")

    assert picked(groups, desk) == [3, 1, 2, 4, 6]


def test_whoever_is_picked_has_the_turn_before_it_is_out(desk: Desk) -> None:
    groups = told(desk, "a", "a")

    assert groups.pick(desk) == 1
    desk.out.add(1)
    assert groups.pick(desk) is None


# Turns.


def test_the_next_goes_when_the_owner_is_gone(desk: Desk) -> None:
    groups = told(desk, "a", "a", "a")
    hand_out_all(groups, desk)

    groups.gone(1, desk)

    assert picked(groups, desk) == [2]


def test_one_that_comes_back_still_has_the_turn(desk: Desk) -> None:
    desk.put_off.add(1)
    groups = told(desk, "a", "a")
    hand_out_all(groups, desk)

    give_back(groups, desk, [1, 2])

    assert picked(groups, desk) == [2]


def test_a_fresh_one_that_is_put_back_has_it_no_more(desk: Desk) -> None:
    desk.put_off.add(1)
    groups = told(desk, "a", "a")
    assert picked(groups, desk) == [2]

    give_back(groups, desk, [1, 2])

    assert picked(groups, desk) == [1]


def test_a_rest_keeps_the_turn(desk: Desk) -> None:
    groups = told(desk, "a", "a", "b")
    hand_out_all(groups, desk)

    desk.out.discard(1)
    desk.resting.add(1)

    assert picked(groups, desk) == []
    give_back(groups, desk, [1])
    assert picked(groups, desk) == [1]


def test_one_that_is_released_lets_the_next_go_and_has_its_place_later(desk: Desk) -> None:
    groups = told(desk, "a", "a", "a")
    hand_out_all(groups, desk)

    desk.out.discard(1)
    desk.put_off.add(1)
    groups.release(1, desk)

    assert picked(groups, desk) == [2]
    give_back(groups, desk, [1])
    groups.gone(2, desk)
    assert picked(groups, desk) == [1]
    assert groups.tags == {1: "a", 3: "a"}


@pytest.mark.parametrize(("gone", "found"), [([2], [3]), ([2, 3], [4]), ([3], [2]), ([4, 2], [3])])
def test_those_that_go_while_they_wait_are_passed_by(
    desk: Desk, gone: list[int], found: list[int]
) -> None:
    groups = told(desk, "a", "a", "a", "a")
    hand_out_all(groups, desk)

    for seq in [*gone, 1]:
        groups.gone(seq, desk)

    assert picked(groups, desk) == found


def test_a_late_one_goes_before_those_that_wait(desk: Desk) -> None:
    desk.put_off = {1, 2}
    groups = told(desk, "a", "a", "a", "b")

    give_back(groups, desk, [2])
    assert groups.pick(desk) == 2
    desk.hand_out(2)
    give_back(groups, desk, [1])
    groups.gone(2, desk)

    assert picked(groups, desk) == [1, 4]


def test_of_what_is_gone_or_has_no_tag_nothing_is_known(desk: Desk) -> None:
    groups = told(desk, None, "a")
    hand_out_all(groups, desk)

    for seq in (1, 2, 2, 9):
        groups.release(seq, desk)
        groups.gone(seq, desk)

    assert groups.tags == {}
    assert groups.blocked == 0


# Telling.


def test_one_that_is_out_or_rests_when_it_is_told_has_the_turn(desk: Desk) -> None:
    desk.hand_out(2, 4)
    desk.out.discard(4)
    desk.resting.add(4)

    groups = told(desk, "a", "a", "b", "b", "c")

    assert picked(groups, desk) == [5]
    assert groups.blocked == 2
    groups.gone(2, desk)
    give_back(groups, desk, [4])
    assert picked(groups, desk) == [4, 1]


def test_what_is_free_and_was_not_told_yet_waits_for_that(desk: Desk) -> None:
    groups = told(desk, "a")

    groups.free(2, desk)
    assert picked(groups, desk) == [1]
    groups.tell([2, 3], {2: "a"}, desk)

    assert picked(groups, desk) == [3]
    assert groups.known == 3


def test_jobs_that_are_told_twice_are_there_once(desk: Desk) -> None:
    groups = told(desk, "a", "a", None)
    groups.tell([1, 2, 3], {1: "a", 2: "a"}, desk)

    assert groups.blocked == 1
    assert picked(groups, desk) == [1, 3]


# Counting.


def test_blocked_are_those_behind_others_of_their_group(desk: Desk) -> None:
    groups = told(desk, "a", "a", "a", None, "b", "b")
    told_only = groups.blocked

    hand_out_all(groups, desk)
    all_out = groups.blocked
    give_back(groups, desk, [1])
    first_back = groups.blocked
    groups.gone(2, desk)

    assert (told_only, all_out, first_back, groups.blocked) == (3, 3, 3, 2)
    groups.gone(1, desk)
    assert groups.blocked == 1
    groups.gone(3, desk)
    assert groups.blocked == 1


def test_nothing_stays_of_groups_that_are_through(desk: Desk) -> None:
    groups = told(desk, *["a", "b"] * 50)
    while found := hand_out_all(groups, desk):
        for seq in found:
            groups.gone(seq, desk)

    for name in set(Groups.__slots__) - {"known"}:
        assert not getattr(groups, name), name
