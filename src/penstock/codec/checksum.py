"""The checksum of everything Penstock writes: XXH3-64, seed 0, in one place."""

from __future__ import annotations

from penstock.codec.kernel import xxh3_64

__all__ = ["xxh3_64"]
