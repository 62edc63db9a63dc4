"""Who sent numbered batches to a topic, and how far each has come: a repeated one adds nothing.

A sender numbers its frames without gaps and sends them in order, so one number tells of all
before it. The number travels as the key of the batch, which is logged and kept with the records;
what tells it from a caller's own key is its first byte, which no caller's key has.
"""

from __future__ import annotations

from typing import Final

from penstock.limits import PRODUCERS_MAX

MARK: Final = b"\0"
_NUMBER_BYTES: Final = 8


def key_of(producer: bytes, number: int) -> bytes:
    """The key of a producer's batch."""
    return MARK + producer + number.to_bytes(_NUMBER_BYTES, "big")


def split(key: bytes) -> tuple[bytes, int] | None:
    """Whose batch, and which; None for the key of a caller."""
    if not key.startswith(MARK):
        return None
    return key[1:-_NUMBER_BYTES], int.from_bytes(key[-_NUMBER_BYTES:], "big")


class Producers:
    """The last numbers, those heard of longest ago first. Guarded by the topic's lock."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[bytes, int] = {}

    def __bool__(self) -> bool:
        return bool(self._last)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Producers) and self.as_keys() == other.as_keys()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def note(self, producer: bytes, number: int) -> None:
        """This batch is in the topic, and so are all before it."""
        last = self._last
        last[producer] = max(number, last.pop(producer, 0))
        if len(last) > PRODUCERS_MAX:
            del last[next(iter(last))]

    def has(self, producer: bytes, number: int) -> bool:
        """Is this batch in the topic, or was it?"""
        return number <= self._last.get(producer, -1)

    def as_keys(self) -> list[bytes]:
        """All there is to know, as keys in their order."""
        return [key_of(producer, number) for producer, number in self._last.items()]
