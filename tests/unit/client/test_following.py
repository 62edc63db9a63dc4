"""A place in a topic that moves."""

from __future__ import annotations

import json
from typing import Any

from penstock.client.following import POLL_S, Follower
from penstock.types import Gap, Page, Record


def follower(**changed: Any) -> Follower:
    given: dict[str, Any] = {"after": 3, "from_ts": None, "node": None, "tag": "x*"}
    given |= {"timeout_s": None, "now": 0.0, **changed}
    return Follower("t", **given)


def asked(one: Follower, now: float = 0.0) -> Any:
    return json.loads(one.call(now).body)


def page(*seqs: int, gap: Gap | None = None, epoch: int = 4) -> Page:
    last = seqs[-1] if seqs else 9
    return Page([Record(seq=seq) for seq in seqs], gap, last, last, 1, True, epoch)


def test_it_asks_from_its_place_on_and_waits() -> None:
    assert asked(follower()) == {
        "from_seq": 3,
        "limit": 1000,
        "tag": "x*",
        "wait_ms": round(POLL_S * 1000),
    }


def test_it_goes_on_past_what_it_took_and_knows_the_epoch() -> None:
    one = follower()
    gap = Gap(4, 5, "cap", 2, 6, 7)

    assert one.advance(page(6, 7, gap=gap)) == [gap, Record(seq=6), Record(seq=7)]
    assert asked(one)["from_seq"] == 7
    assert asked(one)["epoch"] == 4


def test_records_that_were_passed_over_move_the_place_too() -> None:
    one = follower()

    assert one.advance(page()) == []
    assert asked(one)["from_seq"] == 9


def test_a_time_is_only_for_the_first_page() -> None:
    one = follower(from_ts=1000)

    assert asked(one)["from_ts"] == 1000
    one.advance(page(8))
    assert "from_ts" not in asked(one)
    assert asked(one)["from_seq"] == 8


def test_it_waits_no_longer_than_its_own_patience() -> None:
    one = follower(timeout_s=5.0, now=100.0)

    assert asked(one, 100.0)["wait_ms"] == 5000
    assert asked(one, 104.0)["wait_ms"] == 1000
    assert "wait_ms" not in asked(one, 106.0)


def test_patience_begins_anew_when_everything_was_dealt_with() -> None:
    one = follower(timeout_s=5.0, now=0.0)

    one.advance(page(4))
    one.restart_timeout(now=50.0)

    assert not one.is_idle(54.9)
    assert one.is_idle(55.0)
    assert not follower().is_idle(1e9)


def test_failures_are_counted_until_something_came() -> None:
    one = follower()

    assert [one.record_failure(), one.record_failure()] == [1, 2]
    assert not one.has_begun
    one.advance(page(4))
    assert one.has_begun
    assert one.record_failure() == 1
