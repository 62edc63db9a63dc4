"""Objects kept as files for a while."""

from __future__ import annotations

import errno
import threading
from random import Random

from penstock.storage.tiers.cache import Cache
from penstock.storage.tiers.folder import FolderTier
from penstock.testing.fs import MemoryFilesystem

HOME = "/data/cache"


class Counted(FolderTier):
    """Notes what was fetched."""

    def __init__(self) -> None:
        super().__init__(MemoryFilesystem(), "/store")
        self.fetched: list[str] = []

    def map(self, key: str) -> memoryview:
        self.fetched.append(key)
        return super().map(key)


def stocked(**blobs: bytes) -> Counted:
    tier = Counted()
    for key, data in blobs.items():
        tier.put(f"t/{key}", [data])
    return tier


def test_an_object_is_fetched_once() -> None:
    tier, cache = stocked(a=b"text"), Cache(MemoryFilesystem(), HOME, 100)

    assert [bytes(cache.map(tier, "t/a")) for _ in range(3)] == [b"text"] * 3
    assert tier.fetched == ["t/a"]


def test_the_least_recently_used_goes_first() -> None:
    fs = MemoryFilesystem()
    tier, cache = stocked(a=b"x" * 40, b=b"x" * 40, c=b"x" * 40), Cache(fs, HOME, 100)

    for key in ("a", "b", "a", "c", "a", "b"):
        cache.map(tier, f"t/{key}")

    assert tier.fetched == ["t/a", "t/b", "t/c", "t/b"]
    assert len(fs.list(HOME)) == 2


def test_one_larger_than_all_is_kept_alone() -> None:
    tier, cache = stocked(a=b"x" * 40, big=b"x" * 400), Cache(MemoryFilesystem(), HOME, 100)

    for key in ("a", "big", "big", "a"):
        cache.map(tier, f"t/{key}")

    assert tier.fetched == ["t/a", "t/big", "t/a"]


def test_a_view_outlives_its_file() -> None:
    tier, cache = stocked(a=b"x" * 80, b=b"y" * 80), Cache(MemoryFilesystem(), HOME, 100)
    view = cache.map(tier, "t/a")

    cache.map(tier, "t/b")

    assert bytes(view) == b"x" * 80


def test_views_are_of_files_and_many_readers_see_whole_objects() -> None:
    sizes = {"a": 4000, "b": 5000, "c": 6000}
    tier = stocked(**{key: b"x" * size for key, size in sizes.items()})
    cache = Cache(MemoryFilesystem(), HOME, 6000)  # room for one or so
    wrong: list[str] = []

    def read(seed: int) -> None:
        choose = Random(seed)
        for _ in range(300):
            key = choose.choice("abc")
            if len(cache.map(tier, f"t/{key}")) != sizes[key]:
                wrong.append(key)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not wrong
    assert not cache._coming


def test_what_was_forgotten_is_fetched_anew() -> None:
    tier, cache = stocked(a=b"old"), Cache(MemoryFilesystem(), HOME, 100)
    cache.map(tier, "t/a")
    tier.put("t/a", [b"new"])

    cache.forget("t/a")

    assert bytes(cache.map(tier, "t/a")) == b"new"


def test_what_an_earlier_process_left_is_not_used() -> None:
    fs, tier = MemoryFilesystem(), stocked(a=b"text")
    Cache(fs, HOME, 100).map(tier, "t/a")

    Cache(fs, HOME, 100).map(tier, "t/a")

    assert tier.fetched == ["t/a", "t/a"]


def test_a_full_disk_costs_nothing_but_the_copy() -> None:
    fs, tier = MemoryFilesystem(), stocked(a=b"text")
    cache = Cache(fs, HOME, 100)
    fs.fail("write", error=errno.ENOSPC, persistent=True)

    assert [bytes(cache.map(tier, "t/a")) for _ in range(2)] == [b"text"] * 2
    assert tier.fetched == ["t/a", "t/a"]
