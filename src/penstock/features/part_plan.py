"""Which parts a feature table consists of, before and after its definition changed. Pure.

A part holds the state of some features of one table. What groups the events (event, steps, key,
time) is the part's base. A new feature becomes a new part that is built from history, so that no
other feature loses its state; a changed feature is served by its old part until the new one has
caught up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec


class PartSpec(msgspec.Struct, frozen=True):
    """One part, as it is recorded in the log."""

    id: str
    table: str
    base: str  # checksum of what groups the events
    features: dict[str, str]  # name -> checksum of its definition
    definition: msgspec.Raw  # a whole definition with this table and these features alone


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table as it is wanted."""

    base: str
    features: Mapping[str, str]  # name -> checksum


@dataclass(frozen=True, slots=True)
class NewPart:
    """A part to be built."""

    table: str
    features: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartsChange:
    """What a registration does to the parts. `replaced` are kept until the new ones caught up."""

    kept: tuple[PartSpec, ...]
    replaced: tuple[PartSpec, ...]
    dropped: tuple[PartSpec, ...]
    built: tuple[NewPart, ...]


def planned(parts: Iterable[PartSpec], wanted: Mapping[str, TableShape]) -> PartsChange:
    """The parts that the wanted tables need."""
    kept: list[PartSpec] = []
    replaced: list[PartSpec] = []
    dropped: list[PartSpec] = []
    missing = {
        (table, name): checksum
        for table, shape in wanted.items()
        for name, checksum in shape.features.items()
    }
    for part in parts:
        shape = wanted.get(part.table)
        if shape is None:
            dropped.append(part)
            continue
        current = [
            name
            for name, checksum in part.features.items()
            if part.base == shape.base and missing.get((part.table, name)) == checksum
        ]
        if current:
            kept.append(part)
            for name in current:
                del missing[part.table, name]
        elif any(name in shape.features for name in part.features):
            replaced.append(part)
        else:
            dropped.append(part)
    built: dict[str, list[str]] = {}
    for table, name in missing:
        built.setdefault(table, []).append(name)
    return PartsChange(
        tuple(kept),
        tuple(replaced),
        tuple(dropped),
        tuple(NewPart(table, tuple(names)) for table, names in built.items()),
    )


def serving(
    parts: Sequence[PartSpec], shape: TableShape, table: str, ready: Iterable[str]
) -> dict[str, PartSpec]:
    """The part that each feature of a table is read from: one with its current definition if that
    is ready, else one with an earlier definition. A feature without either is left out."""
    is_ready = set(ready)
    found: dict[str, PartSpec] = {}
    is_current: set[str] = set()
    for part in parts:
        if part.table != table or part.id not in is_ready:
            continue
        for name, checksum in part.features.items():
            current = part.base == shape.base and shape.features.get(name) == checksum
            if name in shape.features and (current or name not in is_current):
                found[name] = part
            if current:
                is_current.add(name)
    return found


def is_settled(
    parts: Sequence[PartSpec], shape: TableShape, table: str, ready: Iterable[str]
) -> bool:
    """True if each feature of a table is read from a ready part with its current definition."""
    serves = serving(parts, shape, table, ready)
    return all(
        name in serves
        and serves[name].base == shape.base
        and serves[name].features[name] == checksum
        for name, checksum in shape.features.items()
    )


def is_current(part: PartSpec, shape: TableShape) -> bool:
    """Does it have a feature as the table wants it?"""
    return any(is_wanted(part, name, shape) for name in part.features)


def is_wanted(part: PartSpec, feature: str, shape: TableShape) -> bool:
    """Does the table want this feature as the part has it?"""
    return part.base == shape.base and shape.features.get(feature) == part.features.get(feature, "")


def superseded(
    parts: Sequence[PartSpec], shape: TableShape, table: str, ready: Iterable[str]
) -> list[PartSpec]:
    """Parts of a table that no feature is read from, now that others are ready. Those that are not
    ready themselves are wanted no more when every feature has its current definition."""
    ready_ids = set(ready)
    used = {part.id for part in serving(parts, shape, table, ready_ids).values()}
    every = is_settled(parts, shape, table, ready_ids)
    return [
        part
        for part in parts
        if part.table == table and part.id not in used and (every or part.id in ready_ids)
    ]
