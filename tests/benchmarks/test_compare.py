"""Two trees are measured alternately, and the medians of their rates are compared."""

from __future__ import annotations

import pytest

from benchmarks.compare import Comparison, chosen, compare, new_report, row, tail_lines
from benchmarks.compare_parts import PARTS, Part
from benchmarks.load_job import Load
from benchmarks.server_stand import Stand
from benchmarks.source_tree import SourceTree
from penstock.errors import InvalidArgument


def never(stand: Stand, tree: SourceTree) -> Load:
    raise AssertionError("measured by somebody else")


PART = Part("ten", "records/s", 10, "ten records an answer", never)


def load(answers: int, cores: float = 0.5) -> Load:
    return Load(answers=answers, seconds=1.0, server_cores=cores, others_cores=0.1)


class Trees:
    """Both trees answer from a list; the order in which they are asked is recorded."""

    def __init__(self, base: list[Load], head: list[Load]) -> None:
        self._loads = {"base": iter(base), "head": iter(head)}
        self.order: list[str] = []

    def base(self) -> Load:
        return self._next("base")

    def head(self) -> Load:
        return self._next("head")

    def _next(self, side: str) -> Load:
        self.order.append(side)
        return next(self._loads[side])


def test_the_order_changes_from_round_to_round() -> None:
    trees = Trees([load(1)] * 3, [load(1)] * 3)

    compare(PART, 3, trees.base, trees.head)

    assert trees.order == ["base", "head", "head", "base", "base", "head"]


def test_the_medians_are_compared_and_each_round_is_told() -> None:
    trees = Trees([load(100), load(10), load(120)], [load(300, 0.3), load(220), load(150)])

    found = compare(PART, 3, trees.base, trees.head)

    assert (found.base, found.head, found.ratio) == (1_000, 2_200, 2.2)
    assert found.ratios == [3.0, 22.0, 1.25]
    assert "ratio  2.20 (1.25 to 22.00)" in row(found)


def test_cpu_times_are_of_a_record_and_a_lower_one_is_a_ratio_above_one() -> None:
    trees = Trees([load(100, 1.0)], [load(100, 0.5)])

    found = compare(PART, 1, trees.base, trees.head)

    assert (found.base_cpu_us, found.head_cpu_us) == pytest.approx((1_000, 500))
    assert found.cpu_ratio == pytest.approx(2.0)


@pytest.mark.parametrize("failed", [Load(failure="no\nserver"), Load(seconds=1.0)])
def test_a_failure_ends_the_part_and_is_told(failed: Load) -> None:
    trees = Trees([load(1)] * 2, [failed])

    found = compare(PART, 2, trees.base, trees.head)

    assert found.failure in ("no server", "no answer in the time given")
    assert trees.order == ["base", "head"]
    assert found.failure in row(found)


@pytest.mark.parametrize(("others", "lines"), [(0.1, 0), (1.5, 1)])
def test_a_run_beside_other_work_is_called_disturbed(others: float, lines: int) -> None:
    tree = SourceTree("HEAD", "a commit", "folder", "compiled")
    report = new_report(tree, tree, disk="ext4", command="compare", rounds=1, seconds=1)
    report.comparisons.append(Comparison("post", "", "records/s", others_cores=others))

    assert len(list(tail_lines(report))) == lines


def test_parts_are_chosen_by_name() -> None:
    assert [part.name for part in chosen("actors, post")] == ["actors", "post"]
    assert [part.name for part in chosen("")] == list(PARTS)
    with pytest.raises(InvalidArgument, match="unknown part 'pots': expected some of post"):
        chosen("post,pots")
