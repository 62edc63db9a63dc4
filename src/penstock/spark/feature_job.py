"""What a task computes: one feature table of one definition. Pickled to the tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from penstock.errors import InvalidArgument
from penstock.features.definition import Definition
from penstock.features.names import nearest, shown
from penstock.features.table_plan import TablePlan

DefinitionLike = Definition | bytes | str | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FeatureJob:
    """A table with some of its features, in the order in which they are wanted."""

    definition: bytes  # canonical JSON with this table and these features alone
    table: str
    features: tuple[str, ...]

    @property
    def plan(self) -> TablePlan:
        """How to compute it; the order of the features is that of their names."""
        return _plan(self.definition, self.table)


@dataclass(frozen=True, slots=True)
class KeyShuffle:
    """How the events go to the tasks that fold them, and what the summaries tell beside that: see
    `KeyedEventReader`."""

    buckets: int
    keeps_ahead: bool = False
    ahead_of_ms: int | None = None


@lru_cache(maxsize=16)
def _plan(definition: bytes, table: str) -> TablePlan:
    return Definition.parse(definition).plan(table)


def job_of(
    definition: DefinitionLike, table: str, features: Collection[str] | None = None
) -> FeatureJob:
    """The job for a table and some of its features, by default all."""
    known = definition if isinstance(definition, Definition) else Definition.parse(definition)
    plan = known.plan(table)
    names = [feature.name for feature in plan.features]
    for name in features or ():
        if name not in names:
            raise InvalidArgument(
                f"table {table!r} has no feature {shown(name)}; {nearest(str(name), names)}"
            )
    wanted = tuple(names if features is None else dict.fromkeys(features))
    return FeatureJob(known.part(table, wanted).canonical(), table, wanted)
