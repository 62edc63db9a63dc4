"""Checks of many JSON texts at once: are they valid, and how deep do they nest? Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from penstock import limits
from penstock.codec import kernel
from penstock.errors import InvalidArgument

# A JSON text of at most this size cannot nest too deep: each level has two brackets.
SHALLOW_BYTES_MAX: Final = 2 * limits.JSON_DEPTH_MAX

_RAW = msgspec.json.Decoder(msgspec.Raw)


def are_json(texts: list[bytes]) -> bool:
    """Is each of them JSON in ASCII, without white space around it, and not nested too deep? If
    not, check them one by one."""
    if kernel.COMPILED:
        return kernel.are_plain_json(texts)
    if kernel.first_deep(texts, limits.JSON_DEPTH_MAX) >= 0:
        return False
    if any(text[:1].isspace() or text[-1:].isspace() for text in texts):
        return False
    try:  # parsed in C; the results are dropped at once
        return bool(list(map(_RAW.decode, texts))) and all(map(bytes.isascii, texts))
    except msgspec.DecodeError:
        return False


def _is_never(text: object) -> bool:
    return False


# Is it a bytes object with such a text? Interpreted, a parser in C is faster than our own check.
is_plain = kernel.is_plain_text if kernel.COMPILED else _is_never


def check_depth(texts: Sequence[bytes | None], what: str = "payload") -> None:
    """Raise InvalidArgument for the first text that nests deeper than JSON_DEPTH_MAX. Call it
    before a parser, which would raise RecursionError."""
    at = kernel.first_deep(texts, limits.JSON_DEPTH_MAX)
    text = None if at < 0 else texts[at]
    if text is not None:
        which = what if len(texts) == 1 else f"record {at}: {what}"
        raise InvalidArgument(
            f"{which} nests {kernel.nesting(bytes(text))} levels deep, "
            f"at most {limits.JSON_DEPTH_MAX} are allowed"
        )


def depth_beyond(text: bytes, most: int) -> int:
    """How deep a JSON text nests if that is deeper than `most`, else 0."""
    return 0 if kernel.first_deep([text], most) < 0 else kernel.nesting(text)


def too_deep(what: str = "payload") -> InvalidArgument:
    """The error for a value whose encoding ended in a RecursionError."""
    return InvalidArgument(
        f"{what} nests too deep to be encoded as JSON, "
        f"at most {limits.JSON_DEPTH_MAX} levels are allowed"
    )
