"""R10: whatever happens to a derived file, the log shows the same as before."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from penstock.engine.engine import Log
from penstock.testing.clock import FakeClock
from penstock.testing.fs import MemoryFilesystem
from penstock.types import Record
from tests.support import states

Harm = Callable[[MemoryFilesystem, str], None]


def settled_log(shards: int = 1) -> MemoryFilesystem:
    """Segments, tails in two snapshots, and a WAL past them; floors, deletes, keys, configs."""
    fs, clock = MemoryFilesystem(), FakeClock()
    log = states.open_log(fs, clock, states.settings(shards))
    log.create("a", durability="fsync", cap_records=6)
    log.create("b", durability="disk", ttl_ms=1_000)
    log.create("c", durability="fsync")
    for number in range(9):
        log.append("a", [Record(data=number, tag=f"t{number % 3}", meta={"m": number})])
    log.append("b", ["old"], tag="t0")
    clock.advance(2_000)
    log.append("b", ["new", "newer"], tag="t1")
    log.append("c", list(range(5)), tag="t2", idempotency_key="k")
    log.compact()
    log.delete("a", tag="t1")
    log.append("c", ["later"], tag="t0")
    log.delete("c", seqs=[2])
    log.checkpoint()
    log.append("a", ["in the snapshot"])
    log.checkpoint()
    log.append("a", ["in the WAL"])
    log.append("b", ["in the WAL"])
    log.create("c", durability="fsync", cap_records=50)
    log.close()
    return fs


def hash_of(log: Log) -> str:
    """All that readers, deleters and retries can tell."""
    shown: list[Any] = sorted((name, repr(walk)) for name, walk in states.see(log).items())
    retry = log.append("c", ["again"], idempotency_key="k")
    shown.append((retry.deduped, retry.first_seq, retry.last_seq))
    shown += [log.delete(topic, tag=tag).deleted for topic in "abc" for tag in ("t0", "t*")]
    shown += sorted((name, repr(walk)) for name, walk in states.see(log).items())
    return hashlib.sha256(repr(shown).encode()).hexdigest()


def clock_then() -> FakeClock:
    clock = FakeClock()
    clock.advance(2_000)
    return clock


def reopened(fs: MemoryFilesystem, shards: int = 1) -> Log:
    return states.open_log(fs, clock_then(), states.settings(shards))


def derived(fs: MemoryFilesystem) -> list[str]:
    chosen = (".idx", ".tags", "durable.mark", "penstock.json")
    return [path for path in fs.paths() if path.endswith(chosen) or "/snapshot-" in path]


def sources(fs: MemoryFilesystem) -> set[str]:
    return {path for path in fs.paths() if path.endswith((".data", ".log"))}


def zero(fs: MemoryFilesystem, path: str) -> None:
    fs.replace(path, bytes(fs.size(path)))


def scramble(fs: MemoryFilesystem, path: str) -> None:
    fs.replace(path, Random(path).randbytes(fs.size(path)))


def empty(fs: MemoryFilesystem, path: str) -> None:
    fs.replace(path, b"")


def halve(fs: MemoryFilesystem, path: str) -> None:
    fs.truncate_at(path, fs.size(path) // 2)


def remove(fs: MemoryFilesystem, path: str) -> None:
    fs.unlink(path)
    fs.sync_dir(path.rsplit("/", 1)[0])


def swap(fs: MemoryFilesystem, path: str) -> None:
    """With another of its kind: another topic's, an older one, another log's."""
    kind = path.rsplit(".", 1)[-1]
    others = [other for other in derived(fs) if other != path and other.endswith(kind)]
    if others:
        mine, theirs = fs.read(path), fs.read(others[-1])
        fs.replace(path, theirs)
        fs.replace(others[-1], mine)
    elif kind == "json":
        fs.replace(path, fs.read(path).replace(b"07", b"08"))
    else:
        fs.replace(path, b"?" + fs.read(path))


HARMS: tuple[Harm, ...] = (zero, scramble, empty, halve, remove, swap)


def cases() -> Iterator[Any]:
    for shards in (1, 2):
        for path in derived(settled_log(shards)):
            for harm in HARMS:
                yield pytest.param(shards, path, harm, id=f"{shards}-{path[6:]}-{harm.__name__}")


@pytest.mark.parametrize(("shards", "path", "harm"), cases())
def test_a_damaged_derived_file_changes_nothing(shards: int, path: str, harm: Harm) -> None:
    fs = settled_log(shards)
    before = sources(fs)
    expected = hash_of(reopened(fs.copy(), shards))

    harm(fs, path)
    log = reopened(fs, shards)

    assert sources(fs) >= before
    assert hash_of(log) == expected


@pytest.mark.parametrize(("shards", "path", "harm"), cases())
def test_what_was_rebuilt_is_whole_again_after_a_compaction(
    shards: int, path: str, harm: Harm
) -> None:
    fs = settled_log(shards)
    expected = hash_of(reopened(fs.copy(), shards))

    harm(fs, path)
    log = reopened(fs, shards)
    states.see(log)
    log.compact()
    log.close()

    with reopened(fs, shards) as again:
        assert again.damage == []
        assert hash_of(again) == expected


@pytest.mark.parametrize("harm", [zero, scramble, empty, halve, remove])
@pytest.mark.parametrize("shards", [1, 2])
def test_without_any_snapshot_every_record_of_segments_and_wal_is_there(
    harm: Harm, shards: int
) -> None:
    """What only snapshots knew may be gone: deletes since a segment was sealed, small tails."""
    fs = settled_log(shards)
    whole = states.see(reopened(fs.copy(), shards))
    before = sources(fs)
    snapshots = [path for path in fs.paths() if "/snapshot-" in path]

    for path in snapshots:
        harm(fs, path)
    log = reopened(fs, shards)
    seen = states.see(log)

    assert sources(fs) >= before
    in_snapshot_only = {("a", "in the snapshot"), ("c", "later")}
    for name, walk in whole.items():
        for seq, record in walk.records.items():
            if (name, record.data) not in in_snapshot_only:
                assert seen[name].records.get(seq) == record, (name, seq)
        assert seen[name].head >= walk.head
        assert seen[name].config == walk.config
