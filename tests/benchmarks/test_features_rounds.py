"""Medians of rounds, their ranges, and what a failed round makes of a figure."""

from __future__ import annotations

import math
from pathlib import Path

from benchmarks.features_rounds import (
    alternate,
    rate_figure,
    ratio_figure,
    spread_figure,
    wait_figure,
)
from benchmarks.load_cpu import Cores
from benchmarks.load_job import Load
from benchmarks.server_stand import Stand

LOADS = [Load(answers=count, seconds=1.0, p50_ms=count) for count in (1, 9, 2)]
FAILED = [*LOADS[:2], Load(failure="it broke")]


def test_all_are_measured_in_a_round_before_the_next_round(tmp_path: Path) -> None:
    asked: list[tuple[str, int]] = []

    def measure(name: str) -> Load:
        asked.append((name, len(asked)))
        return Load(answers=len(asked))

    stand = Stand(str(tmp_path), 1, Cores(set()), rounds=2)
    one, other = alternate(stand, [lambda number: measure("a"), lambda number: measure("b")])

    assert [name for name, _ in asked] == ["a", "b", "a", "b"]
    assert [load.answers for load in one] == [1, 3]
    assert [load.answers for load in other] == [2, 4]


def test_the_median_counts_and_the_range_is_told() -> None:
    rate, wait = rate_figure("push", LOADS, 1_000), wait_figure("get", LOADS)

    assert (rate.value, wait.value) == (2_000, 2)
    assert rate.note.startswith("1,000 to 9,000; ")
    assert wait.note.startswith("1.000 to 9.000")


def test_a_ratio_is_the_median_of_the_ratios_of_rounds() -> None:
    twice = [Load(answers=2 * load.answers, seconds=1.0) for load in LOADS]

    figure = ratio_figure("ours by theirs", twice, LOADS, 1.5)

    assert (figure.value, figure.holds) == (2, True)
    assert figure.note.startswith("rounds 2.00 to 2.00")


def test_a_failed_round_leaves_no_figure_but_its_reason() -> None:
    for figure in (
        rate_figure("a", FAILED, 1),
        wait_figure("b", FAILED),
        ratio_figure("c", LOADS, FAILED, 1.0),
    ):
        assert math.isnan(figure.value)
        assert figure.note == "it broke"


def test_some_values_have_a_median_and_a_range() -> None:
    figure = spread_figure("memory", [3.0, 1.0, 2.0], "MiB", "after a load", 5, at_most=True)

    assert (figure.value, figure.holds) == (2, True)
    assert figure.note == "1.00 to 3.00; after a load"
