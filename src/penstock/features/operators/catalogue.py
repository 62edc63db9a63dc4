"""All operators by name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from penstock.features import operators
from penstock.features.operators.operator_kind import OperatorKind
from penstock.features.operators.operator_names import NAMES


def _kinds_of_families() -> Iterator[OperatorKind]:
    """A family is a module of `operators` that has KINDS."""
    for module in pkgutil.iter_modules(operators.__path__, f"{operators.__name__}."):
        if module.name != __name__:
            yield from getattr(importlib.import_module(module.name), "KINDS", ())


def _in_order() -> Mapping[str, OperatorKind]:
    kinds = list(_kinds_of_families())
    found = {kind.name: kind for kind in kinds}
    if len(found) != len(kinds) or not set(found) <= set(NAMES):
        raise AssertionError(f"twice, or not in the table: {sorted(kind.name for kind in kinds)}")
    return MappingProxyType({name: found[name] for name in NAMES if name in found})


KINDS = _in_order()
