"""A part with a bound is what it is without: rows, counts and state, bit by bit."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.codec.columns import Columns
from penstock.features import evicted_keys, part_memory, table_part
from penstock.features.definition import Definition
from penstock.features.part_memory import PartMemory
from penstock.features.table_features import TableFeatures
from penstock.features.table_part import TablePart
from penstock.projections.projection import StateLost
from penstock.projections.spill import SpillFolder
from penstock.storage.fs import OsFilesystem
from tests.support.seeds import IS_FULL, new_seeds
from tests.unit.features.bounded_rig import (
    KEYS,
    batch,
    bounded,
    check_equal,
    memory_of,
    now_of,
    pieces_of,
    plan_of,
    restored,
    texts_of,
)

PLAIN: dict[str, Any] = {
    "events": [{"name": "E", "fields": {"u": "str", "x": "f64"}}],
    "tables": [
        {
            "name": "T",
            "from": "E",
            "key": ["u"],
            "features": {
                "n": {"op": "count"},
                "n_1h": {"op": "count", "window": "1h"},
                "sum": {"op": "sum", "field": "x"},
                "last": {"op": "last_n", "field": "x", "n": 4},
            },
        }
    ],
}
NOTHING = 1  # every key leaves after every batch
SOME = 300_000  # some stay
CASES = [(None, SOME), ("6s", NOTHING), *([("6s", SOME), (None, NOTHING)] if IS_FULL else [])]
BATCH = 2000
SLACK_BYTES = 2 << 20  # one batch and one piece
SEEDS = new_seeds(20 if IS_FULL else 1)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the bytes after every use, and leave files early."""
    monkeypatch.setattr(part_memory, "CHECKED_USES", 1)
    monkeypatch.setattr(evicted_keys, "FILE_BYTES_MIN", 16 << 10)
    monkeypatch.setattr(evicted_keys, "PIECE_BYTES", 8 << 10)
    monkeypatch.setattr(table_part, "PIECE_BYTES", 8 << 10)


def divided(chance: Random, texts: list[bytes]) -> Iterator[list[bytes]]:
    while texts:
        size = chance.choice([1, 2, 10, 30])
        yield texts[:size]
        texts = texts[size:]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("cold_after", "bytes_max"), CASES)
def test_a_bound_never_shows(seed: int, cold_after: str | None, bytes_max: int) -> None:
    chance = Random(seed)
    plan = plan_of(cold_after)
    whole, part = TablePart(plan), bounded(plan, bytes_max)
    for texts in divided(chance, texts_of(chance, 180)):
        whole.apply(batch(texts))
        part.apply(batch(texts))
        some = chance.sample(KEYS, 3)
        now_ms = now_of(whole) + chance.choice([0, 0, 2_000, 30_000])
        assert part.rows(some, now_ms) == whole.rows(some, now_ms)
        names = ["count", "sum_w"]
        assert part.row(some[0], now_ms, names) == whole.row(some[0], now_ms, names)

    check_equal(part, whole, now_of(whole))
    assert set(part.all_keys()) >= {key for key in KEYS if whole.row(key, now_of(whole))}
    assert memory_of(part).evicted.counts.reloaded > 0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("cold_after", "bytes_max"), CASES)
def test_a_snapshot_shows_one_moment_while_keys_come_and_go(
    seed: int, cold_after: str | None, bytes_max: int
) -> None:
    chance = Random(seed)
    plan = plan_of(cold_after)
    texts = texts_of(chance, 160)
    part, whole, then = bounded(plan, bytes_max), TablePart(plan), TablePart(plan)
    for one in (texts[:50], texts[50:100]):
        part.apply(batch(one))
        then.apply(batch(one))
    part.rows(chance.sample(KEYS, 9), now_of(part))
    whole.apply(batch(texts))

    snapshot = part.snapshot()
    pieces = [bytes(next(snapshot))]
    for one in divided(chance, texts[100:]):
        part.apply(batch(one))
        part.rows(chance.sample(KEYS, 3), now_of(part))
        if chance.random() < 0.3:
            pieces += [bytes(piece) for piece in [next(snapshot, None)] if piece is not None]
    pieces += map(bytes, snapshot)

    for copy in (restored(TablePart(plan), pieces), restored(bounded(plan, bytes_max), pieces)):
        check_equal(copy, then, now_of(then))
        copy.apply(batch(texts[100:]))
        check_equal(copy, whole, now_of(whole))
    check_equal(part, whole, now_of(whole))


def test_what_is_restored_beyond_the_bound_goes_to_disk() -> None:
    plan = plan_of(None)
    whole = TablePart(plan)
    whole.apply(batch(texts_of(Random(1), 400)))

    part = restored(bounded(plan, SOME), pieces_of(whole))

    assert part.keys == whole.keys
    assert part.keys_on_disk > 0
    check_equal(part, whole, now_of(whole))


