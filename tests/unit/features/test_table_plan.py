"""Plans of tables: checksums, and the types of a row."""

from __future__ import annotations

from penstock.features.definition import Definition
from penstock.features.table_plan import checksum_of
from tests.unit.features.feature_kinds import DOCUMENT, KINDS


def test_a_checksum_does_not_depend_on_the_order_of_members() -> None:
    assert checksum_of({"a": 1, "b": [1, 2]}) == checksum_of({"b": [1, 2], "a": 1})
    assert checksum_of({"b": [1, 2]}) != checksum_of({"b": [2, 1]})


def test_checksums_are_the_same_in_every_version() -> None:
    """A log holds them: what computes another one builds every feature anew."""
    shape = Definition.parse(DOCUMENT, kinds=KINDS).shape("RiderFeatures")

    assert shape.base == "86a6df3be495423e6a1affc86b310fea"
    assert shape.features["rides_1h"] == "5a2cc91bfc4a7ccb5d7bda1136c3a3ca"


def test_a_row_has_the_key_and_then_the_features() -> None:
    plan = Definition.parse(DOCUMENT, kinds=KINDS).plan("RiderFeatures")

    assert list(plan.output_schema) == ["who", "rides", "rides_1h", "spend", "p90", "slow"]
