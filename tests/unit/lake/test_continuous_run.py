from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from pyspark.errors import PySparkException

from penstock.errors import ConnectionFailed, CorruptFrame, PenstockError, TopicNotFound
from penstock.lake.continuous_run import PAUSE_MAX_S, run_until_stopped

AWAY = ConnectionFailed("nobody answered", retry_after_ms=100)


class Pauses:
    """Says stop after so many of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.seconds: list[float] = []

    def wait(self, timeout: float) -> bool:
        self.seconds.append(timeout)
        return len(self.seconds) == self._most


def rounds(outcomes: Iterable[Exception | None]) -> Callable[[], None]:
    held = iter(outcomes)

    def work() -> None:
        error = next(held)
        if error is not None:
            raise error

    return work


def followed(*outcomes: Exception | None) -> tuple[list[float], list[str]]:
    pauses, notes = Pauses(len(outcomes)), list[str]()
    run_until_stopped(rounds(outcomes), pauses, interval_s=10.0, path="/lake", report=notes.append)
    return pauses.seconds, notes


def test_rounds_follow_each_other_until_the_word_comes() -> None:
    assert followed(None, None, None) == ([10.0, 10.0, 10.0], [])


def test_what_passes_is_waited_for_longer_and_longer() -> None:
    seconds, notes = followed(None, AWAY, AWAY, AWAY, None, AWAY)

    assert seconds == [10.0, 1.0, 2.0, 4.0, 10.0, 1.0]
    assert len(notes) == 4
    assert notes[0] == f"{AWAY}; the next run starts in 1 s"


def test_a_pause_has_an_end() -> None:
    seconds, _ = followed(*[AWAY] * 40)

    assert max(seconds) == PAUSE_MAX_S


def test_a_topic_that_goes_while_it_is_read_is_seen_by_the_next_round() -> None:
    wrapped = PySparkException("x\npenstock.errors.TopicNotFound: no topic named 'a'\n")

    seconds, notes = followed(wrapped, None)

    assert seconds == [1.0, 10.0]
    assert notes == ["no topic named 'a'; the next run starts in 1 s"]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (TopicNotFound("a"), "no topic named 'a'"),
        (CorruptFrame("/d", reason="checksum differs"), "/d: checksum differs"),
        (PySparkException("[UNRESOLVED_COLUMN] x"), "/lake: Spark failed: [UNRESOLVED_COLUMN] x"),
    ],
)
def test_any_other_error_ends_it(error: Exception, says: str) -> None:
    with pytest.raises(PenstockError) as caught:
        followed(None, error, None)

    assert str(caught.value) == says
