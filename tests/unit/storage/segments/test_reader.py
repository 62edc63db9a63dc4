"""A sealed segment: what it gives, and what it does when its files were harmed."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from penstock.codec.projection_options import DATA, FRAMES, TAG
from penstock.errors import CorruptFrame
from penstock.storage.segments.format import SegmentFacts
from penstock.storage.segments.reader import Segment
from penstock.testing import MemoryFilesystem
from penstock.topics.bitmap import indices_of
from penstock.types import TagMatch
from tests.unit.storage.segments.support import (
    DATAS,
    FIRST,
    LOG_ID,
    TAGS,
    draft_of,
    opened,
    written,
)

COUNT = len(DATAS)
NO_LIMIT = 1 << 40


def project(
    segment: Segment, start: int = 0, stop: int = COUNT, dead: bytearray | None = None
) -> tuple[list[int], int]:
    """Seqs delivered, and the index reached."""
    text, delivered, at = segment.project(start, stop, dead, None, 999, NO_LIMIT, DATA | TAG)
    seqs = [record["seq"] for record in json.loads(b"[" + text + b"]")]
    assert len(seqs) == delivered
    return seqs, at


def seq_of(index: int) -> int:
    return FIRST + index


@pytest.fixture
def whole() -> tuple[MemoryFilesystem, SegmentFacts]:
    return written()


@pytest.fixture
def segment(whole: tuple[MemoryFilesystem, SegmentFacts]) -> Segment:
    return opened(*whole)


# Reading.


def test_it_gives_every_record_in_order(segment: Segment) -> None:
    text, delivered, at = segment.project(0, COUNT, None, None, 999, NO_LIMIT, DATA | TAG)

    found = json.loads(b"[" + text + b"]")
    assert (delivered, at) == (COUNT, COUNT)
    assert [record["data"] for record in found] == [int(data) for data in DATAS]
    assert [record.get("tag") for record in found] == TAGS
    assert segment.is_sealed
    assert segment.last_ts == 1005


def test_a_part_of_it_without_the_dead(segment: Segment) -> None:
    assert project(segment, 1, 5, bytearray([0b00001100])) == ([seq_of(1), seq_of(4)], 5)


def test_frames_are_the_bytes_of_the_file_and_only_those_of_the_tag(
    whole: tuple[MemoryFilesystem, SegmentFacts],
) -> None:
    segment = opened(*whole)
    held = whole[0].read(segment.data_path)

    every = segment.project(0, COUNT, None, None, 999, NO_LIMIT, FRAMES)
    some = segment.project(0, COUNT, None, None, 2, NO_LIMIT, TAG, TagMatch(b"a", True))
    one = segment.project(0, COUNT, None, None, 9, NO_LIMIT, FRAMES, TagMatch(b"b", False))

    assert every == (held, COUNT, COUNT)
    assert [record["seq"] for record in json.loads(b"[" + some[0] + b"]")] == [FIRST, seq_of(2)]
    assert some[1:] == (2, 3)
    assert one[1:] == (1, COUNT)
    assert one[0] in held
    assert len(one[0]) < len(held)


def test_a_damaged_frame_is_never_given_away_raw(
    whole: tuple[MemoryFilesystem, SegmentFacts],
) -> None:
    fs, facts = whole
    fs.corrupt(opened(fs, facts).data_path, 20)

    with pytest.raises(CorruptFrame):
        opened(fs, facts).project(0, COUNT, None, None, 9, NO_LIMIT, FRAMES)


def test_times_are_told_by_the_index_alone(whole: tuple[MemoryFilesystem, SegmentFacts]) -> None:
    fs, facts = whole
    fs.unlink(opened(fs, facts).data_path)

    assert [opened(fs, facts).ts_of(index) for index in range(COUNT)] == list(range(1000, 1006))


def test_live_records_and_their_bytes_are_counted_from_the_index_alone(
    whole: tuple[MemoryFilesystem, SegmentFacts],
) -> None:
    fs, facts = whole
    fs.unlink(opened(fs, facts).data_path)
    segment = opened(fs, facts)

    assert segment.measure(1, 4, bytearray([0b100])) == (2, len(DATAS[1]) + len(DATAS[3]))
    assert segment.measure_some(b"\0\0\0\0\5\0\0\0") == len(DATAS[0]) + len(DATAS[5])


def test_tags_are_found_by_value_and_by_prefix(segment: Segment) -> None:
    def find(value: bytes, *, is_prefix: bool, dead: bytearray | None = None) -> list[int]:
        return list(indices_of(segment.find_tags(0, COUNT, dead, value, is_prefix=is_prefix)))

    assert find(b"a", is_prefix=False) == [0, 4]
    assert find(b"a", is_prefix=True) == [0, 2, 4]
    assert find(b"a", is_prefix=True, dead=bytearray([1])) == [2, 4]
    assert find(b"", is_prefix=True) == [0, 2, 3, 4]
    assert find(b"x", is_prefix=True) == []


def test_time_is_found_by_its_index(segment: Segment) -> None:
    assert [segment.older_than(0, COUNT, ts) for ts in (0, 1000, 1003, 9999)] == [0, 0, 3, COUNT]
    assert segment.older_than(4, COUNT, 1002) == 4


def test_a_copy_for_a_rewrite_holds_only_the_living(segment: Segment) -> None:
    frames, rows = segment.copy_live(1, COUNT, bytearray([0b100]), 0)

    assert len(frames) < segment.facts.data_bytes
    assert len(rows) == 24 * (COUNT - 1)


# Damage to what can be rebuilt.


def flip_index(fs: MemoryFilesystem, stem: str) -> None:
    fs.corrupt(f"{stem}.idx", fs.size(f"{stem}.idx") - 20)


def cut_index(fs: MemoryFilesystem, stem: str) -> None:
    fs.truncate_at(f"{stem}.idx", 30)


def remove_index(fs: MemoryFilesystem, stem: str) -> None:
    fs.unlink(f"{stem}.idx")


def put_a_strangers_index(fs: MemoryFilesystem, stem: str) -> None:
    other, facts = written(draft_of([b"9"] * COUNT))
    fs.replace(f"{stem}.idx", other.read(f"{opened(other, facts).stem}.idx"))


def flip_tags(fs: MemoryFilesystem, stem: str) -> None:
    fs.corrupt(f"{stem}.tags", 30)


def cut_tags(fs: MemoryFilesystem, stem: str) -> None:
    fs.truncate_at(f"{stem}.tags", 10)


def remove_tags(fs: MemoryFilesystem, stem: str) -> None:
    fs.unlink(f"{stem}.tags")


Harm = Callable[[MemoryFilesystem, str], None]
OF_THE_INDEX = [flip_index, cut_index, remove_index, put_a_strangers_index]
OF_THE_TAGS = [flip_tags, cut_tags, remove_tags]


@pytest.mark.parametrize("harm", OF_THE_INDEX + OF_THE_TAGS, ids=lambda harm: harm.__name__)
def test_derived_files_are_rebuilt_from_the_data(
    whole: tuple[MemoryFilesystem, SegmentFacts], harm: Harm
) -> None:
    fs, facts = whole
    harm(fs, opened(fs, facts).stem)
    segment = opened(fs, facts)

    assert project(segment) == ([seq_of(n) for n in range(COUNT)], COUNT)
    assert segment.measure(0, COUNT, None) == (COUNT, sum(map(len, DATAS)))
    assert list(indices_of(segment.find_tags(0, COUNT, None, b"a", is_prefix=True))) == [0, 2, 4]
    assert segment.older_than(0, COUNT, 1002) == 2
    assert segment.needs_rewrite


@pytest.mark.parametrize("harm", OF_THE_INDEX, ids=lambda harm: harm.__name__)
def test_a_harmed_index_is_told(whole: tuple[MemoryFilesystem, SegmentFacts], harm: Harm) -> None:
    fs, facts = whole
    harm(fs, opened(fs, facts).stem)

    with pytest.raises(ValueError, match="index"):
        opened(fs, facts).check_index()


@pytest.mark.parametrize("harm", OF_THE_TAGS, ids=lambda harm: harm.__name__)
def test_a_harmed_sidecar_is_told(whole: tuple[MemoryFilesystem, SegmentFacts], harm: Harm) -> None:
    fs, facts = whole
    harm(fs, opened(fs, facts).stem)

    with pytest.raises(ValueError, match="tag sidecar"):
        opened(fs, facts).check_tags()


def test_an_index_of_another_log_is_not_believed(
    whole: tuple[MemoryFilesystem, SegmentFacts],
) -> None:
    fs, facts = whole
    segment = opened(fs, facts)
    segment._log_id = LOG_ID[::-1]

    with pytest.raises(ValueError, match="another segment"):
        segment.check_index()


def test_dead_records_stay_absent_when_the_index_is_rebuilt() -> None:
    fs, facts = written(draft_of(dead=(0, 3)))
    remove_index(fs, opened(fs, facts).stem)
    segment = opened(fs, facts)

    assert segment.measure(0, COUNT, None)[0] == COUNT - 2
    assert project(segment, dead=bytearray([0b1001]))[0] == [seq_of(n) for n in (1, 2, 4, 5)]


# Damage to the data itself.


def harmed(facts: SegmentFacts, fs: MemoryFilesystem, index: int) -> tuple[Segment, int]:
    """The segment with one record flipped, and where that record begins."""
    row = bytes(opened(fs, facts).entries()[index * 24 : index * 24 + 4])
    offset = int.from_bytes(row, "little")
    fs.corrupt(opened(fs, facts).data_path, offset + 25)
    return opened(fs, facts), offset


@pytest.mark.parametrize("index", range(COUNT))
def test_a_damaged_record_is_refused_with_path_and_offset(
    whole: tuple[MemoryFilesystem, SegmentFacts], index: int
) -> None:
    segment, offset = harmed(whole[1], whole[0], index)

    with pytest.raises(CorruptFrame, match=f"seq {seq_of(index)}") as caught:
        project(segment, start=index)

    assert (caught.value.path, caught.value.offset) == (segment.data_path, offset)
    assert "repair" in caught.value.hint


def test_what_lies_before_the_damage_is_delivered_first(
    whole: tuple[MemoryFilesystem, SegmentFacts],
) -> None:
    segment, _ = harmed(whole[1], whole[0], 3)

    assert project(segment) == ([seq_of(0), seq_of(1), seq_of(2)], 3)


def test_a_damaged_record_that_is_dead_harms_nobody(
    whole: tuple[MemoryFilesystem, SegmentFacts],
) -> None:
    segment, _ = harmed(whole[1], whole[0], 3)

    assert project(segment, dead=bytearray([0b1000]))[1] == COUNT
    assert segment.unreadable(0, COUNT, bytearray([0b1000])) == []


@pytest.mark.parametrize("index", range(COUNT))
@pytest.mark.parametrize("with_index", [True, False])
def test_exactly_the_damaged_record_is_unreadable(
    whole: tuple[MemoryFilesystem, SegmentFacts], index: int, with_index: bool
) -> None:
    fs, facts = whole
    segment, _ = harmed(facts, fs, index)
    if not with_index:
        remove_index(fs, segment.stem)

    assert segment.unreadable(0, COUNT, None) == [index]


def test_data_that_was_cut_is_unreadable_from_there_on(
    whole: tuple[MemoryFilesystem, SegmentFacts],
) -> None:
    fs, facts = whole
    fs.truncate_at(opened(fs, facts).data_path, facts.data_bytes - 1)

    assert opened(fs, facts).unreadable(0, COUNT, None) == [COUNT - 1]


def test_data_that_is_gone_is_unreadable_but_for_the_dead(
    whole: tuple[MemoryFilesystem, SegmentFacts],
) -> None:
    fs, facts = whole
    fs.unlink(opened(fs, facts).data_path)
    segment = opened(fs, facts)

    assert segment.unreadable(1, 5, bytearray([0b100])) == [1, 3, 4]
    with pytest.raises(CorruptFrame, match="missing"):
        project(segment)


def test_data_and_index_gone_together_are_reported_and_not_passed_over(
    whole: tuple[MemoryFilesystem, SegmentFacts],
) -> None:
    fs, facts = whole
    fs.unlink(opened(fs, facts).data_path)
    remove_index(fs, opened(fs, facts).stem)
    segment = opened(fs, facts)

    assert segment.unreadable(0, COUNT, None) == list(range(COUNT))


def test_damage_is_never_copied_into_a_rewrite(
    whole: tuple[MemoryFilesystem, SegmentFacts],
) -> None:
    segment, _ = harmed(whole[1], whole[0], 2)

    with pytest.raises(CorruptFrame):
        segment.copy_live(0, COUNT, None, 0)


def test_a_frame_of_another_topic_in_its_place_is_damage(
    whole: tuple[MemoryFilesystem, SegmentFacts],
) -> None:
    fs, facts = whole
    other = Segment(fs, opened(fs, facts)._maps, "/data/topics/00000007", 8, LOG_ID, facts)

    with pytest.raises(CorruptFrame):
        project(other)


def test_a_file_cut_while_it_was_mapped_is_looked_at_again(
    whole: tuple[MemoryFilesystem, SegmentFacts],
) -> None:
    fs, facts = whole
    segment = opened(fs, facts)
    project(segment)

    fs.truncate_at(segment.data_path, 10)

    with pytest.raises(CorruptFrame):
        project(segment)
