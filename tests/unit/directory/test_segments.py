from __future__ import annotations

import pytest

from penstock.directory.segments import draft_of
from penstock.engine.engine import Log
from penstock.testing import MemoryFilesystem
from penstock.testing.log import open_memory_log
from penstock.topics.spans import Span
from tests.unit.engine.support import TOPICS, paths
from tests.unit.topics.support import span_of

DIRECTORY = f"{TOPICS}/00000001"


@pytest.fixture
def fs() -> MemoryFilesystem:
    return MemoryFilesystem()


@pytest.fixture
def log(fs: MemoryFilesystem) -> Log:
    log = open_memory_log(fs)
    for number in range(3):
        log.append("t", [number], tag="x")
        log.checkpoint(everything=True)
    return log


def spans(log: Log) -> list[Span]:
    return log.core.parts.handles["t"].topic.spans


def test_a_segment_lies_in_its_topics_directory(fs: MemoryFilesystem, log: Log) -> None:
    assert log.core.parts.shelf.directory(255) == f"{TOPICS}/000000FF"
    assert paths(fs, DIRECTORY, ".data") == [
        f"{DIRECTORY}/seg-{first:016d}.data" for first in (1, 2, 3)
    ]


def test_a_written_segment_is_durable(fs: MemoryFilesystem, log: Log) -> None:
    topic = log.core.parts.handles["t"].topic
    segment = log.core.parts.shelf.write(9, draft_of(topic, spans(log)[:2]))

    for state in fs.crash_states(50):
        assert state.read(segment.data_path) == fs.read(segment.data_path)


def test_neighbouring_segments_become_one(log: Log) -> None:
    topic = log.core.parts.handles["t"].topic

    segment = log.core.parts.shelf.write(topic.id, draft_of(topic, spans(log)))

    facts = segment.facts
    assert (facts.first, facts.count, facts.records, facts.generation) == (1, 3, 3, 1)
    assert segment.unreadable(0, 3, None) == []
    assert len(segment.find_tags(0, 3, None, b"x", is_prefix=False)) == 12


def test_only_what_the_engine_placed_can_be_sealed(log: Log) -> None:
    with pytest.raises(AssertionError, match="only blocks and segments"):
        draft_of(log.core.parts.handles["t"].topic, [span_of(1, 1)])


def test_what_nobody_names_is_removed_and_strangers_are_left_alone(
    fs: MemoryFilesystem, log: Log
) -> None:
    for path in (
        f"{DIRECTORY}/seg-{1:016d}.data.tmp",
        f"{DIRECTORY}/notes.txt",
        f"{TOPICS}/readme",
    ):
        fs.replace(path, b"")
    fs.make_dirs(f"{TOPICS}/00000002")
    fs.replace(f"{TOPICS}/00000002/seg-{1:016d}.data", b"")

    removed = log.core.parts.shelf.remove_unnamed({1: {f"seg-{2:016d}"}})

    assert removed == 3 * 2 + 1 + 1
    assert paths(fs, TOPICS) == [
        f"{DIRECTORY}/notes.txt",
        *(f"{DIRECTORY}/seg-{2:016d}.{ending}" for ending in ("data", "idx", "tags")),
        f"{TOPICS}/readme",
    ]
    assert fs.list(TOPICS) == ["00000001", "readme"]
