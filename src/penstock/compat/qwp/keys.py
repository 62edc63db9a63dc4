"""Idempotency keys for clients that send none: resent messages are detected by their values.
Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.compat.qwp.resend_detection import Receipts, Told

_REMEMBERED_MAX: Final = 65_536
_DIGEST_BYTES: Final = 20


def digest_of(owner: bytes, table: str, rows: list[bytes]) -> bytes:
    """A digest of the rows and of `owner`, so that callers with different API keys have different
    keys."""
    name = table.encode()
    digest = hashlib.blake2b(owner, digest_size=_DIGEST_BYTES)
    digest.update(b"%d %b" % (len(name), name))
    digest.update(b"\n".join(rows))  # no row has a line end in it
    return digest.digest()


class MessageNumber(NamedTuple):
    """The number of a message among equal ones, from 0."""

    digest: bytes
    number: int

    @property
    def key(self) -> bytes:
        return b"qwp:%b:%d" % (self.digest.hex().encode(), self.number)


class Keys:
    """The keys of one connection. After a reconnect a client resends, byte for byte, the messages
    for which it has received no OK: numbers continue after those it has received. On one connection
    nothing is resent: equal rows are separate rows."""

    def __init__(self, receipts: Receipts, told: Told) -> None:
        self._receipts = receipts
        self._told = told  # what this connection was told
        self._sent: dict[bytes, int] = {}  # digest -> the next number; the oldest first

    def mark(self, digest: bytes, is_held: Callable[[bytes], bool]) -> MessageNumber:
        """The key of the next message with these values. `is_held` returns whether its topic has a
        key."""
        heard = self._receipts.heard(
            digest, self._told, lambda number: is_held(MessageNumber(digest, number).key)
        )
        number = max(heard, self._sent.pop(digest, 0))
        self._sent[digest] = number + 1
        if len(self._sent) > _REMEMBERED_MAX:
            del self._sent[next(iter(self._sent))]
        return MessageNumber(digest, number)
