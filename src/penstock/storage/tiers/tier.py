"""The interface of a tier. Keys are relative, with parts joined by slashes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.storage.fs import Buffer

Keys = list[str]


class Tier(Protocol):
    """Blobs that are written whole and never changed. Calls raise OSError, and FileNotFoundError
    for a missing key. Safe from several threads."""

    @property
    def where(self) -> str:
        """The address of the tier."""

    def put(self, key: str, parts: Sequence[Buffer]) -> None:
        """Write a blob atomically; durable on return. Replaces an existing one."""

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        """The same for a missing or empty key; FileExistsError for any other."""

    def map(self, key: str) -> memoryview:
        """The whole blob, in the form that is cheapest for repeated reads."""

    def length(self, key: str) -> int: ...

    def is_safe(self, key: str, size: int) -> bool:
        """True if an earlier view of `map` with this size may still be read."""

    def list(self, prefix: str) -> Keys:
        """Every key below this one, sorted; [] when there is none."""

    def delete(self, key: str) -> None:
        """Remove a blob; a missing one is not an error."""
