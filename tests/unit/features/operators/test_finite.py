"""What JSON can carry."""

from __future__ import annotations

from penstock.features.operators.finite import finite, int64


def test_floats_beyond_the_range_are_null() -> None:
    assert finite(1e308) == 1e308
    assert [finite(float(text)) for text in ("inf", "-inf", "nan")] == [None, None, None]


def test_integers_beyond_64_bits_are_null() -> None:
    assert int64(2**63 - 1) == 2**63 - 1
    assert int64(-(2**63)) == -(2**63)
    assert [int64(2**63), int64(-(2**63) - 1)] == [None, None]
