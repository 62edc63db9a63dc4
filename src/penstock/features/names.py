"""Names of events, tables, columns and features."""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Iterable
from typing import Final

from penstock.errors import InvalidArgument

NAME_CHARS_MAX: Final = 128

_REPR: Final = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 80
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)


def is_name(value: object) -> bool:
    """True for a text that may be a name."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def name_of(value: object, what: str = "name") -> str:
    """Check a name and return it."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidArgument(
            f"invalid {what} {shown(value)}: expected letters, digits and _, not beginning with a "
            f"digit, at most {NAME_CHARS_MAX} characters"
        )
    return value


def shown(value: object) -> str:
    """A value of a caller in an error message, not too long, however large or deep it is."""
    try:
        return _REPR.repr(value)
    except ValueError:  # an int of thousands of digits
        return f"of type {type(value).__name__}"


def nearest(word: object, known: Iterable[str]) -> str:
    """The name that the caller may have meant, as the end of an error message; or what there is."""
    names = sorted(known)
    text = word[:NAME_CHARS_MAX] if isinstance(word, str) else ""
    near = difflib.get_close_matches(text, names, 1, 0.5)
    if near:
        return f"did you mean {near[0]!r}?"
    if not names:
        return "there is none"
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return "there is " + ", ".join(repr(name) for name in names[:12]) + more
