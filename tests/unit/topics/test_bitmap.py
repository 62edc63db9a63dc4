"""A bitmap against what it stands for: a set of integers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.topics.bitmap import Bitmap, indices_of, pack_indices

# Dense and sparse ones: runs of full bytes are where a bitmap takes its short cuts.
members = st.sets(st.integers(0, 200)) | st.integers(0, 200).map(lambda n: set(range(n)))
bounds = st.integers(0, 220)


def bitmap_of(numbers: set[int]) -> Bitmap:
    bitmap = Bitmap()
    bitmap.add_all(sorted(numbers))
    return bitmap


@given(numbers=members)
def test_it_contains_what_was_added_and_nothing_else(numbers: set[int]) -> None:
    bitmap = bitmap_of(numbers)

    assert {n for n in range(300) if n in bitmap} == numbers


@given(numbers=st.lists(st.integers(0, 40)))
def test_adding_tells_whether_it_was_new(numbers: list[int]) -> None:
    bitmap = Bitmap()
    seen: set[int] = set()

    for number in numbers:
        assert bitmap.add(number) == (number not in seen)
        seen.add(number)


@given(numbers=members, start=bounds, stop=bounds)
def test_count_is_that_of_the_slice(numbers: set[int], start: int, stop: int) -> None:
    assert bitmap_of(numbers).count(start, stop) == len(numbers & set(range(start, stop)))


@given(numbers=members, start=bounds, length=bounds)
def test_first_clear_is_the_lowest_hole(numbers: set[int], start: int, length: int) -> None:
    stop = start + length
    holes = [n for n in range(start, stop) if n not in numbers]

    assert bitmap_of(numbers).first_clear(start, stop) == (holes[0] if holes else stop)


@given(numbers=members, start=bounds, length=bounds)
def test_first_set_is_the_lowest_member(numbers: set[int], start: int, length: int) -> None:
    found = sorted(n for n in numbers if start <= n < start + length)

    assert bitmap_of(numbers).first_set(start, start + length) == [*found, start + length][0]


@given(numbers=members, start=bounds, length=bounds)
def test_neighbours_are_added_in_one_go(numbers: set[int], start: int, length: int) -> None:
    bitmap = bitmap_of(numbers)

    bitmap.add_all(range(start, start + length))

    assert {n for n in range(600) if n in bitmap} == numbers | set(range(start, start + length))


@given(numbers=members, start=bounds, length=bounds, nth=st.integers(1, 230))
def test_nth_clear_ends_just_past_the_nth_hole(
    numbers: set[int], start: int, length: int, nth: int
) -> None:
    stop = start + length
    holes = [n for n in range(start, stop) if n not in numbers]

    found = bitmap_of(numbers).nth_clear(start, stop, nth)

    assert found == (holes[nth - 1] + 1 if nth <= len(holes) else stop)


@given(numbers=members)
def test_its_bytes_are_all_there_is_to_it(numbers: set[int]) -> None:
    bitmap = bitmap_of(numbers)

    copy = Bitmap(bytes(bitmap.bits))
    copy.add(201)

    assert 201 not in bitmap
    assert copy.count(0, 201) == bitmap.count(0, 999) == len(numbers)


@given(numbers=st.lists(st.integers(0, (1 << 32) - 1)))
def test_packed_indices_are_little_endian_and_come_back(numbers: list[int]) -> None:
    packed = pack_indices(numbers)

    assert packed == b"".join(number.to_bytes(4, "little") for number in numbers)
    assert list(indices_of(packed)) == numbers


@given(numbers=members, stop=bounds)
def test_a_copy_may_end_anywhere(numbers: set[int], stop: int) -> None:
    whole = bitmap_of(numbers)

    part = whole.below(stop)

    assert {n for n in range(300) if n in part} == {n for n in numbers if n < stop}
    assert len(part.bits) <= (stop + 7) // 8
    part.add(250)
    assert 250 not in whole
