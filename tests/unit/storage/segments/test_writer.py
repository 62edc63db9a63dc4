from __future__ import annotations

import pytest

from penstock.storage.segments import writer
from penstock.storage.segments.format import decode_index
from penstock.testing import MemoryFilesystem
from tests.unit.storage.segments.support import (
    DATAS,
    DIRECTORY,
    FIRST,
    LOG_ID,
    TAGS,
    about_of,
    draft_of,
    opened,
    written,
)

STEM = f"{DIRECTORY}/seg-{FIRST:016d}"


def test_a_segment_is_three_files() -> None:
    fs, facts = written()
    view, checksum = decode_index(fs.map(f"{STEM}.idx"))

    assert fs.paths() == [f"{STEM}.data", f"{STEM}.idx", f"{STEM}.tags"]
    assert (facts.first, facts.count, facts.records) == (FIRST, len(DATAS), len(DATAS))
    assert facts.data_bytes == view.data_bytes == fs.size(f"{STEM}.data")
    assert facts.tags_bytes == fs.size(f"{STEM}.tags")
    assert facts.index_sum == checksum
    assert (view.about, view.log_id) == (about_of(), LOG_ID)


def test_without_tags_there_is_no_sidecar() -> None:
    fs, facts = written(draft_of(tags=[None] * len(TAGS)))

    assert fs.paths() == [f"{STEM}.data", f"{STEM}.idx"]
    assert facts.tags_bytes == 0


def test_data_may_come_in_parts() -> None:
    draft = draft_of()
    whole = bytes(draft.data[0])
    fs, facts = written(draft)
    pieces = writer.SegmentDraft(
        draft.topic_id,
        draft.first,
        draft.count,
        1,
        [whole[:50], memoryview(whole)[50:]],
        draft.entries,
        draft.tags,
        draft.about,
    )

    again = writer.write(fs, DIRECTORY, LOG_ID, pieces)

    assert again.stem == f"{facts.stem}-1"
    assert fs.read(f"{STEM}-1.data") == fs.read(f"{STEM}.data")


def test_dead_records_leave_an_entry_and_no_bytes() -> None:
    fs, facts = written(draft_of(dead=(1, 4)))

    assert (facts.count, facts.records) == (6, 4)
    assert opened(fs, facts).measure(0, 6, None) == (
        4,
        sum(len(DATAS[at]) for at in (0, 2, 3, 5)),
    )


def test_it_survives_a_power_cut_once_its_directory_is_synced() -> None:
    fs, facts = written()

    for state in fs.crash_states(100):
        assert opened(state, facts).unreadable(0, facts.count, None) == []
        opened(state, facts).check_index()


@pytest.mark.parametrize("kind", ["create", "write", "sync", "rename"])
def test_a_failure_reaches_the_caller(kind: str) -> None:
    fs = MemoryFilesystem()
    fs.make_dirs(DIRECTORY)
    fs.fail(kind, nth=2)

    with pytest.raises(OSError, match="Input/output error"):
        writer.write(fs, DIRECTORY, LOG_ID, draft_of())
