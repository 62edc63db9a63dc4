"""What a store runs: parts within their share of memory, and indexes of ids."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from penstock.engine.open_log import open_log
from penstock.features.definition import Definition
from penstock.features.memory_shares import MemoryShares
from penstock.features.store_projections import (
    empty_index,
    empty_part,
    index_definition,
    plan_of,
)
from penstock.projections.host import ProjectionDefinition
from penstock.testing.fs import MemoryFilesystem

MIB = 1 << 20
DOCUMENT: dict[str, Any] = {
    "events": [
        {
            "name": "E",
            "fields": {"user": "str", "id": "i64"},
            "dedupe": {"field": "id", "window": "1h"},
        }
    ],
    "tables": [
        {"name": "T", "from": "E", "key": ["user"], "features": {"n": {"op": "count"}}},
    ],
}


def definition_of(kind: str, text: bytes) -> ProjectionDefinition:
    return ProjectionDefinition(7, kind, "T.1", "E", msgspec.Raw(text))


def test_a_part_has_the_plan_of_its_definition_and_a_share_of_memory() -> None:
    with open_log("/data", fs=MemoryFilesystem(), background=False) as log:
        given = definition_of("features", Definition.parse(DOCUMENT).canonical())

        part = empty_part(log.projections, MemoryShares(30 * MIB), given)

        assert part.definition == empty_part(log.projections, MemoryShares(MIB), given).definition
        assert part.memory is not None
        assert part.memory.bound.bytes_max == 30 * MIB
        assert [feature.name for feature in plan_of(given).features] == ["n"]


def test_an_index_is_what_its_definition_says() -> None:
    event = Definition.parse(DOCUMENT).events["E"]

    text = index_definition(event)

    assert empty_index(definition_of("dedupe", text)).definition == text


def test_an_event_type_without_a_dedupe_window_has_no_index() -> None:
    plain = {"events": [{"name": "E", "fields": {"id": "i64"}}]}

    with pytest.raises(AssertionError):
        index_definition(Definition.parse(plain).events["E"])
