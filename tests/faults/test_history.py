"""The history checker notices each thing that it is there for, and nothing else."""

from __future__ import annotations

import pytest

from tests.support.history import History

FINAL = "final"


def read(history: History, reader: str, *records: tuple[int, tuple[str, int]]) -> None:
    for seq, value in records:
        history.delivered(reader, "t", seq, value)


def acked(history: History, producer: str, seq: int, count: int = 1) -> None:
    write = history.begin(producer, "t", count)
    write.attempts = 1
    history.acked(write, seq, seq + count - 1, deduped=False)


def kinds(history: History) -> set[str]:
    return {anomaly.partition(":")[0] for anomaly in history.judge(FINAL)}


@pytest.fixture
def history() -> History:
    """Two acknowledged batches, a1 and a2 at 1..2, b1 at 3."""
    history = History()
    acked(history, "a", 1, count=2)
    acked(history, "b", 3)
    return history


def test_a_proper_history_is_proper(history: History) -> None:
    history.begin("c", "t", 2)  # unknown, and it did not happen
    read(history, "r", (1, ("a", 1)), (2, ("a", 2)))
    read(history, FINAL, (1, ("a", 1)), (2, ("a", 2)), (3, ("b", 1)))

    assert kinds(history) == set()


def test_a_record_that_is_gone_is_lost(history: History) -> None:
    read(history, FINAL, (1, ("a", 1)), (2, ("a", 2)))
    history.gap(FINAL, "t", 3, 3, "lost")

    assert kinds(history) == {"lost"}


def test_a_record_that_retention_took_is_not_lost(history: History) -> None:
    read(history, "r", (1, ("a", 1)))
    history.gap(FINAL, "t", 1, 2, "cap")
    read(history, FINAL, (3, ("b", 1)))

    assert kinds(history) == set()


def test_a_record_that_is_there_twice_is_duplicated(history: History) -> None:
    read(history, FINAL, (1, ("a", 1)), (2, ("a", 2)), (3, ("b", 1)), (4, ("b", 1)))

    assert "duplicated" in kinds(history)


def test_a_record_nobody_wrote_is_invented(history: History) -> None:
    read(history, FINAL, (1, ("a", 1)), (2, ("a", 2)), (3, ("b", 1)), (4, ("b", 9)))

    assert kinds(history) == {"invented"}


def test_a_producers_records_out_of_order_are_reordered() -> None:
    history = History()
    history.begin("a", "t", 1)
    history.begin("a", "t", 1)
    read(history, FINAL, (1, ("a", 2)), (2, ("a", 1)))

    assert kinds(history) == {"reordered"}


def test_half_a_batch_is_torn() -> None:
    history = History()
    history.begin("a", "t", 2)
    read(history, FINAL, (1, ("a", 2)))

    assert kinds(history) == {"torn"}


def test_half_a_group_is_torn() -> None:
    history = History()
    history.together([history.begin("a", "t", 1), history.begin("a", "u", 1)])
    read(history, FINAL, (1, ("a", 1)))

    assert kinds(history) == {"torn"}


def test_what_was_read_and_is_no_more_was_dirty(history: History) -> None:
    history.begin("c", "t", 1)
    read(history, "r", (1, ("a", 1)), (2, ("a", 2)), (3, ("b", 1)), (4, ("c", 1)))
    read(history, FINAL, (1, ("a", 1)), (2, ("a", 2)), (3, ("b", 1)))

    assert kinds(history) == {"dirty"}


def test_a_seq_that_changed_hands_was_dirty(history: History) -> None:
    history.begin("c", "t", 1)
    history.begin("d", "t", 1)
    read(history, "r", (1, ("a", 1)), (2, ("a", 2)), (3, ("b", 1)), (4, ("c", 1)))
    read(history, FINAL, (1, ("a", 1)), (2, ("a", 2)), (3, ("b", 1)), (4, ("d", 1)))

    assert kinds(history) == {"dirty"}


def test_a_reader_that_misses_a_record_had_a_silent_gap(history: History) -> None:
    read(history, "r", (1, ("a", 1)), (3, ("b", 1)))
    read(history, FINAL, (1, ("a", 1)), (2, ("a", 2)), (3, ("b", 1)))

    assert kinds(history) == {"silent-gap"}


def test_a_gap_where_a_record_is_is_false(history: History) -> None:
    history.gap("r", "t", 1, 2, "lost")
    read(history, FINAL, (1, ("a", 1)), (2, ("a", 2)), (3, ("b", 1)))

    assert kinds(history) == {"false-gap"}


def test_a_record_delivered_again_is_redelivered(history: History) -> None:
    read(history, "r", (1, ("a", 1)), (1, ("a", 1)))
    read(history, FINAL, (1, ("a", 1)), (2, ("a", 2)), (3, ("b", 1)))

    assert kinds(history) == {"redelivered"}


def test_a_record_elsewhere_than_acknowledged_is_misnumbered(history: History) -> None:
    history.begin("c", "t", 1)
    read(history, FINAL, (1, ("a", 1)), (2, ("a", 2)), (3, ("c", 1)), (4, ("b", 1)))

    assert kinds(history) == {"misnumbered"}


@pytest.mark.parametrize(
    ("first", "deduped", "kind"), [(2, False, "duplicated"), (2, True, "misnumbered")]
)
def test_a_repetition_must_get_the_first_answer(first: int, deduped: bool, kind: str) -> None:
    history = History()
    write = history.begin("a", "t", 1, "key")
    write.attempts = 2
    history.acked(write, 1, 1, deduped=False)

    history.acked(write, first, first, deduped=deduped)

    assert history.anomalies[0].startswith(kind)


def test_a_first_attempt_is_no_repetition() -> None:
    history = History()
    write = history.begin("a", "t", 1, "key")
    write.attempts = 1

    history.acked(write, 1, 1, deduped=True)

    assert history.anomalies[0].startswith("misnumbered")


def test_a_head_below_an_earlier_answer_is_stale(history: History) -> None:
    history.head_seen("r", "t", history.heads["t"], 2)

    assert history.anomalies[0].startswith("stale")


def test_who_has_not_come_to_the_end_is_behind(history: History) -> None:
    read(history, "r", (1, ("a", 1)))

    assert history.behind(["r"], {"t": 3}) == ["r is at 1 of 3 in t"]
    assert history.behind(["r"], {"t": 1}) == []
