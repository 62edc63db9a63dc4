"""What a place for old segments must be able to do. Keys are relative, parts joined by slashes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.storage.fs import Buffer

Keys = list[str]


class Tier(Protocol):
    """Blobs that are written whole and never changed. Calls raise OSError, FileNotFoundError for
    a key that is not there. Safe from several threads."""

    @property
    def where(self) -> str:
        """Its address, as people write it."""

    def put(self, key: str, parts: Sequence[Buffer]) -> None:
        """Durable when this returns, and never seen in part. What was there is replaced."""

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        """The same for a key that is not there, or is empty; FileExistsError for any other."""

    def read_range(self, key: str, offset: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end."""

    def map(self, key: str) -> memoryview:
        """All of it, in whatever way is cheapest to read more than once."""

    def length(self, key: str) -> int: ...

    def is_safe(self, key: str, size: int) -> bool:
        """May a view that `map` gave earlier, of this size, still be touched?"""

    def list(self, prefix: str) -> Keys:
        """Every key below this one, sorted; [] when there is none."""

    def delete(self, key: str) -> None:
        """Fine when it is not there."""
