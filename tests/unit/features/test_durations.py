"""Durations: texts with a unit, and milliseconds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.features.durations import DURATION_MS, duration_ms, duration_text


@pytest.mark.parametrize(
    ("text", "ms"),
    [("1ms", 1), ("2s", 2000), ("30m", 1_800_000), ("1h", 3_600_000), ("3650d", DURATION_MS[1])],
)
def test_a_duration_is_a_number_and_a_unit(text: str, ms: int) -> None:
    assert duration_ms(text) == ms
    assert duration_text(ms) == text


def test_a_number_is_in_milliseconds() -> None:
    assert duration_ms(1500) == 1500


@pytest.mark.parametrize(
    "value", ["", "5", "m", "1 h", "1.5h", "-1s", "1H", "1w", "٣s", "1h\n", None, 1.5, True, ["1h"]]
)
def test_anything_else_is_refused_with_an_example(value: object) -> None:
    with pytest.raises(InvalidArgument, match='"30m"'):
        duration_ms(value, "window")


@pytest.mark.parametrize("value", ["0s", 0, -1, "3651d", "9" * 18 + "d", 1 << 70])
def test_a_duration_is_between_a_millisecond_and_ten_years(value: object) -> None:
    with pytest.raises(InvalidArgument, match="expected 1ms to 3650d"):
        duration_ms(value)


@settings(max_examples=20)
@given(st.integers(*DURATION_MS))
def test_a_duration_survives_its_text(ms: int) -> None:
    assert duration_ms(duration_text(ms)) == ms
