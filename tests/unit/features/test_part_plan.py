"""Parts of feature tables before and after a change."""

from __future__ import annotations

import msgspec

from penstock.features.part_plan import (
    NewPart,
    PartSpec,
    TableShape,
    is_settled,
    planned,
    serving,
    superseded,
)


def part(name: str, base: str = "b", table: str = "T", **features: str) -> PartSpec:
    return PartSpec(name, table, base, features, msgspec.Raw(b"{}"))


def test_a_new_table_is_one_part() -> None:
    change = planned([], {"T": TableShape("b", {"n": "1", "s": "2"})})

    assert change.built == (NewPart("T", ("n", "s")),)
    assert not change.kept
    assert not change.dropped


def test_an_added_feature_is_a_part_of_its_own_and_the_others_keep_their_state() -> None:
    old = part("p1", n="1")

    change = planned([old], {"T": TableShape("b", {"n": "1", "s": "2"})})

    assert change.kept == (old,)
    assert change.built == (NewPart("T", ("s",)),)


def test_a_changed_feature_is_served_by_its_old_part_until_the_new_one_is_ready() -> None:
    old, new = part("p1", n="1"), part("p2", n="9")
    wanted = TableShape("b", {"n": "9"})

    assert planned([old], {"T": wanted}).replaced == (old,)
    assert serving([old, new], wanted, "T", ["p1"]) == {"n": old}
    assert superseded([old, new], wanted, "T", ["p1"]) == []
    assert not is_settled([old, new], wanted, "T", ["p1"])
    assert serving([old, new], wanted, "T", ["p1", "p2"]) == {"n": new}
    assert superseded([old, new], wanted, "T", ["p1", "p2"]) == [old]
    assert is_settled([old, new], wanted, "T", ["p1", "p2"])


def test_a_part_that_never_got_ready_goes_when_no_feature_needs_it() -> None:
    old, failed, new = part("p1", n="1"), part("p2", n="9"), part("p3", n="5")
    wanted = TableShape("b", {"n": "5"})

    assert superseded([old, failed, new], wanted, "T", ["p1"]) == []
    assert superseded([old, failed, new], wanted, "T", ["p1", "p3"]) == [old, failed]


def test_the_parts_of_other_tables_stay() -> None:
    other, old, new = part("p1", table="U", n="1"), part("p2", n="1"), part("p3", n="9")

    gone = superseded([other, old, new], TableShape("b", {"n": "9"}), "T", ["p2", "p3"])

    assert gone == [old]


def test_a_changed_key_rebuilds_the_whole_table() -> None:
    old = part("p1", base="b", n="1", s="2")

    change = planned([old], {"T": TableShape("c", {"n": "1", "s": "2"})})

    assert change.replaced == (old,)
    assert change.built == (NewPart("T", ("n", "s")),)


def test_a_part_without_a_wanted_feature_is_dropped() -> None:
    gone, other = part("p1", n="1"), part("p2", table="U", n="1")

    change = planned([gone, other], {"T": TableShape("b", {"s": "2"})})

    assert change.dropped == (gone, other)


def test_a_removed_feature_is_no_longer_served_and_its_siblings_are() -> None:
    both = part("p1", n="1", s="2")

    assert set(serving([both], TableShape("b", {"s": "2"}), "T", ["p1"])) == {"s"}


def test_a_feature_whose_only_part_is_not_ready_is_left_out() -> None:
    assert serving([part("p1", n="1")], TableShape("b", {"n": "1"}), "T", []) == {}
