"""Where frames end, and what proves them."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.spark import chunks
from penstock.spark.chunks import Chunk, Chunks
from penstock.spark.encoding import Rows
from penstock.topics.idempotency import Producers


class Places:
    """Stands for an Arrow array of row numbers."""

    def __init__(self, numbers: list[int]) -> None:
        self._numbers = numbers

    def __getitem__(self, row: int) -> Places:
        return Places([self._numbers[row]])

    def as_py(self) -> int:
        return self._numbers[0]


def rows(topic: str, texts: list[bytes], indices: list[int]) -> Rows:
    ends = array("q", [0])
    for text in texts:
        ends.append(ends[-1] + len(text))
    return Rows(topic, memoryview(b"".join(texts)), memoryview(ends), Places(indices))


def batch(part: list[tuple[str, bytes]]) -> list[Rows]:
    """As rows of a DataFrame arrive, topic by topic."""
    found = []
    for topic in dict.fromkeys(topic for topic, _ in part):
        indices = [at for at, (name, _) in enumerate(part) if name == topic]
        found.append(rows(topic, [part[at][1] for at in indices], indices))
    return found


def cut(parts: list[list[tuple[str, bytes]]]) -> list[Chunk]:
    made = Chunks()
    return [c for part in parts for c in made.add(batch(part))] + made.rest()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "ROWS_MAX", 3)
    monkeypatch.setattr(chunks, "BYTES_MAX", 10)


ROW = st.tuples(st.sampled_from("abc"), st.binary(min_size=1, max_size=14))


@given(st.lists(st.lists(ROW, max_size=7), max_size=5))
def test_frames_depend_on_the_rows_and_not_on_the_batches(
    parts: list[list[tuple[str, bytes]]],
) -> None:
    whole = [row for part in parts for row in part]

    found = cut(parts)

    assert found == cut([whole]) == cut([[row] for row in whole])
    for topic in "abc":
        of = [chunk for chunk in found if chunk.topic == topic]
        assert b"".join(c.rows for c in of) == b"".join(t for name, t in whole if name == topic)
        assert sum(c.count for c in of) == sum(name == topic for name, _ in whole)
        assert [c.proof[-1] for c in of] == [0] * (len(of) - 1) + [1] * bool(of)
        assert all(0 < c.count <= 3 and (len(c.rows) <= 10 or c.count == 1) for c in of)


@given(st.lists(st.binary(min_size=1, max_size=6), min_size=1), st.data())
def test_other_rows_are_never_taken_for_those_that_are_there(
    texts: list[bytes], data: st.DataObject
) -> None:
    """Whatever part of a partition was taken before: the same rows pass, others do not unless
    nothing of them would be dropped."""
    whole = [("a", text) for text in texts]
    first = cut([whole])
    known = Producers()
    taken = data.draw(st.integers(1, len(first)))
    for place, chunk in enumerate(first[:taken]):
        known.note(b"p" * 16, place, chunk.proof)
    other = cut([data.draw(st.just(whole) | st.lists(ROW.map(lambda r: ("a", r[1]))))])

    try:
        found = [known.has(b"p" * 16, at, chunk.proof) for at, chunk in enumerate(other)]
    except InvalidArgument:
        assert other != first
        return

    dropped = [chunk for chunk, is_known in zip(other, found, strict=True) if is_known]
    assert dropped == first[: len(dropped)]


def test_a_partition_for_too_many_topics_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "TOPICS_MAX", 2)

    with pytest.raises(InvalidArgument, match="repartition"):
        cut([[("a", b"1"), ("b", b"1"), ("c", b"1")]])
