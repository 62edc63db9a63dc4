"""A figure meets its goal or misses it, and its line says which."""

from __future__ import annotations

import math

import pytest

from penstock.cli.figure import Figure, row


@pytest.mark.parametrize(
    ("figure", "holds", "shown"),
    [
        (Figure("a", 2_000, "records/s", goal=1_000), True, "goal ≥ 1,000.0 ok"),
        (Figure("a", 10, "records/s", goal=1_000), False, "goal ≥ 1,000.0 below"),
        (Figure("a", 2, "times", goal=0.75, at_most=True), False, "goal ≤ 0.75 above"),
        (Figure("a", 0.5, "ms"), None, "0.500 ms"),
        (Figure("a", math.nan, "times", "not installed", goal=1), None, "–"),
    ],
)
def test_a_figure_says_whether_it_meets_its_goal(
    figure: Figure, holds: bool | None, shown: str
) -> None:
    assert figure.holds is holds
    assert shown in " ".join(row(figure).split())
    assert row(figure).endswith(figure.note)
