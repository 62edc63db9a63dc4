"""Windows: which bucket an event belongs to, and which buckets count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.features.windows import FOREVER, Window, hopping, sliding, tumbling, window_of

HOUR = 3_600_000
WINDOWS = st.one_of(
    st.integers(1, 10 * HOUR).map(sliding),
    st.integers(1, 10 * HOUR).map(tumbling),
    st.tuples(st.integers(1, HOUR), st.integers(1, 64)).map(lambda w: hopping(w[0] * w[1], w[0])),
)
TIMES = st.integers(-(1 << 60), 1 << 60)


def counts(window: Window, start: int, now: int) -> bool:
    """The rules as they are promised, one bucket at a time."""
    length, width = window.length_ms, window.bucket_ms
    match window.kind:
        case "sliding":
            return now - length < start <= now
        case "tumbling":
            return start == now // length * length
        case _:
            return now // width * width + width - length <= start <= now


@settings(max_examples=20)
@given(WINDOWS, TIMES)
def test_exactly_the_buckets_of_the_rule_are_live(window: Window, now: int) -> None:
    live = list(window.live(now))
    last = now // window.bucket_ms
    nearby = [n * window.bucket_ms for n in range(last - 70, last + 3)]

    assert live == [start for start in nearby if counts(window, start, now)]
    assert len(live) <= window.buckets_max <= 64
    assert window.first_live_start(now) == live[0]


@settings(max_examples=20)
@given(WINDOWS, st.lists(TIMES, max_size=5))
def test_the_vector_agrees_with_the_single_event(window: Window, times: list[int]) -> None:
    starts = window.buckets_of(np.array(times, np.int64))

    assert starts.dtype == np.int64
    assert starts.tolist() == [window.bucket_of(ts) for ts in times]


@settings(max_examples=20)
@given(WINDOWS, TIMES)
def test_an_event_counts_at_its_own_time_and_not_one_length_later(window: Window, ts: int) -> None:
    start = window.bucket_of(ts)

    assert start <= ts < start + window.bucket_ms
    assert start in window.live(ts)
    assert start not in window.live(ts + window.length_ms)


def test_a_sliding_window_has_at_most_64_buckets() -> None:
    assert sliding("1h") == Window("sliding", HOUR, 56_250)
    assert sliding("10ms") == Window("sliding", 10, 1)
    assert sliding("65ms").buckets_max == 33


def test_forever_is_one_bucket() -> None:
    assert FOREVER.bucket_of(-5) == 0
    assert FOREVER.buckets_of(np.array([1, 2])).tolist() == [0, 0]
    assert list(FOREVER.live(7)) == [0]
    assert FOREVER.is_forever
    assert not sliding(1).is_forever


@pytest.mark.parametrize(
    ("value", "window"),
    [
        (None, FOREVER),
        ("forever", FOREVER),
        ("30m", sliding("30m")),
        (1000, sliding("1s")),
        ({"tumbling": "1h"}, tumbling(HOUR)),
        ({"hopping": "1h", "every": "5m"}, hopping("1h", "5m")),
    ],
)
def test_a_window_survives_its_json(value: Any, window: Window) -> None:
    assert window_of(value) == window
    assert window_of(window.to_json()) == window


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("1w", '"30m"'),
        ({"tumbling": "1h", "every": "5m"}, "expected"),
        ({"tumblin": "1h"}, "did you mean 'tumbling'"),
        ({"hopping": "1h"}, "expected"),
        ({}, "expected"),
        ({"hopping": "1h", "every": "7m"}, "multiple"),
        ({"hopping": "65s", "every": "1s"}, "at most 64"),
        ({"hopping": "1s", "every": "1h"}, "multiple"),
        ("4000d", "3650d"),
        ([], "expected"),
    ],
)
def test_a_bad_window_is_refused(value: object, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        window_of(value)
