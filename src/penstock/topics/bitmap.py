"""A growing set of small integers as bits: which records of a span are dead."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Final

from penstock.atomic_steps import Step, perform

_LOOK: Final = 32  # bytes that are looked at in one step


def indices_of(packed: bytes) -> array[int]:
    """Unpack a little-endian u32 array."""
    found = array("I")
    found.frombytes(packed)
    if sys.byteorder == "big":
        found.byteswap()
    return found


def pack_indices(indices: Iterable[int]) -> bytes:
    """Pack as a little-endian u32 array."""
    packed = array("I", indices)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


class Bitmap:
    """Bits numbered from 0, least significant first; bits beyond the stored bytes are clear."""

    __slots__ = ("bits",)

    def __init__(self, bits: bytes = b"") -> None:
        self.bits = bytearray(bits)

    def add(self, index: int) -> bool:
        """Set one bit; true when it was clear."""
        byte, mask = index >> 3, 1 << (index & 7)
        if byte >= len(self.bits):
            self.bits.extend(bytes(byte + 1 - len(self.bits)))
        if self.bits[byte] & mask:
            return False
        self.bits[byte] |= mask
        return True

    def add_all(self, indices: Sequence[int]) -> None:
        """Set the bits of ascending indices."""
        perform(self.adding(indices))

    def adding(self, indices: Sequence[int]) -> list[Step]:
        """The steps that set the bits of ascending indices."""
        if not indices:
            return []
        bits = self.bits
        first, stop = indices[0], indices[-1] + 1
        low, high = first >> 3, (stop + 7) >> 3
        window: bytes | bytearray
        if stop - first == len(indices):
            number = int.from_bytes(bits[low:high], "little")
            number |= ((1 << (stop - first)) - 1) << (first - low * 8)
            window = number.to_bytes(high - low, "little")
        else:
            window = bits[low:high].ljust(high - low, b"\0")
            for index in indices:
                window[(index >> 3) - low] |= 1 << (index & 7)
        assigned: Step = (bits.__setitem__, slice(low, high), window)
        if high <= len(bits):
            return [assigned]
        return [(bits.extend, bytes(high - len(bits))), assigned]

    def below(self, stop: int) -> Bitmap:
        """A copy without the bits from `stop` on."""
        same = Bitmap(bytes(self.bits[: (stop + 7) >> 3]))
        if stop & 7 and len(same.bits) == (stop + 7) >> 3:
            same.bits[-1] &= (1 << (stop & 7)) - 1
        return same

    def __contains__(self, index: int) -> bool:
        byte = index >> 3
        return byte < len(self.bits) and bool(self.bits[byte] & (1 << (index & 7)))

    def count(self, start: int, stop: int) -> int:
        """How many bits are set in start..stop-1."""
        stop = min(stop, len(self.bits) * 8)
        if start >= stop:
            return 0
        low, high = start >> 3, (stop + 7) >> 3
        window = int.from_bytes(self.bits[low:high], "little")
        window >>= start - low * 8
        window &= (1 << (stop - start)) - 1
        return window.bit_count()

    def first_clear(self, start: int, stop: int) -> int:
        """The first clear bit in start..stop-1, or stop."""
        index = start
        bits = self.bits
        size = len(bits) * 8
        while index < stop and index < size:
            if index & 7 == 0 and bits[index >> 3] == 0xFF:
                index += 8
            elif bits[index >> 3] & (1 << (index & 7)):
                index += 1
            else:
                break
        return min(index, stop)

    def first_set(self, start: int, stop: int) -> int:
        """The first set bit in start..stop-1, or stop."""
        index = start
        size = len(self.bits) * 8
        while index < stop and index < size:
            low = index >> 3
            window = int.from_bytes(self.bits[low : low + _LOOK], "little") >> (index - low * 8)
            if window:
                return min(stop, index + (window & -window).bit_length() - 1)
            index = (low + _LOOK) * 8
        return stop

    def last_clear(self, start: int, stop: int) -> int:
        """The last clear bit in start..stop-1, or start - 1."""
        index = stop - 1
        while index >= start and index in self:
            index -= 1
        return index

    def nth_clear(self, start: int, stop: int, nth: int) -> int:
        """The index just past the nth clear bit (counted from 1) of start..stop-1, or stop."""
        low, high = start, stop
        while low < high:  # the smallest end with at least nth clear bits before it
            middle = (low + high) // 2
            if middle - start - self.count(start, middle) >= nth:
                high = middle
            else:
                low = middle + 1
        return low
