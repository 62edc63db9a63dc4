"""A span's running totals against a list that is counted anew each time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.topics.bitmap import pack_indices
from penstock.topics.spans import Span, _gallop
from tests.unit.topics.support import cut, span_of

sizes = st.lists(st.integers(0, 9), min_size=1, max_size=40)
steps = st.lists(
    st.tuples(st.just("cut"), st.integers(0, 45))
    | st.tuples(st.just("kill"), st.sets(st.integers(0, 45)))
    | st.tuples(st.just("skip"), st.none()),
    max_size=12,
)


def alive(span: Span) -> list[int]:
    return [i for i in range(span.start, span.count) if span.dead is None or i not in span.dead]


@given(sizes=sizes, steps=steps)
def test_live_and_bytes_count_exactly_what_is_alive(
    sizes: list[int], steps: list[tuple[str, object]]
) -> None:
    span = span_of(*sizes)
    model = dict(enumerate(sizes))

    for step, what in steps:
        if step == "cut":
            gone = [i for i in model if i < what]
            answer = cut(span, what)
        elif step == "kill":
            gone = [i for i in model if i in what]
            answer = span.kill(pack_indices(gone))
        else:
            span.skip_dead()
            gone, answer = [], (0, 0)
        assert answer == (len(gone), sum(model.pop(i) for i in gone))
        assert alive(span) == list(model)
        assert (span.live, span.bytes) == (len(model), sum(model.values()))

    span.skip_dead()
    assert span.earliest == span.first + min(model, default=span.count)


@given(sizes=sizes, dead=st.sets(st.integers(0, 39)), data=st.data())
def test_index_after_live_passes_exactly_that_many(
    sizes: list[int], dead: set[int], data: st.DataObject
) -> None:
    span = span_of(*sizes)
    span.kill(pack_indices(i for i in sorted(dead) if i < len(sizes)))
    nth = data.draw(st.integers(0, span.live))

    index = span.index_after_live(nth)

    assert len([i for i in alive(span) if i < index]) == nth


@given(sizes=sizes, dead=st.sets(st.integers(0, 39)), data=st.data())
def test_index_after_bytes_is_the_smallest_that_frees_enough(
    sizes: list[int], dead: set[int], data: st.DataObject
) -> None:
    span = span_of(*sizes)
    span.kill(pack_indices(i for i in sorted(dead) if i < len(sizes)))
    excess = data.draw(st.integers(1, max(1, span.bytes)))

    index = span.index_after_bytes(excess)

    def below(end: int) -> int:
        return sum(sizes[i] for i in alive(span) if i < end)

    assert below(index) >= min(excess, span.bytes)
    assert below(index - 1) < excess


@given(
    weights=st.lists(st.integers(0, 5), max_size=60),
    start=st.integers(0, 20),
    need=st.integers(1, 120),
)
def test_galloping_finds_what_a_walk_would(weights: list[int], start: int, need: int) -> None:
    start = min(start, len(weights))
    ends = range(start, len(weights) + 1)
    walked = next((e for e in ends if sum(weights[start:e]) >= need), len(weights))

    found = _gallop(start, len(weights), need, lambda low, high: sum(weights[low:high]))

    assert found == walked


def test_galloping_looks_near_the_front_first() -> None:
    looked: list[tuple[int, int]] = []

    def weigh(low: int, high: int) -> int:
        looked.append((low, high))
        return high - low

    found = _gallop(0, 1_000_000, 3, weigh)

    assert found == 3
    assert max(high for _, high in looked) < 10


def test_a_cut_below_the_start_changes_nothing() -> None:
    span = span_of(1, 2, 3)
    cut(span, 2)

    assert cut(span, 1) == (0, 0)
    assert (span.start, span.live, span.bytes) == (2, 1, 3)


def test_an_untouched_span_keeps_no_bitmap() -> None:
    span = span_of(1, 2, 3)
    span.kill(b"")

    assert span.bits is None
    assert (span.earliest, span.last) == (1, 3)


@given(
    sizes=sizes, dead=st.sets(st.integers(0, 39)), end=st.integers(0, 39), at=st.integers(-3, 45)
)
def test_what_lives_from_an_index_on_is_counted_and_found(
    sizes: list[int], dead: set[int], end: int, at: int
) -> None:
    span = span_of(*sizes)
    span.kill(pack_indices(i for i in sorted(dead) if i < len(sizes)))
    cut(span, end)

    left = [i for i in alive(span) if i >= at]

    assert span.live_from(at) == len(left)
    if left:
        assert span.first_live(at) == left[0]
    else:
        assert span.first_live(at) >= span.count


@given(sizes=sizes, dead=st.sets(st.integers(0, 39)), more=st.sets(st.integers(0, 39)))
def test_the_first_live_index_is_known_before_others_die(
    sizes: list[int], dead: set[int], more: set[int]
) -> None:
    span = span_of(*sizes)
    span.kill(pack_indices(i for i in sorted(dead) if i < len(sizes)))
    dying = [i for i in alive(span) if i in more]

    first = span.first_live_without(dying)

    assert first == min(set(alive(span)) - more, default=span.count)
