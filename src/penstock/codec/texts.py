"""JSON texts by the thousand: are they what they say? Pure."""

from __future__ import annotations

import re
from itertools import accumulate

import msgspec

from penstock.codec import kernel

_RAW = msgspec.json.Decoder(msgspec.Raw)
_NO_BRACKETS = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[^\[\]{}"]++', re.DOTALL)
_SHALLOW = 8
_DEPTH_PLAIN = 64  # as the kernel has it
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def are_json(texts: list[bytes]) -> bool:
    """Are all of them JSON in ASCII, without blanks around? If not, look at each."""
    if kernel.COMPILED:
        return kernel.are_plain_json(texts)
    try:  # parsed in C, and the texts themselves are let go at once
        is_plain_ascii = bool(list(map(_RAW.decode, texts))) and all(map(bytes.isascii, texts))
        return is_plain_ascii and not any(is_deep(text, _DEPTH_PLAIN) for text in texts)
    except (msgspec.DecodeError, RecursionError):
        return False


def _is_never(text: object) -> bool:
    return False


# Is it a bytes object with such a text? If not, look closer. Interpreted, a parser in C is faster.
is_plain = kernel.is_plain_text if kernel.COMPILED else _is_never


def is_deep(text: bytes, depth_max: int) -> bool:
    """Does this JSON have more brackets than that in each other?"""
    if len(text) <= 2 * depth_max or text.count(b"[") + text.count(b"{") <= depth_max:
        return False
    brackets = inner = _NO_BRACKETS.sub(b"", text)
    for _ in range(min(_SHALLOW, depth_max // 2)):  # the innermost go, at most two levels at once
        inner = inner.replace(b"[]", b"").replace(b"{}", b"")
    return bool(inner) and max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > depth_max
