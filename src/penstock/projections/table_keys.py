"""Keys of a table: strings, whole numbers and truth values, as bytes that sort as the keys do.

`false`, `true`, then numbers by their value, then strings by their characters. `1`, `"1"` and
`true` are three keys.
"""

from __future__ import annotations

import functools
import struct
from typing import Any, Final

import msgspec

from penstock import limits
from penstock.errors import InvalidArgument
from penstock.projection_types import TableKey

_BOOL: Final = b"\1"
_INT: Final = b"\2"
_TEXT: Final = b"\3"
_I64 = 1 << 63
_NUMBER = struct.Struct(">Q")  # big endian, so that the bytes sort as the numbers


def packed(key: object) -> bytes | None:
    """The bytes of a key; None when it cannot be one: null, a fraction, a list, too long."""
    if isinstance(key, str):
        try:
            text = key.encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            return None
        return _TEXT + text if len(text) <= limits.TABLE_KEY_BYTES_MAX else None
    if isinstance(key, bool):
        return _BOOL + (b"\1" if key else b"\0")
    if isinstance(key, int) and -_I64 <= key < _I64:
        return _INT + _NUMBER.pack(key + _I64)
    return None


def packed_text(text: bytes) -> bytes | None:
    """The same for a string key in UTF-8."""
    return _TEXT + text if len(text) <= limits.TABLE_KEY_BYTES_MAX else None


def unpacked(key: bytes) -> TableKey:
    kind = key[:1]
    if kind == _TEXT:
        return key[1:].decode()
    if kind == _INT:
        return int(_NUMBER.unpack_from(key, 1)[0]) - _I64
    return key[1] == 1


def checked(key: object) -> bytes:
    """The bytes of a caller's key."""
    found = packed(key)
    if found is None:
        raise InvalidArgument(
            f"invalid key {shown(key)}: expected text of at most {limits.TABLE_KEY_BYTES_MAX} "
            "bytes, a whole number of 64 bits, or true or false"
        )
    return found


def shown(key: object) -> str:
    text = repr(key)
    return text if len(text) <= 80 else text[:80] + "…"


class KeySource:
    """Where the key of a record is: its tag, its node, or a field of its data."""

    def __init__(self, spelled: object) -> None:
        if not isinstance(spelled, str) or not spelled or len(spelled) > limits.KEY_BYTES_MAX:
            raise InvalidArgument(
                f"invalid key {shown(spelled)} of a table: expected the name of a field of the "
                'data, "tag" or "node"'
            )
        self.spelled = spelled
        self.is_tag = spelled == "tag"
        self.is_node = spelled == "node"
        self.field = "" if self.is_tag or self.is_node else spelled.removeprefix("data.")
        if not self.field and not self.is_tag and not self.is_node:
            raise InvalidArgument("invalid key 'data.' of a table: the field has no name")
        self._decode = _field_decoder(self.field) if self.field else None

    def of_data(self, text: bytes) -> bytes | None:
        """The key in this JSON text; None when there is none that can be one."""
        if self._decode is None:
            return None
        try:
            return packed(self._decode(text).key)
        except (msgspec.ValidationError, msgspec.DecodeError, RecursionError):
            return None


@functools.lru_cache(256)
def _field_decoder(field: str) -> Any:
    """Reads one field of an object, and steps over all others."""
    try:
        model = msgspec.defstruct("KeyOnly", [("key", Any, None)], rename={"key": field})
    except ValueError:
        raise InvalidArgument(
            f"invalid key {shown(field)} of a table: the name of a field may not contain quotes, "
            "backslashes or control characters"
        ) from None
    return msgspec.json.Decoder(model).decode
