"""A small data directory with one of everything, and ways to harm it."""

from __future__ import annotations

from penstock.storage import snapshots
from penstock.storage.wal import durable_mark
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import ROOT, open_memory_log
from tests.unit.engine.support import META, TOPICS, WAL, paths


def sample(clock: FakeClock | None = None) -> MemoryFilesystem:
    """Topic t: 1..4 in one segment (2 deleted), 5..7 in the next, 8..10 in the WAL. Two
    snapshots; the last file of the WAL holds 8..10 and every one of them is synced."""
    fs = MemoryFilesystem()
    log = open_memory_log(fs, clock)
    log.create("t", durability="fsync")
    for number in range(1, 5):
        log.append("t", [number], tag="odd" if number % 2 else None)
    log.delete("t", seqs=[2])
    log.checkpoint(everything=True)
    log.append("t", [5, 6, 7], tag="x")
    log.checkpoint(everything=True)
    for number in (8, 9, 10):
        log.append("t", [number])
    log.close()
    return fs


def last_wal(fs: MemoryFilesystem) -> str:
    return paths(fs, WAL, ".log")[-1]


def frame_of(fs: MemoryFilesystem, path: str, data: bytes) -> int:
    """Where the frame of the record with this data lies, a little past its start."""
    return fs.read(path).index(b'{"d":' + data + b"}") - 10


def nothing(fs: MemoryFilesystem) -> None:
    """A healthy directory."""


def torn_tail(fs: MemoryFilesystem) -> None:
    path = last_wal(fs)
    fs.replace(path, fs.read(path) + b"\x33" * 21)


def wal_record_flipped(fs: MemoryFilesystem) -> None:
    fs.corrupt(last_wal(fs), frame_of(fs, last_wal(fs), b"9"))


def last_wal_record_flipped(fs: MemoryFilesystem) -> None:
    fs.corrupt(last_wal(fs), frame_of(fs, last_wal(fs), b"10"))


def wal_cut(fs: MemoryFilesystem) -> None:
    fs.truncate_at(last_wal(fs), frame_of(fs, last_wal(fs), b"9"))


def mark_flipped(fs: MemoryFilesystem) -> None:
    fs.corrupt(f"{WAL}/{durable_mark.MARK_NAME}", 9)


def newest_snapshot_flipped(fs: MemoryFilesystem) -> None:
    fs.corrupt(snapshots.path_of(META, 2), 80)


def older_snapshot_flipped(fs: MemoryFilesystem) -> None:
    fs.corrupt(snapshots.path_of(META, 1), 80)


def index_flipped(fs: MemoryFilesystem) -> None:
    fs.corrupt(paths(fs, TOPICS, ".idx")[0], 90)


def index_removed(fs: MemoryFilesystem) -> None:
    fs.unlink(paths(fs, TOPICS, ".idx")[0])


def tags_flipped(fs: MemoryFilesystem) -> None:
    fs.corrupt(paths(fs, TOPICS, ".tags")[0], 30)


def segment_record_flipped(fs: MemoryFilesystem) -> None:
    path = paths(fs, TOPICS, ".data")[0]
    fs.corrupt(path, frame_of(fs, path, b"3"))


def segment_cut(fs: MemoryFilesystem) -> None:
    path = paths(fs, TOPICS, ".data")[1]
    fs.truncate_at(path, frame_of(fs, path, b"7"))


def segment_removed(fs: MemoryFilesystem) -> None:
    fs.unlink(paths(fs, TOPICS, ".data")[1])


def identity_flipped(fs: MemoryFilesystem) -> None:
    fs.corrupt(f"{ROOT}/penstock.json", 30)
