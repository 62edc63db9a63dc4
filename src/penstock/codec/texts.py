"""JSON texts by the thousand: are they what they say? Pure."""

from __future__ import annotations

import msgspec

from penstock.codec import kernel

_RAW = msgspec.json.Decoder(msgspec.Raw)


def are_json(texts: list[bytes]) -> bool:
    """Are all of them JSON in ASCII, without blanks around? If not, look at each."""
    if kernel.COMPILED:
        return kernel.are_plain_json(texts)
    try:  # parsed in C, and the texts themselves are let go at once
        return bool(list(map(_RAW.decode, texts))) and all(map(bytes.isascii, texts))
    except (msgspec.DecodeError, RecursionError):
        return False


def _is_never(text: object) -> bool:
    return False


# Is it a bytes object with such a text? If not, look closer. Interpreted, a parser in C is faster.
is_plain = kernel.is_plain_text if kernel.COMPILED else _is_never
