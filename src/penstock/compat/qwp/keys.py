"""Idempotency keys for clients that send none: what is sent again is known by its values. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.compat.qwp.receipts import Receipts, Told

_REMEMBERED_MAX: Final = 65_536
_DIGEST_BYTES: Final = 20


def digest_of(owner: bytes, table: str, rows: list[bytes]) -> bytes:
    """The same for the same rows alone. Callers with different API keys never meet: `owner` is in
    it as well."""
    name = table.encode()
    digest = hashlib.blake2b(owner, digest_size=_DIGEST_BYTES)
    digest.update(b"%d %b" % (len(name), name))
    digest.update(b"\n".join(rows))  # no row has a line end in it
    return digest.digest()


class Mark(NamedTuple):
    """Which of the equal messages one is: number 0 is the first."""

    digest: bytes
    number: int

    @property
    def key(self) -> bytes:
        return b"qwp:%b:%d" % (self.digest.hex().encode(), self.number)


class Keys:
    """One connection's. What a client sends again after a reconnect is the same to the last byte,
    and it is what the client has heard no OK for: counting goes on behind those it heard. On one
    connection nothing is sent again: the same rows twice are meant twice."""

    def __init__(self, receipts: Receipts, told: Told) -> None:
        self._receipts = receipts
        self._told = told  # what this connection was told
        self._sent: dict[bytes, int] = {}  # digest -> the next number; the oldest first

    def mark(self, digest: bytes, is_held: Callable[[bytes], bool]) -> Mark:
        """The next message with these values. `is_held` says whether its topic has a key."""
        heard = self._receipts.heard(
            digest, self._told, lambda number: is_held(Mark(digest, number).key)
        )
        number = max(heard, self._sent.pop(digest, 0))
        self._sent[digest] = number + 1
        if len(self._sent) > _REMEMBERED_MAX:
            del self._sent[next(iter(self._sent))]
        return Mark(digest, number)
