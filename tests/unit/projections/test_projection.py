"""The protocols of a projection: what takes part must fit them."""

from __future__ import annotations

from penstock.projections.projection import Projection, Tail
from tests.unit.projections.support import Adder, ListTail


def test_the_toys_of_these_tests_fit_the_protocols() -> None:
    adder: Projection = Adder()
    tail: Tail = ListTail()

    assert (adder.kind, adder.wanted, tail.topic) == ("adder", 8, "t")
