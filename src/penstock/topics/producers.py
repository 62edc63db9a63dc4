"""Who sent numbered batches to a topic, and how far each has come: a repeated one adds nothing.

A sender numbers its frames without gaps and sends them in order, so one number tells of all
before it. The number travels as the key of the batch, which is logged and kept with the records;
what tells it from a caller's own key is its first byte, which no caller's key has.

A producer that makes its rows anew each time, as a Spark task does, gives a *proof* with each
number: a checksum of all rows of this run up to here, and whether they end here. A run is all
numbers with the same upper bits. What is dropped because its number is known is then known to be
what the topic holds, or refused.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import InvalidArgument
from penstock.limits import PRODUCERS_MAX

MARK: Final = b"\0"
PRODUCER_BYTES: Final = 16
PROOF_BYTES: Final = 9  # a checksum, and 1 in the last batch of a run
RUN_BITS: Final = 24  # of a number: the place in its run
_NUMBER_BYTES: Final = 8
_NAME_BYTES: Final = 1 + PRODUCER_BYTES + _NUMBER_BYTES


def key_of(producer: bytes, number: int, proof: bytes = b"") -> bytes:
    """The key of a producer's batch."""
    if len(producer) != PRODUCER_BYTES or len(proof) not in (0, PROOF_BYTES):
        raise AssertionError(f"{producer!r} and {proof!r} make no key")
    return MARK + producer + number.to_bytes(_NUMBER_BYTES, "big") + proof


def split(key: bytes) -> tuple[bytes, int, bytes] | None:
    """Whose batch, which, and its proof, if any; None for the key of a caller."""
    if not key.startswith(MARK):
        return None
    end = 1 + PRODUCER_BYTES
    return key[1:end], int.from_bytes(key[end:_NAME_BYTES], "big"), key[_NAME_BYTES:]


def name_of(key: bytes) -> bytes:
    """A key without its proof: two batches of this name are never both appended."""
    return key[:_NAME_BYTES] if key.startswith(MARK) else key


class Producers:
    """The last numbers, those heard of longest ago first. Guarded by the topic's lock."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[bytes, tuple[int, bytes]] = {}

    def __bool__(self) -> bool:
        return bool(self._last)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Producers) and self.as_keys() == other.as_keys()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def note(self, producer: bytes, number: int, proof: bytes = b"") -> None:
        """This batch is in the topic, and so are all before it."""
        last = self._last
        last[producer] = max((number, proof), last.pop(producer, (0, b"")))
        if len(last) > PRODUCERS_MAX:
            del last[next(iter(last))]

    def has(self, producer: bytes, number: int, proof: bytes = b"") -> bool:
        """Is this batch in the topic, or was it? InvalidArgument when another one is, by this
        number or in its place."""
        last, known = self._last.get(producer, (-1, b""))
        if proof and known:
            _check(number, proof, last, known)
        return number <= last

    def as_keys(self) -> list[bytes]:
        """All there is to know, as keys in their order."""
        return [key_of(producer, *last) for producer, last in self._last.items()]


def _check(number: int, proof: bytes, last: int, known: bytes) -> None:
    """Can a batch with this number and proof belong to what was taken up to the last?"""
    run, place = divmod(number, 1 << RUN_BITS)
    last_run, last_place = divmod(last, 1 << RUN_BITS)
    if run < last_run:
        raise InvalidArgument(f"run {run} comes again, and run {last_run} is in the topic already")
    if run > last_run:
        return
    differs = (
        (place > last_place and _is_end(known))
        or (place == last_place and proof != known)
        or (place < last_place and _is_end(proof))
    )
    if differs:
        raise InvalidArgument(f"run {run} comes again with other rows than the topic has of it")


def _is_end(proof: bytes) -> bool:
    return proof[-1] != 0
