"""API keys: their scopes and prefixes. Pure; secrets are kept as digests only."""

from __future__ import annotations

import enum
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field

from penstock.errors import InvalidArgument

_DIGEST = "sha256="


class Scope(enum.Flag):
    """What a key may do."""

    NONE = 0
    READ = 1
    WRITE = 2
    DELETE = 4
    ADMIN = 8
    ALL = 15

    @property
    def words(self) -> list[str]:
        """The single scopes in it, as keys and the document name them."""
        return [one.name.lower() for one in Scope if one in self and one.name is not None]


_WORDS = {
    "read": Scope.READ,
    "r": Scope.READ,
    "write": Scope.WRITE,
    "w": Scope.WRITE,
    "delete": Scope.DELETE,
    "del": Scope.DELETE,
    "d": Scope.DELETE,
    "admin": Scope.ADMIN,
    "a": Scope.ADMIN,
    "rw": Scope.READ | Scope.WRITE,
}


@dataclass(slots=True, eq=False)
class ApiKey:
    """One caller. `in_flight` and `streams` are counted in `key_limits`."""

    digest: bytes
    scopes: Scope = Scope.ALL
    prefixes: tuple[str, ...] = ()
    in_flight: int = 0
    streams: int = 0
    _allowed: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._allowed = self.scopes.value

    def may(self, scope: Scope) -> bool:
        need = scope.value
        return self._allowed & need == need

    def may_name(self, name: str) -> bool:
        return not self.prefixes or name.startswith(self.prefixes)


ANYONE = ApiKey(b"")  # who calls a server without keys
NOBODY = ApiKey(b"", Scope.NONE)  # who shows no valid key to one that has them


class Keyring:
    """The keys of a server. Without any, everyone may do everything."""

    def __init__(self, text: str) -> None:
        entries = [entry for entry in text.split(",") if entry.strip()]
        self._keys = [_parse(entry, number) for number, entry in enumerate(entries, 1)]
        self.is_open = not self._keys

    def find(self, authorization: bytes | None) -> ApiKey | None:
        """The key behind an `Authorization` header; None when there is none."""
        if self.is_open:
            return ANYONE
        if authorization is None or authorization[:7].lower() != b"bearer ":
            return None
        return self.find_token(authorization[7:].strip())

    def find_token(self, token: bytes) -> ApiKey | None:
        """Compares with every key in constant time, so that timing reveals nothing."""
        if self.is_open:
            return ANYONE
        digest = hashlib.sha256(token).digest()
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found


def _parse(entry: str, number: int) -> ApiKey:
    secret, _, rest = entry.strip().partition(":")
    scopes, _, prefixes = rest.partition(":")
    if not secret:
        raise InvalidArgument("an API key must not be empty")
    if secret.startswith(_DIGEST):
        digest = _digest_of(secret.removeprefix(_DIGEST), number)
    else:
        digest = hashlib.sha256(secret.encode()).digest()
    return ApiKey(digest, _scopes(scopes, number), tuple(one for one in prefixes.split("|") if one))


def new_key() -> tuple[str, str]:
    """A random key and its digest for the settings of a server. The digest gives no access."""
    secret = f"psk_{secrets.token_hex(4)}_{secrets.token_urlsafe(32)}"
    return secret, _DIGEST + hashlib.sha256(secret.encode()).hexdigest()


def _digest_of(text: str, number: int) -> bytes:
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(digest) != hashlib.sha256().digest_size:
        raise InvalidArgument(f"API key {number}: {_DIGEST} is followed by 64 hex digits")
    return digest


def _scopes(text: str, number: int) -> Scope:
    if not text.strip():
        return Scope.ALL
    granted = Scope.NONE
    for word in text.split("+"):
        scope = _WORDS.get(word.strip().lower())
        if scope is None:
            raise InvalidArgument(
                # Not the word itself: behind a colon in the secret it is a part of it.
                f"API key {number} has an unknown scope; known are: {', '.join(_WORDS)} "
                "(a key is written secret:scopes:prefixes, so its secret has no colon)"
            )
        granted |= scope
    return granted
