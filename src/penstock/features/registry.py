"""What is registered: the definition, its version, and the parts that hold the state. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from penstock.features.definition import Definition
from penstock.features.part_plan import PartsChange, PartSpec, TableShape, planned, superseded


class FeatureRegistry(msgspec.Struct, frozen=True):
    """As it is recorded in the log, one record for each change."""

    version: int
    definition: msgspec.Raw
    parts: tuple[PartSpec, ...] = ()
    parts_made: int = 0  # parts are numbered, and no number is used twice


EMPTY = FeatureRegistry(0, msgspec.Raw(b"{}"))


def shapes_of(definition: Definition) -> dict[str, TableShape]:
    """Checksums of all tables."""
    return {table: definition.shape(table) for table in definition.tables}


def changed(registry: FeatureRegistry, definition: Definition) -> FeatureRegistry:
    """The registry with another definition. Parts that it replaces stay until others are ready."""
    shapes = shapes_of(definition)
    change = planned(registry.parts, shapes)
    made = registry.parts_made
    built = []
    for part in change.built:
        made += 1
        one = definition.part(part.table, part.features)
        shape = shapes[part.table]
        built.append(
            PartSpec(
                f"{part.table}.{made}",
                part.table,
                shape.base,
                {name: shape.features[name] for name in part.features},
                msgspec.Raw(one.canonical()),
            )
        )
    return FeatureRegistry(
        registry.version + 1,
        msgspec.Raw(msgspec.json.encode(definition.to_json())),
        (*_kept(registry.parts, change), *built),
        made,
    )


def _kept(parts: Iterable[PartSpec], change: PartsChange) -> list[PartSpec]:
    """In their order: the oldest parts first."""
    dropped = {part.id for part in change.dropped}
    return [part for part in parts if part.id not in dropped]


def without_superseded(
    registry: FeatureRegistry, table: str, shape: TableShape, ready: Iterable[str]
) -> FeatureRegistry:
    """The registry without those parts of a table that no feature is read from any more; itself if
    there are none. `ready` are parts of the table: of the others nothing is known here."""
    gone = {part.id for part in superseded(registry.parts, shape, table, ready)}
    if not gone:
        return registry
    parts = tuple(part for part in registry.parts if part.id not in gone)
    return msgspec.structs.replace(registry, parts=parts)


def narrowed(registry: FeatureRegistry, lacking: Mapping[str, Collection[str]]) -> FeatureRegistry:
    """The registry whose parts (by id) no longer promise these features, which no table wants. They
    are still folded there; a table that wants one of them again gets a new part."""
    parts = tuple(
        msgspec.structs.replace(
            part,
            features={
                name: checksum
                for name, checksum in part.features.items()
                if name not in lacking.get(part.id, ())
            },
        )
        for part in registry.parts
    )
    return msgspec.structs.replace(registry, parts=parts)
