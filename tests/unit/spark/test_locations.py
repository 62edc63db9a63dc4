"""What all places share: where batches end, and how work is divided."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.directory.slices import Sealed, Slice
from penstock.spark import locations
from penstock.spark.bounds import Bounds
from penstock.spark.locations import Plan, ReadableRange
from penstock.spark.offsets import StreamOffset
from penstock.spark.options import SourceOptions
from penstock.spark.partitioning import SeqRange
from penstock.spark.shape import Shape
from penstock.spark.tasks import RemoteRange, Work
from penstock.storage.segments.format import SegmentFacts

SHAPE = Shape(pa.schema([]), pa.schema([]))


def part_of(first: int, size: int, sealed: Sealed | None = None) -> Slice:
    return Slice("/data", "t", 5, first, first + 9, 10, size, sealed)


def test_a_batch_ends_where_the_options_say() -> None:
    options = SourceOptions(
        topics=("a", "b", "c*"),
        ending_seq=7,
        ending_offsets={"b": StreamOffset(5, 3), "c1": StreamOffset(6, 2), "z": StreamOffset(1, 1)},
    )
    heads = {"a": StreamOffset(4, 9), "b": StreamOffset(5, 9)}

    assert locations.ends(heads, options) == {
        "a": StreamOffset(4, 7),
        "b": StreamOffset(5, 3),
        "c1": StreamOffset(6, 2),
    }


@given(st.dictionaries(st.text(max_size=3), st.integers(1, 1000), max_size=5), st.integers(0, 2000))
def test_a_budget_is_shared_and_nobody_starves(waiting: dict[str, int], budget: int) -> None:
    shares = locations.shared(waiting, budget)

    assert set(shares) == set(waiting)
    assert all(1 <= shares[name] <= waiting[name] for name in waiting)
    if budget:
        assert sum(shares.values()) <= max(budget, 0) + len(waiting)
    else:
        assert shares == waiting


def test_sealed_records_are_spread_and_the_newest_are_for_one_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(locations, "_CORES", 2)
    facts = SegmentFacts(*[0] * len(SegmentFacts.__struct_fields__))
    sealed = Sealed("/data/topics/5", b"", facts, None)
    work = [*(part_of(n * 10, 30 << 20, sealed) for n in range(4)), part_of(100, 5)]
    work.append(part_of(200, 5))

    found = locations.parts(work, SourceOptions(topics=("t",)), Bounds(), SHAPE)

    assert [len(part.work) for part in found] == [2, 2, 2]
    assert [one for part in found for one in part.work] == work


@given(st.lists(st.integers(0, 80 << 20), max_size=30))
def test_work_is_divided_evenly_and_in_order(sizes: list[int]) -> None:
    work = [RemoteRange("t", 5, n, n + 1, size) for n, size in enumerate(sizes)]

    found = locations.parts(work, SourceOptions(topics=("t",)), Bounds(), SHAPE)

    assert [one for part in found for one in part.work] == work
    weights = [sum(one.bytes for one in part.work) for part in found]
    assert max(weights, default=0) <= (64 << 20) + max(sizes, default=0)


def test_ranges_of_a_server_are_tasks_of_their_own() -> None:
    work = [RemoteRange("t", 5, n, n + 1, 6 << 20) for n in range(3)]
    options = SourceOptions(topics=("t",), url="http://h", token="k", on_gap="ignore")

    found = locations.parts(work, options, Bounds(), SHAPE)

    assert sum(len(part.work) for part in found) == 3
    assert {(part.options.url, part.options.token, part.options.on_gap) for part in found} == {
        ("http://h", "k", "ignore")
    }


def test_nothing_to_read_is_no_task() -> None:
    assert locations.parts([], SourceOptions(topics=("t",)), Bounds(), SHAPE) == []


def test_a_piece_is_read_as_far_as_it_can_be() -> None:
    def work(after: int, last: int) -> list[Work]:
        return [RemoteRange("t", 5, after, last, 1)]

    plan = Plan({"t": ReadableRange(10, 20, work)})
    pieces = [
        SeqRange("s", 4, 0, 9),
        SeqRange("t", 5, 0, 12),
        SeqRange("t", 5, 12, 30),
        SeqRange("t", 5, 30, 40),
    ]

    assert plan.of(pieces) == [RemoteRange("t", 5, 10, 12, 1), RemoteRange("t", 5, 12, 20, 1)]
    assert plan.work == [RemoteRange("t", 5, 10, 20, 1)]
