"""What every tier does, whatever it is made of."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from penstock.storage.fs import OsFilesystem
from penstock.storage.tiers.folder import FolderTier
from penstock.storage.tiers.objects import ObjectTier
from penstock.storage.tiers.tier import Tier
from penstock.testing.fs import MemoryFilesystem
from tests.support import s3

Make = Callable[[], Tier]
_numbers = count()


@pytest.fixture(params=["memory", "disk", "objects"])
def tier(request: pytest.FixtureRequest, tmp_path: Path, store: s3.Store) -> Tier:
    if request.param == "memory":
        return FolderTier(MemoryFilesystem(), "/cold")
    if request.param == "disk":
        return FolderTier(OsFilesystem(), str(tmp_path / "cold"))
    return ObjectTier(store.url(f"tier-{next(_numbers)}/"))


def test_what_was_put_is_there(tier: Tier) -> None:
    tier.put("topics/0A/seg.data", [b"hello", memoryview(b" world")])

    assert bytes(tier.map("topics/0A/seg.data")) == b"hello world"
    assert tier.length("topics/0A/seg.data") == 11
    assert tier.is_safe("topics/0A/seg.data", 11)


def test_put_replaces(tier: Tier) -> None:
    tier.put("a", [b"a long first text"])
    tier.put("a", [b"short"])

    assert bytes(tier.map("a")) == b"short"


def test_create_replaces_nothing(tier: Tier) -> None:
    tier.create("a", [b"first"])

    with pytest.raises(FileExistsError):
        tier.create("a", [b"second"])
    assert bytes(tier.map("a")) == b"first"


def test_an_empty_blob_is_one(tier: Tier) -> None:
    tier.put("a/b", [b""])

    assert bytes(tier.map("a/b")) == b""
    assert tier.list("a") == ["a/b"]


def test_keys_are_listed_by_what_they_lie_below(tier: Tier) -> None:
    for key in ("meta/2", "topics/01/b", "topics/01/a", "topics/02/c", "own"):
        tier.put(key, [b"x"])

    assert tier.list("topics") == ["topics/01/a", "topics/01/b", "topics/02/c"]
    assert tier.list("topics/02") == ["topics/02/c"]
    assert tier.list("") == ["meta/2", "own", "topics/01/a", "topics/01/b", "topics/02/c"]
    assert tier.list("nothing") == []


def test_delete_may_be_repeated(tier: Tier) -> None:
    tier.put("topics/01/a", [b"x"])

    tier.delete("topics/01/a")
    tier.delete("topics/01/a")
    tier.delete("never/there")

    assert tier.list("") == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda tier: tier.map("nix"),
        lambda tier: tier.length("nix"),
    ],
)
def test_what_is_not_there_is_not_found(tier: Tier, ask: Callable[[Tier], object]) -> None:
    with pytest.raises(FileNotFoundError):
        ask(tier)
