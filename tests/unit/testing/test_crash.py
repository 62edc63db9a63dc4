from __future__ import annotations

import pytest

from penstock.testing.crash import (
    FATES,
    LAND,
    TEARS_MAX,
    VANISH,
    ZERO,
    CrashChoices,
    Fate,
    Pending,
    harms,
    plans,
)


def write(operation: int, offset: int = 0, size: int = 100) -> Pending:
    return Pending(operation, "write", "/f", offset, size)


@pytest.mark.parametrize(
    ("offset", "size", "sectors"),
    [(0, 1, 1), (0, 512, 1), (0, 513, 2), (511, 2, 2), (512, 512, 1), (100, 5000, 10)],
)
def test_a_write_touches_every_sector_it_has_a_byte_in(
    offset: int, size: int, sectors: int
) -> None:
    assert write(0, offset, size).sectors == sectors


def test_the_same_seed_makes_the_same_choices() -> None:
    changes = [write(n, offset=n * 700, size=3000) for n in range(40)]

    first, again = CrashChoices(7), CrashChoices(7)

    assert [first(change) for change in changes] == [again(change) for change in changes]


def test_the_seeds_between_them_make_every_choice() -> None:
    made = {CrashChoices(seed)(write(0, size=3000)).kind for seed in range(200)}

    assert made == set(FATES)


def test_only_writes_are_torn_or_littered() -> None:
    rename = Pending(0, "rename", "/f")

    assert {CrashChoices(seed)(rename) for seed in range(100)} == {LAND, VANISH}
    assert harms(rename) == [VANISH]


def test_a_write_inside_one_sector_is_never_torn() -> None:
    assert harms(write(3)) == [VANISH, Fate("garbage", seed=3), ZERO]


def test_a_write_is_torn_at_every_boundary_or_evenly_at_eight() -> None:
    few = [fate.sectors for fate in harms(write(0, size=4 * 512)) if fate.kind == "torn"]
    many = [fate.sectors for fate in harms(write(0, size=100 * 512)) if fate.kind == "torn"]

    assert few == [1, 2, 3]
    assert len(many) == TEARS_MAX
    assert (many[0], many[-1]) == (1, 99)


def test_holes_are_tried_only_when_asked_for() -> None:
    change = write(0, size=1024)

    assert not [fate for fate in harms(change) if fate.kind == "holed"]
    assert Fate("holed", sectors=1) in harms(change, fates=(*FATES, "holed"))


def test_nothing_pending_leaves_one_plan() -> None:
    assert list(plans([])) == [()]


def test_a_few_changes_are_tried_in_all_combinations() -> None:
    changes = [write(0), write(1), Pending(2, "create", "/f")]

    made = list(plans(changes))

    assert len(made) == len(set(made)) == 4 * 4 * 2


def test_many_changes_are_tried_by_prefix_alone_and_each_harmed() -> None:
    changes = [write(n) for n in range(30)]

    made = set(plans(changes))

    for at in range(31):
        assert (LAND,) * at + (VANISH,) * (30 - at) in made
    for at in range(30):
        assert (LAND,) * at + (VANISH,) + (LAND,) * (29 - at) in made
        assert (VANISH,) * at + (LAND,) + (VANISH,) * (29 - at) in made
        assert (LAND,) * at + (ZERO,) + (VANISH,) * (29 - at) in made
        assert (LAND,) * at + (Fate("garbage", seed=at),) + (LAND,) * (29 - at) in made


def test_names_and_data_are_also_lost_apart() -> None:
    changes = [write(n) for n in range(20)] + [Pending(20, "rename", "/f")]

    made = set(plans(changes))

    assert (VANISH,) * 20 + (LAND,) in made
    assert (LAND,) * 20 + (VANISH,) in made
