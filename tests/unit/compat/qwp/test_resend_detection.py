"""What clients have heard, as far as it can be known."""

from __future__ import annotations

import pytest

from penstock.compat.qwp import resend_detection as module
from penstock.compat.qwp.resend_detection import Receipts, Told


class Line:
    """A connection, and the time."""

    def __init__(self, receipts: Receipts) -> None:
        self.now_s = 100.0
        self.delivered = 0
        self.told: Told = receipts.open(lambda: self.delivered, lambda: self.now_s)


def heard(receipts: Receipts, digest: bytes = b"a", held: int = 0) -> int:
    """What another connection finds. `held`: so many equal messages has the topic."""
    return receipts.heard(digest, Line(receipts).told, lambda number: number < held)


def test_what_was_not_delivered_was_not_heard() -> None:
    receipts = Receipts()
    line = Line(receipts)
    line.told.add([(b"a", 0)], 20)
    line.delivered = 19
    line.now_s += 1000

    assert heard(receipts) == 0
    line.told.end(is_clean=True)
    line.delivered = 20
    assert heard(receipts) == 0


def test_what_was_delivered_was_heard() -> None:
    receipts = Receipts()
    line = Line(receipts)
    line.told.add([(b"a", 0), (b"a", 1)], 20)
    line.told.add([(b"a", 2), (b"b", 0)], 30)
    line.delivered = 20

    assert heard(receipts) == 2
    line.delivered = 30
    assert heard(receipts) == 3
    assert heard(receipts, b"b") == 1


def test_what_a_connection_sends_says_nothing_about_what_it_has_heard() -> None:
    receipts = Receipts()
    line = Line(receipts)
    line.delivered = 20
    line.told.add([(b"a", 0)], 20)

    assert receipts.heard(b"a", line.told, lambda _: False) == 0
    line.told.end(is_clean=False)
    assert heard(receipts) == 0


@pytest.mark.parametrize(("is_clean", "count"), [(True, 2), (False, 1)])
def test_a_reset_puts_the_last_moments_in_doubt(is_clean: bool, count: int) -> None:
    receipts = Receipts()
    line = Line(receipts)
    line.delivered = 30
    line.told.add([(b"a", 0)], 20)
    line.now_s += 3
    line.told.add([(b"a", 1)], 30)
    line.now_s += 1

    line.told.end(is_clean=is_clean)

    assert heard(receipts) == count


def test_what_is_old_is_confirmed_from_time_to_time() -> None:
    receipts = Receipts()
    line = Line(receipts)
    line.delivered = 20
    line.told.add([(b"a", 0)], 20)
    line.told.confirm_old()
    assert len(line.told._waiting) == 1
    line.now_s += 3

    line.told.confirm_old()

    assert not line.told._waiting
    assert heard(receipts) == 1


def test_what_was_heard_stays_heard() -> None:
    receipts = Receipts()
    line = Line(receipts)
    line.delivered = 30
    line.told.add([(b"a", 4)], 20)
    assert heard(receipts) == 5
    line.told.add([(b"a", 0)], 30)

    assert heard(receipts) == 5


@pytest.mark.parametrize(("held", "count"), [(0, 0), (1, 0), (2, 2), (7, 7)])
def test_of_earlier_ones_a_single_one_may_come_again(held: int, count: int) -> None:
    assert heard(Receipts(), held=held) == count


def test_what_this_server_saw_is_not_taken_for_earlier() -> None:
    """Two are on their way, nobody heard of them yet, and both may come again."""
    receipts = Receipts()
    assert heard(receipts, held=0) == 0

    assert heard(receipts, held=2) == 0


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KNOWN_MAX", 2)
    receipts = Receipts()
    for digest in (b"a", b"b", b"c"):
        heard(receipts, digest)

    assert list(receipts._heard) == [b"b", b"c"]


def test_a_connection_that_is_over_leaves_nothing_behind() -> None:
    receipts = Receipts()
    line = Line(receipts)
    line.told.add([(b"a", 0)], 20)

    line.told.end(is_clean=False)

    assert not receipts._told
