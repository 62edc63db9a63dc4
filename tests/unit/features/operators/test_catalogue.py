"""The catalogue of operators."""

from __future__ import annotations

from penstock.features.operators.catalogue import KINDS
from penstock.features.operators.operator_names import NAMES


def test_operators_are_listed_in_the_order_of_the_table() -> None:
    assert len(set(NAMES)) == len(NAMES) == 54
    assert list(KINDS) == [name for name in NAMES if name in KINDS]
    assert all(kind.name == name for name, kind in KINDS.items())


def test_every_operator_is_described() -> None:
    for name, kind in KINDS.items():
        assert kind.summary.endswith("."), name
        for parameter in kind.parameters:
            assert parameter.is_required or parameter.default is not None, (name, parameter.name)
