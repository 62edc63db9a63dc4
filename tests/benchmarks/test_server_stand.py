"""Which of several tries counts, and what a figure says when there is none."""

from __future__ import annotations

import math
from pathlib import Path

from benchmarks.load_cpu import Cores
from benchmarks.load_job import Drive, Load
from benchmarks.server_process import Missing
from benchmarks.server_stand import (
    Stand,
    better,
    rate_figure,
    ratio_figure,
    wait_figure,
)

SLOW, FAST = Load(answers=10, seconds=1.0), Load(answers=30, seconds=1.0)
FAILED, UNTRIED = Load(failure="it broke\nin two"), Load(failure="not tried")


def test_the_faster_try_counts_and_any_try_beats_a_failure() -> None:
    assert better(SLOW, FAST) == better(FAST, SLOW) == FAST
    assert better(FAILED, SLOW) == better(SLOW, FAILED) == SLOW
    assert better(UNTRIED, FAILED) == FAILED


def test_of_streams_the_complete_one_counts_then_the_prompt_one() -> None:
    short = Load(answers=9, expected=10, p99_ms=1)
    late = Load(answers=10, expected=10, p99_ms=7)
    prompt = Load(answers=10, expected=10, p99_ms=3)

    assert better(short, late) == late
    assert better(late, prompt) == prompt


def test_a_rate_counts_the_records_of_each_answer() -> None:
    figure = rate_figure("writes", FAST, 100, "in batches", goal=3_000)

    assert (figure.value, figure.holds) == (3_000, True)
    assert figure.note.startswith("in batches; p50")


def test_a_ratio_compares_records_and_not_answers() -> None:
    figure = ratio_figure("ours", (SLOW, 100), (FAST, 1), 2)

    assert math.isclose(figure.value, 1_000 / 30)


def test_a_ratio_has_beside_it_the_same_by_cpu_time() -> None:
    busy = Load(answers=10, seconds=1.0, server_cores=0.5)
    idle = Load(answers=10, seconds=1.0, server_cores=0.1)

    figure = ratio_figure("ours", (busy, 10), (idle, 1), 2)

    assert figure.value == 10
    assert "a record 2.00 times" in figure.note


def test_what_could_not_be_measured_says_why_and_neither_holds_nor_fails() -> None:
    figures = [
        rate_figure("a", FAILED, 1, goal=1),
        ratio_figure("b", (FAST, 1), (FAILED, 1), 2),
        wait_figure("c", FAILED, 5.0, median=True, note=""),
    ]

    for figure in figures:
        assert math.isnan(figure.value)
        assert figure.holds is None
        assert figure.note == "it broke in two"


def test_a_missing_server_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    stand = Stand(str(tmp_path), 0.1, Cores(set()))

    (load,) = stand.compare([(Missing("no such program here"), Drive([b""], 1, 0.1))])

    assert load.failure == "no such program here"
    assert not stand.commands