@pytest.mark.parametrize("place", ["take", "load", "evict"])
def test_a_read_that_is_interrupted_while_it_moves_keys_loses_the_state_and_says_so(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    plan = plan_of(None)
    part = bounded(plan, SOME)
    part.apply(batch(texts_of(Random(1), 400)))
    snapshot = part.snapshot()
    next(snapshot)
    owner, name = {
        "take": (memory_of(part).evicted, "_drop"),
        "load": (part._features, "load"),
        "evict": (part, "_evict"),
    }[place]

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            part.rows(KEYS, now_of(part))

    for use in (
        lambda: part.row(KEYS[0], now_of(part)),
        lambda: part.rows(KEYS, now_of(part)),
        lambda: part.apply(batch(texts_of(Random(2), 1))),
        lambda: part.snapshot(),
        lambda: list(snapshot),
    ):
        with pytest.raises(StateLost, match="interrupted"):
            use()


def scanned(part: TablePart, most: int, now_ms: int) -> Iterator[list[table_part.KeyRow]]:
    after: int | None = 0
    while after is not None:
        rows, after = part.scan(after, most, now_ms, ["count", "sum_w"])
        assert len(rows) <= most
        yield rows


@pytest.mark.parametrize("cold_after", [None, "6s"])
@pytest.mark.parametrize("bytes_max", [NOTHING, SOME])
def test_a_scan_has_every_key_once_and_moves_none(cold_after: str | None, bytes_max: int) -> None:
    plan = plan_of(cold_after)
    whole, part = TablePart(plan), bounded(plan, bytes_max)
    for texts in divided(Random(SEEDS[0]), texts_of(Random(SEEDS[0]), 300)):
        whole.apply(batch(texts))
        part.apply(batch(texts))
    now_ms = now_of(whole) + 2_000
    names = ["count", "sum_w"]
    evicted = memory_of(part).evicted
    before = (part.keys_on_disk, evicted.counts.evicted, evicted.counts.reloaded, part.bytes)
    assert before[0] > 10

    for most in (1, 7, 1000):
        found = [one for page in scanned(part, most, now_ms) for one in page]

        assert sorted(key for key, _ in found) == sorted(part.all_keys())
        for key, row in found:
            assert row == whole.row(key, now_ms, names)
        assert sum(row is not None for _, row in found) > 10
        keys = [key for key, _ in found]
        assert part.rows_in_place(keys, now_ms, names) == [row for _, row in found]
    after = (part.keys_on_disk, evicted.counts.evicted, evicted.counts.reloaded, part.bytes)
    assert after == before


def test_a_scan_reads_each_key_on_disk_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(None)
    part = bounded(plan, SOME)
    part.apply(batch(texts_of(Random(1), 400)))
    read: list[int] = []
    records = evicted_keys._records

    def counted(files: Any, places: Any) -> list[bytes]:
        read.append(len(places))
        return records(files, places)

    monkeypatch.setattr(evicted_keys, "_records", counted)

    pages = list(scanned(part, 5, now_of(part)))

    assert len(pages) > 10
    assert sum(read) == part.keys_on_disk > 10


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bytes_max", [NOTHING, SOME])
def test_a_scan_has_every_key_once_that_is_there_all_the_time(seed: int, bytes_max: int) -> None:
    """Keys come, and move to disk and back, between two pages."""
    chance = Random(seed)
    part = bounded(plan_of(None), bytes_max)
    texts = texts_of(chance, 400)
    part.apply(batch(texts[:60]))
    first = set(part.all_keys())
    moved = memory_of(part).evicted.counts
    reloaded = moved.reloaded
    found: list[tuple[Any, ...]] = []

    for number, page in enumerate(scanned(part, 3, now_of(part))):
        found += [key for key, _ in page]
        part.apply(batch(texts[60 + 5 * number : 65 + 5 * number]))
        part.rows(chance.sample(KEYS, 5), now_of(part))

    assert moved.reloaded > reloaded
    assert part.keys > len(first)
    assert len(set(found)) == len(found)
    assert set(found) >= first


def test_a_scan_that_was_interrupted_while_keys_moved_says_so() -> None:
    part = bounded(plan_of(None), SOME)
    part._is_moving = True

    for use in (lambda: part.scan(0, 1, 0, []), lambda: part.rows_in_place([], 0, [])):
        with pytest.raises(StateLost, match="interrupted"):
            use()


def test_memory_stays_within_the_bound_however_many_keys_there_are(tmp_path: Path) -> None:
    keys, bytes_max = (200_000, 12 << 20) if IS_FULL else (30_000, 2 << 20)
    plan = Definition.parse(PLAIN).plan("T")
    folder = SpillFolder(OsFilesystem(), str(tmp_path))
    part = TablePart(plan, PartMemory(plan, folder, lambda _: bytes_max))
    chance = Random(SEEDS[0])
    part.apply(plain_batch([0]))
    tracemalloc.start()
    worst = 0
    for numbers in (range(keys), chance.choices(range(keys), k=keys)):
        for at in range(0, keys, BATCH):
            part.apply(plain_batch(numbers[at : at + BATCH]))
            assert part.bytes <= bytes_max + SLACK_BYTES // 8
            worst = max(worst, tracemalloc.get_traced_memory()[0])
            if at == keys // 2:
                assert sum(map(len, part.snapshot())) > bytes_max // 2
    tracemalloc.stop()

    assert part.keys == keys
    assert part.keys_on_disk > keys // 3
    assert worst <= bytes_max + SLACK_BYTES
    assert part.row(("user 7",), now_of(part), ["sum"]) is not None
    pieces = pieces_of(part)
    again = TablePart(plan, PartMemory(plan, folder, lambda _: bytes_max))
    tracemalloc.start()
    again.restore(pieces)
    worst = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert again.keys == keys
    assert worst <= bytes_max + SLACK_BYTES


def plain_batch(numbers: Iterable[int]) -> Columns:
    return batch([b'{"u":"user %d","x":%d}' % (one, one) for one in numbers])


def test_no_room_is_reserved_for_a_state_that_does_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_of(None)
    whole = TablePart(plan)
    whole.apply(batch(texts_of(Random(1), 400)))
    pieces = pieces_of(whole)

    def reserve(*_: Any) -> None:
        raise AssertionError("memory was taken for all keys")

    monkeypatch.setattr(TableFeatures, "reserve", reserve)

    assert restored(bounded(plan, SOME), pieces).keys == whole.keys
