"""Idempotency keys for clients that send none: what is sent again is known by its values. Pure."""

from __future__ import annotations

import hashlib
from typing import Final

_REMEMBERED_MAX: Final = 65_536
_DIGEST_BYTES: Final = 20


class Keys:
    """One connection's. What a client sends again after a reconnect is the same to the last byte,
    and so is its key. On one connection nothing is sent again: the same rows twice are meant
    twice, so they are counted, and the count is in the key.

    Callers with different API keys never meet: `owner` is in the key as well.
    """

    def __init__(self, owner: bytes) -> None:
        self._owner = owner
        self._sent: dict[bytes, int] = {}  # digest -> how often; the oldest first

    def key(self, table: str, rows: list[bytes]) -> bytes:
        name = table.encode()
        digest = hashlib.blake2b(self._owner, digest_size=_DIGEST_BYTES)
        digest.update(b"%d %b" % (len(name), name))
        digest.update(b"\n".join(rows))  # no row has a line end in it
        found = digest.digest()
        count = self._sent.pop(found, 0)
        self._sent[found] = count + 1
        if len(self._sent) > _REMEMBERED_MAX:
            del self._sent[next(iter(self._sent))]
        return b"qwp:%b:%d" % (found.hex().encode(), count)
