"""Groups and rounds: what is committed together."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.compat.qwp import groups
from penstock.compat.qwp.codec import Message, QwpTable


def table(name: str, count: int, *, is_timed: bool = True) -> QwpTable:
    return QwpTable(name, [b"%d" % number for number in range(count)], is_timed)


def test_a_round_has_each_topic_once() -> None:
    (only,) = groups.rounds([table("a", 2), table("b", 1), table("a", 1), table("c", 0)])

    assert only == [QwpTable("a", [b"0", b"1", b"0"], True), QwpTable("b", [b"0"], True)]


def test_rows_are_timed_when_all_of_a_group_are() -> None:
    (only,) = groups.rounds([table("a", 2), table("a", 1, is_timed=False)])

    assert not only[0].is_timed


def test_long_tables_take_several_rounds() -> None:
    most = limits.BATCH_RECORDS_MAX

    rounds = groups.rounds([table("a", 2 * most + 1), table("b", 3), table("c", most + 1)])

    sizes = [[(one.name, len(one.rows)) for one in round_] for round_ in rounds]
    assert sizes == [[("a", most), ("b", 3), ("c", most)], [("a", most), ("c", 1)], [("a", 1)]]


def test_a_group_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    three = Message([table("a", 3)], True)
    for name, most in (("ROWS", 5), ("BYTES", 5), ("MESSAGES", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(groups, f"_GROUP_{name}_MAX", most)
            group = groups.Group()
            assert group.has_room_for(three)
            group.add(groups.Entry(0), three)
            assert not group.has_room_for(three)
