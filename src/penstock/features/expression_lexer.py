"""The words of an expression's text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from penstock.errors import InvalidArgument
from penstock.features.expression import I64_MAX

EXPRESSION_CHARS_MAX: Final = 65_536

TokenKind = Literal["number", "text", "name", "symbol", "end"]


class Token(NamedTuple):
    """One word. The value of a number is an int or a float, that of a text is decoded."""

    kind: TokenKind
    value: int | float | str
    place: int


class InvalidExpression(InvalidArgument):
    """The text of an expression is wrong. `place` counts its characters from 0."""

    def __init__(self, why: str, text: str, place: int) -> None:
        start = max(0, place - 24)
        around = text[start : place + 24]
        marked = ("…" if start else "") + around + ("…" if place + 24 < len(text) else "")
        super().__init__(f"{why}, at character {place + 1} of the expression, in {marked!r}")
        self.why = why
        self.place = place


_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r\n]+)
      | (?P<number>(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?P<exponent>[eE][+-]?[0-9]+)?)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)?)
      | (?P<symbol>==|!=|<=|>=|[<>+\-*/(),])
      | (?P<quote>['"])""",
    re.VERBOSE,
)
_PLAIN: Final = {"'": re.compile(r"[^'\\]*"), '"': re.compile(r'[^"\\]*')}
_ESCAPE: Final = re.compile(r"x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}")
_SINGLE: Final = {
    **{char: char for char in "\\'\"/"},
    **{"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"},
}
_HINTS: Final = {
    "=": "unexpected '=': equality is written ==",
    "&": "unexpected '&': write and",
    "|": "unexpected '|': write or",
    "~": "unexpected '~': write not",
    "!": "unexpected '!': write not, or != for unequal",
}


def tokens(text: str) -> Iterator[Token]:
    """The words of a text, and at last one of kind "end"."""
    if len(text) > EXPRESSION_CHARS_MAX:
        raise InvalidArgument(
            f"the expression has {len(text)} characters: expected at most {EXPRESSION_CHARS_MAX}"
        )
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            why = _HINTS.get(text[at], f"unexpected {text[at]!r}")
            raise InvalidExpression(why, text, at)
        place, at = at, match.end()
        if match["number"]:
            yield Token("number", _number(match, text), place)
            if at < len(text) and (text[at].isalnum() or text[at] in "._"):
                raise InvalidExpression(f"unexpected {text[at]!r} in a number", text, at)
        elif match["name"]:
            yield Token("name", match["name"], place)
        elif match["symbol"]:
            yield Token("symbol", match["symbol"], place)
        elif match["quote"]:
            value, at = _quoted(text, place)
            yield Token("text", value, place)
    yield Token("end", "", len(text))


def _number(match: re.Match[str], text: str) -> int | float:
    spelled = match["number"]
    if match["exponent"] or "." in spelled:
        value = float(spelled)
        if value - value != 0:
            raise InvalidExpression("the number is too large for an f64", text, match.start())
        return value
    # One more than an i64 holds: it may be the smallest one without its sign.
    digits = spelled.lstrip("0") or "0"
    if len(digits) > 19 or int(digits) > I64_MAX + 1:
        raise InvalidExpression(
            f"the integer is too large for an i64: for a float write {spelled[:20]}.0",
            text,
            match.start(),
        )
    return int(digits)


def _quoted(text: str, start: int) -> tuple[str, int]:
    """The text between quotes, and where it ends."""
    quote = text[start]
    parts: list[str] = []
    at = start + 1
    while True:
        plain = _PLAIN[quote].match(text, at)
        if plain is not None:
            parts.append(plain[0])
            at = plain.end()
        if at >= len(text):
            raise InvalidExpression(f"the text that begins with {quote} has no end", text, start)
        if text[at] == quote:
            break
        char, at = _escaped(text, at)
        parts.append(char)
    return _paired("".join(parts), text, start), at + 1


def _escaped(text: str, at: int) -> tuple[str, int]:
    """What stands after the backslash at `at`, and where it ends."""
    following = text[at + 1 : at + 2]
    if following in _SINGLE:
        return _SINGLE[following], at + 2
    match = _ESCAPE.match(text, at + 1)
    code = int(match[0][1:], 16) if match else 0x110000
    if match is None or code > 0x10FFFF:
        raise InvalidExpression(
            f"unknown escape '\\{following}': expected one of \\\\ \\' \\\" \\/ \\n \\t \\r \\b "
            "\\f \\xNN \\uNNNN \\UNNNNNNNN",
            text,
            at,
        )
    return chr(code), match.end()


def _paired(value: str, text: str, start: int) -> str:
    """With each pair of surrogates, as JSON escapes them, made one character."""
    if not any("\ud800" <= char <= "\udfff" for char in value):
        return value
    try:
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise InvalidExpression("half of a surrogate pair in a text", text, start) from None
