from __future__ import annotations

import json

import pytest

from penstock.directory import log_identity
from penstock.directory.log_identity import FORMAT_NAME, DataLayout
from penstock.errors import FormatTooNew, InvalidArgument
from penstock.storage import snapshots
from penstock.testing import MemoryFilesystem
from penstock.testing.log import ROOT, open_memory_log
from tests.unit.engine.support import META, TOPICS, paths

IDENTITY = f"{ROOT}/{FORMAT_NAME}"


@pytest.fixture
def fs() -> MemoryFilesystem:
    fs = MemoryFilesystem()
    fs.make_dirs(ROOT)
    return fs


def test_a_new_log_gets_an_identity_that_is_durable(fs: MemoryFilesystem) -> None:
    before = log_identity.read(fs, ROOT)

    made = log_identity.create(fs, ROOT, lambda size: bytes(range(size)))

    assert before is None
    assert made.log_id == bytes(range(16))
    for state in fs.crash_states(20):
        assert log_identity.read(state, ROOT) == made


def test_things_lie_where_they_always_lay() -> None:
    layout = DataLayout("/d", bytes(16), False)

    assert [layout.wal, layout.meta, layout.topics, layout.aside, layout.lock] == [
        "/d/wal",
        "/d/meta",
        "/d/topics",
        "/d/aside",
        "/d/.penstock.lock",
    ]


def test_every_flipped_bit_of_the_identity_is_noticed(fs: MemoryFilesystem) -> None:
    log_identity.create(fs, ROOT)

    for offset in range(fs.size(IDENTITY) - 1):  # the last byte is a line feed, for people
        harmed = fs.copy()
        harmed.corrupt(IDENTITY, offset, xor=1)
        try:
            assert log_identity.read_identity(harmed, ROOT) is None, offset
        except FormatTooNew:
            assert harmed.read(IDENTITY)[offset : offset + 1].isdigit()


def test_a_lost_identity_is_found_again_in_a_snapshot_or_a_segment() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [1])
    log.checkpoint(everything=True)
    log_id = log.core.parts.layout.log_id
    log.close()

    fs.unlink(IDENTITY)
    from_snapshot = log_identity.read(fs, ROOT)
    for number in snapshots.numbers(fs, META):
        fs.corrupt(snapshots.path_of(META, number), 5)
    from_segment = log_identity.read(fs, ROOT)
    fs.corrupt(paths(fs, TOPICS, ".idx")[0], 5)

    assert from_snapshot.log_id == from_segment.log_id == log_id
    assert log_identity.read(fs, ROOT) is None


def later(held: dict[str, object]) -> dict[str, object]:
    return {**held, "format": 99, "format_check": log_identity.format_check(99), "more": [1]}


def test_a_flipped_digit_is_no_later_format(fs: MemoryFilesystem) -> None:
    log_identity.create(fs, ROOT)
    held = json.loads(fs.read(IDENTITY))
    fs.replace(IDENTITY, json.dumps({**held, "format": 9}).encode())

    assert log_identity.read_identity(fs, ROOT) is None


def test_a_later_format_is_refused(fs: MemoryFilesystem) -> None:
    log_identity.create(fs, ROOT)
    held = json.loads(fs.read(IDENTITY))
    fs.replace(IDENTITY, json.dumps(later(held)).encode())

    with pytest.raises(FormatTooNew, match="format 99") as caught:
        log_identity.read(fs, ROOT)

    assert (caught.value.path, bool(caught.value.hint)) == (IDENTITY, True)


@pytest.mark.parametrize("name", [FORMAT_NAME, "wal", "meta", "topics"])
def test_a_directory_with_anything_of_ours_holds_a_log(fs: MemoryFilesystem, name: str) -> None:
    with pytest.raises(InvalidArgument, match="not a Penstock data directory"):
        log_identity.require(fs, ROOT)

    fs.replace(f"{ROOT}/{name}", b"")

    log_identity.require(fs, ROOT)
