"""Idempotency: which keyed batches a topic has, so that a repeated one adds nothing.

A caller's key is remembered with the seqs of its batch, for a window of time.

A sender numbers its frames without gaps and sends them in order, so its last number is enough. The
number is sent as the key of the batch, which is logged and stored with the records. Its first byte
tells it from a caller's key.

A producer that computes its rows again when it retries, as a Spark task does, sends a *proof* with
each number: a checksum of all rows of this run so far, and whether the run ends here. A run is all
numbers with the same upper bits. A batch with a known number is dropped only if its proof matches
the rows that the topic has; otherwise it is refused.
"""

from __future__ import annotations

from typing import Final

from penstock.atomic_steps import Step, perform
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
    """The producer, the number and the proof, if any; None for the key of a caller."""
    if not key.startswith(MARK):
        return None
    end = 1 + PRODUCER_BYTES
    return key[1:end], int.from_bytes(key[end:_NAME_BYTES], "big"), key[_NAME_BYTES:]


def name_of(key: bytes) -> bytes:
    """A key without its proof: two batches of this name are never both appended."""
    return key[:_NAME_BYTES] if key.startswith(MARK) else key


Keys = dict[bytes, tuple[int, int, int]]
"""Keys of callers -> first seq, last seq and time of their batches, oldest first."""


def remembering(
    keys: Keys, senders: Producers, key: bytes, batch: tuple[int, int, int]
) -> list[Step]:
    """The steps that remember the key of a batch."""
    numbered = split(key)
    if numbered is not None:
        return senders.noting(*numbered)
    return [(keys.pop, key, None), (keys.__setitem__, key, batch)]


def forget(keys: Keys, oldest_ts: int, keep_max: int) -> None:
    """Drop keys that are older, and the oldest of too many."""
    while keys:
        key = next(iter(keys))
        if keys[key][2] >= oldest_ts and len(keys) <= keep_max:
            return
        del keys[key]


class Producers:
    """The last number of each producer, least recently used first. Guarded by the topic's lock."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[bytes, tuple[int, bytes]] = {}

    def __bool__(self) -> bool:
        return bool(self._last)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Producers) and self.as_keys() == other.as_keys()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def note(self, producer: bytes, number: int, proof: bytes = b"") -> None:
        """Record that this batch and all before it are in the topic."""
        perform(self.noting(producer, number, proof))

    def noting(self, producer: bytes, number: int, proof: bytes = b"") -> list[Step]:
        """The steps of `note`."""
        last = self._last
        newest = max((number, proof), last.get(producer, (0, b"")))
        steps: list[Step] = [(last.pop, producer, None), (last.__setitem__, producer, newest)]
        if len(last) >= PRODUCERS_MAX and producer not in last:
            steps.append((last.__delitem__, next(iter(last))))
        return steps

    def has(self, producer: bytes, number: int, proof: bytes = b"") -> bool:
        """True if this batch is or was in the topic. InvalidArgument when another batch has this
        number or its place."""
        last, known = self._last.get(producer, (-1, b""))
        if proof and known:
            _check(number, proof, last, known)
        return number <= last

    def as_keys(self) -> list[bytes]:
        """All last numbers, as keys in their order."""
        return [key_of(producer, *last) for producer, last in self._last.items()]


def _check(number: int, proof: bytes, last: int, known: bytes) -> None:
    """Check that a batch with this number and proof can belong to the rows up to the last
    number."""
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
