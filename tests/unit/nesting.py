"""JSON of a given depth, in every shape that a scanner could count wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from penstock import limits

MOST: Final = limits.JSON_DEPTH_MAX
AROUND: Final = [MOST - 1, MOST, MOST + 1]
"""The last two that are allowed, and the first that is not."""


def arrays(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def objects(depth: int) -> bytes:
    return b'{"a":' * (depth - 1) + b"{}" + b"}" * (depth - 1)


def mixed(depth: int) -> bytes:
    levels = [(b"[1,", b",3]"), (b'{"b":2,"a":', b',"c":[]}')] * depth
    outer = levels[: depth - 1]
    closings = [closing for _, closing in reversed(outer)]
    return b"".join([opening for opening, _ in outer] + [b"{}"] + closings)


def with_brackets_in_strings(depth: int) -> bytes:
    text = b'"' + b"[{" * MOST + b'"'
    return b"[" * (depth - 1) + b"{%b:%b}" % (text, text) + b"]" * (depth - 1)


def with_escapes(depth: int) -> bytes:
    text = b'"\\\\\\"[{' + b'\\"}' * 20 + b'\\\\"'
    return b"[" + b"%b,[" % text * (depth - 1) + text + b"]" * depth


def with_blanks(depth: int) -> bytes:
    return b" \n" + b"[ " * depth + b" ]" * depth + b"\t"


def with_letters_beyond_ascii(depth: int) -> bytes:
    return b"[" * depth + '"é[漢{"'.encode() + b"]" * depth


PLAIN: Final[dict[str, Callable[[int], bytes]]] = {
    one.__name__: one for one in (arrays, objects, mixed, with_brackets_in_strings, with_escapes)
}
SHAPES: Final = PLAIN | {one.__name__: one for one in (with_blanks, with_letters_beyond_ascii)}


def value(depth: int) -> Any:
    """A value of that depth, for an encoder."""
    nested: Any = 0
    for level in range(depth):
        nested = [nested] if level % 2 else {"a": nested}
    return nested
