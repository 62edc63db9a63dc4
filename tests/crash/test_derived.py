"""R10: whatever happens to a derived file, the log shows the same as before."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
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


def hash_of(log: Log, heads: dict[str, int]) -> str:
    """All that readers, deleters and retries can tell.

    Without a mark nobody knows whether an unsynced tail was lost, so seqs past the old head may
    be given up; that is told, and is no difference here.
    """
    shown: list[Any] = [_seen(log, heads)]
    retry = log.append("c", ["again"], idempotency_key="k")
    shown.append((retry.deduped, retry.first_seq, retry.last_seq))
    shown += [log.delete(topic, tag=tag).deleted for topic in "abc" for tag in ("t0", "t*")]
    shown.append(_seen(log, heads))
    return hashlib.sha256(repr(shown).encode()).hexdigest()


def _seen(log: Log, heads: dict[str, int]) -> list[tuple[str, str]]:
    seen = states.see(log)
    for name, walk in seen.items():
        if walk.gaps and walk.gaps[-1] == (heads[name] + 1, walk.head, "lost"):
            walk.gaps.pop()
            walk.head = heads[name]
    return sorted((name, repr(walk)) for name, walk in seen.items())


def heads_of(log: Log) -> dict[str, int]:
    return {info.name: info.head_seq for info in log.topics()}


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
    """Another of its kind lies there: another topic's, an older one, another log's."""
    kind = path.rsplit(".", 1)[-1]
    mine = fs.read(path)
    others = [fs.read(other) for other in derived(fs) if other.endswith(kind)]
    others = [theirs for theirs in others if theirs != mine]
    if kind == "json":
        fs.replace(path, mine.replace(b"07", b"08"))
    else:
        fs.replace(path, others[-1] if others else b"?" + mine)


HARMS: tuple[Harm, ...] = (zero, scramble, empty, halve, remove, swap)


CASES = [
    pytest.param(shards, path, harm, id=f"{shards}-{path[6:]}-{harm.__name__}")
    for shards in (1, 2)
    for path in derived(settled_log(shards))
    for harm in HARMS
]


@pytest.mark.parametrize(("shards", "path", "harm"), CASES)
def test_a_damaged_derived_file_changes_nothing(shards: int, path: str, harm: Harm) -> None:
    fs = settled_log(shards)
    before = sources(fs)
    whole = reopened(fs.copy(), shards)
    heads = heads_of(whole)
    expected = hash_of(whole, heads)

    harm(fs, path)
    log = reopened(fs, shards)

    assert sources(fs) >= before
    assert hash_of(log, heads) == expected


@pytest.mark.parametrize(("shards", "path", "harm"), CASES)
def test_what_was_rebuilt_is_whole_again_after_a_compaction(
    shards: int, path: str, harm: Harm
) -> None:
    fs = settled_log(shards)
    whole = reopened(fs.copy(), shards)
    heads = heads_of(whole)
    expected = hash_of(whole, heads)

    harm(fs, path)
    log = reopened(fs, shards)
    states.see(log)
    log.compact()
    log.close()

    with reopened(fs, shards) as again:
        assert again.damage == []
        assert hash_of(again, heads) == expected


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
