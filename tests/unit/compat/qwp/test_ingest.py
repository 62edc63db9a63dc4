"""Groups and rounds: what is committed together. The rest is driven in tests/server/test_qwp.py."""

from __future__ import annotations

import pytest

from penstock import errors, limits
from penstock.compat.qwp import ingest
from penstock.compat.qwp.codec import Message, Table
from penstock.compat.qwp.reading import QwpError, Status
from penstock.server.errors import ApiError, throttled


def table(name: str, count: int, *, is_timed: bool = True) -> Table:
    return Table(name, [b"%d" % number for number in range(count)], is_timed)


def test_a_round_has_each_topic_once() -> None:
    (only,) = ingest._rounds([table("a", 2), table("b", 1), table("a", 1), table("c", 0)])

    assert only == [Table("a", [b"0", b"1", b"0"], True), Table("b", [b"0"], True)]


def test_rows_are_timed_when_all_of_a_group_are() -> None:
    (only,) = ingest._rounds([table("a", 2), table("a", 1, is_timed=False)])

    assert not only[0].is_timed


def test_long_tables_take_several_rounds() -> None:
    most = limits.BATCH_RECORDS_MAX

    rounds = ingest._rounds([table("a", 2 * most + 1), table("b", 3), table("c", most + 1)])

    sizes = [[(one.name, len(one.rows)) for one in round_] for round_ in rounds]
    assert sizes == [[("a", most), ("b", 3), ("c", most)], [("a", most), ("c", 1)], [("a", 1)]]


def test_a_group_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    three = Message([table("a", 3)], True)
    for name, most in (("ROWS", 5), ("BYTES", 5), ("MESSAGES", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(ingest, f"_GROUP_{name}_MAX", most)
            group = ingest._Group()
            assert group.has_room_for(three)
            group.add(ingest._Entry(0), three)
            assert not group.has_room_for(three)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (QwpError("gap", Status.GAP), Status.GAP),
        (errors.InvalidArgument("name"), Status.SCHEMA),
        (errors.RecordTooLarge("size"), Status.PARSE),
        (errors.BatchTooLarge("size"), Status.PARSE),
        (errors.Overloaded("full", retry_after_ms=5), Status.WRITE),
        (throttled("max_topics", 1), Status.WRITE),
        (ApiError(503, "shutting_down", "no"), Status.INTERNAL),
        (errors.TopicNotFound("t"), Status.INTERNAL),
        (errors.Closed("closed"), Status.INTERNAL),
        (ValueError("a bug"), Status.INTERNAL),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else one.name,
)
def test_what_can_be_tried_again_looks_like_it(error: Exception, status: Status) -> None:
    assert ingest._status_of(error) is status


def test_a_bug_is_not_told_to_the_client() -> None:
    assert "secret" not in ingest._reason_of(ValueError("secret"))
