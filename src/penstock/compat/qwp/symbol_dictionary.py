"""Symbols: repeated texts that a client sends once and later refers to by number.

The dictionary of a connection grows with its messages. A message may instead bring a dictionary for
each column. A number that is in no dictionary is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock import limits
from penstock.compat.qwp.byte_reader import ByteReader, QwpError, QwpStatus

SYMBOL_BYTES_MAX: Final = 1 << 20
SYMBOLS_MAX: Final = 2_000_000
SYMBOLS_BYTES_MAX: Final = 256 * limits.MIB


class SymbolDictionary:
    """The symbols of one connection, by their numbers. Not for several threads."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._bytes = 0

    def learn(self, reader: ByteReader) -> None:
        """Add symbols, which may include known ones."""
        start, count = reader.varint(), reader.varint()
        if start > len(self.texts):
            raise QwpError(
                f"symbols from {start} on, but only {len(self.texts)} are known", QwpStatus.GAP
            )
        if count > reader.left or start + count > SYMBOLS_MAX:
            raise QwpError(f"{count} symbols are too many")
        found = [reader.text("symbol", SYMBOL_BYTES_MAX) for _ in range(count)]
        self._bytes += _size(found) - _size(self.texts[start : start + count])
        self.texts[start : start + count] = found
        if self._bytes > SYMBOLS_BYTES_MAX:
            raise QwpError(f"the symbols have more than {SYMBOLS_BYTES_MAX} bytes")


def read_column_dictionary(reader: ByteReader) -> list[str]:
    """The symbols that a column brings for itself."""
    count = reader.varint()
    if count > reader.left:
        raise QwpError("a symbol dictionary is longer than its message")
    return [reader.text("symbol", SYMBOL_BYTES_MAX) for _ in range(count)]


def resolve(numbers: Sequence[int], known: Sequence[str]) -> list[str]:
    """The texts of these numbers."""
    try:
        return [known[number] for number in numbers]
    except IndexError:
        raise QwpError(f"a symbol id is out of range: {max(numbers)} of {len(known)}") from None


def _size(texts: list[str]) -> int:
    return sum(len(text.encode()) for text in texts)
