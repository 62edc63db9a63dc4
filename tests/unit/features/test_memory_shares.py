"""How memory is divided among the parts of all tables."""

from __future__ import annotations

import msgspec

from penstock.features.definition_nodes import FeatureTable
from penstock.features.memory_shares import MemoryShares
from penstock.features.part_plan import PartSpec

MIB = 1 << 20


def part(name: str, table: str, features: int) -> PartSpec:
    names = {f"f{number}": "" for number in range(features)}
    return PartSpec(name, table, "", names, msgspec.Raw(b"{}"))


def table(name: str, memory_max: int | None = None) -> FeatureTable:
    return FeatureTable(name, "E", (), {}, memory_max=memory_max)


def shares_of(*parts: PartSpec, **tables: FeatureTable) -> MemoryShares:
    shares = MemoryShares(100 * MIB)
    shares.divide(tables, parts)
    return shares


def test_what_a_table_says_is_divided_by_features() -> None:
    parts = part("A.1", "A", 3), part("A.2", "A", 1)
    shares = shares_of(*parts, A=table("A", 400 * MIB))

    assert shares.bytes_max("A.1", 0) == 300 * MIB
    assert shares.bytes_max("A.2", 10**12) == 100 * MIB


def test_a_part_may_take_what_the_others_leave() -> None:
    parts = [part(f"{name}.1", name, 1) for name in "ABCD"]
    shares = shares_of(*parts, **{name: table(name) for name in "ABCD"})

    assert shares.bytes_max("A.1", 60 * MIB) == 100 * MIB
    shares.bytes_max("B.1", 30 * MIB)
    assert shares.bytes_max("A.1", 60 * MIB) == 70 * MIB
    shares.bytes_max("C.1", 90 * MIB)
    assert shares.bytes_max("A.1", 60 * MIB) == 25 * MIB


def test_every_part_has_its_equal_share() -> None:
    shares = shares_of(part("A.1", "A", 1), part("B.1", "B", 1), A=table("A"), B=table("B"))
    shares.bytes_max("A.1", 99 * MIB)

    assert shares.bytes_max("B.1", 1 * MIB) == 50 * MIB
    assert shares.bytes_max("B.1", 45 * MIB) == 50 * MIB


def test_parts_that_are_gone_take_nothing() -> None:
    parts = part("A.1", "A", 1), part("B.1", "B", 1)
    shares = shares_of(*parts, A=table("A"), B=table("B"))
    shares.bytes_max("A.1", 99 * MIB)
    shares.bytes_max("B.1", 60 * MIB)

    shares.divide({"B": table("B")}, parts[1:])

    assert shares.bytes_max("B.1", 60 * MIB) == 100 * MIB
    shares.bytes_max("A.1", 99 * MIB)  # until it is dropped, it may still ask
    assert shares.bytes_max("B.1", 60 * MIB) == 100 * MIB


def test_a_part_that_nobody_knows_yet_has_a_share() -> None:
    shares = MemoryShares(100 * MIB)

    assert shares.bytes_max("A.1", 0) == 100 * MIB
