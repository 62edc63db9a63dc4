"""A data directory, looked at beside whoever has it open."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from penstock.directory.directory_view import DirectoryView, look, pulse
from penstock.engine.engine import Log
from penstock.errors import CorruptFrame, InvalidArgument
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import ROOT, open_memory_log
from tests.support import workload
from tests.unit.engine.support import WAL, paths


def facts(view: DirectoryView) -> dict[str, tuple[int, ...]]:
    return {
        topic.name: (topic.epoch, topic.head, topic.live, topic.lost_floor, topic.bytes)
        for topic in view.topics()
    }


def expected(log: Log) -> dict[str, tuple[int, ...]]:
    return {
        topic.name: (topic.epoch, topic.head, topic.live, topic.lost_floor, topic.bytes)
        for topic in log.core.parts.registry.all()
        if not topic.name.startswith("_")
    }


@hypothesis_settings(max_examples=60, deadline=None)
@given(workload.steps)
def test_topics_are_seen_as_their_log_has_them(steps: list[workload.Step]) -> None:
    fs, clock = MemoryFilesystem(), FakeClock()
    log = open_memory_log(fs, clock, **workload.TIERED)
    for step in steps:
        workload.apply(log, step, clock.advance)
        log.sync()
        assert facts(look(ROOT, fs=fs, clock=clock)) == expected(log), step
    log.close()
    assert facts(look(ROOT, fs=fs, clock=clock)) == expected(log)


def test_what_is_not_synced_is_not_seen_while_its_writer_lives() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [1, 2])
    log.sync()
    log.append("t", [3])

    view = look(ROOT, fs=fs)

    assert view.is_live
    topic = view.topic("t")
    assert topic is not None
    assert topic.head == 2


def test_what_a_killed_writer_left_is_synced_and_seen() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [1, 2])
    left = fs.kill()

    view = look(ROOT, fs=left)

    topic = view.topic("t")
    assert topic is not None
    assert (view.is_live, topic.head) == (False, 2)
    assert open_memory_log(left).topic("t").head_seq == 2


def test_records_that_live_in_memory_alone_are_not_told_as_lost_while_they_live() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.create("t", durability="ephemeral")
    log.append("t", [1, 2])
    log.sync()

    topic = look(ROOT, fs=fs).topic("t")

    assert topic is not None
    assert (topic.head, topic.losses) == (0, [])


def test_nothing_is_changed_by_looking() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [1])
    log.sync()
    before = {path: bytes(fs.map(path)) for path in fs.paths() if fs.size(path)}

    look(ROOT, fs=fs)

    assert {path: bytes(fs.map(path)) for path in fs.paths() if fs.size(path)} == before


def test_the_pulse_moves_with_the_log_alone() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [1])
    log.sync()
    first = pulse(ROOT, fs=fs)

    assert pulse(ROOT, fs=fs) == first
    log.append("t", [2])
    log.sync()
    second = pulse(ROOT, fs=fs)
    assert second != first
    log.compact()
    third = pulse(ROOT, fs=fs)
    assert third not in (first, second)
    log.close()
    assert pulse(ROOT, fs=fs) != third
    assert pulse("/nowhere", fs=fs) is None


def test_a_folder_that_is_no_data_directory_is_refused() -> None:
    fs = MemoryFilesystem()

    with pytest.raises(InvalidArgument, match="is not a Penstock data directory"):
        look("/nowhere", fs=fs)


def test_damage_in_the_wal_is_told_with_its_place() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", ["one"])
    log.append("t", ["two"])
    log.close()
    path = next(path for path in paths(fs, WAL) if b'"one"' in bytes(fs.map(path)))
    file = fs.open(path, writable=True)
    file.write_at(b"?", bytes(fs.map(path)).index(b'"one"') + 1)
    file.close()

    with pytest.raises(CorruptFrame, match=f"{path} at byte"):
        look(ROOT, fs=fs)
