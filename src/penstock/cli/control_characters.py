"""Control characters of texts from records and files, escaped for a terminal."""

from __future__ import annotations


def one_line(text: str) -> str:
    """Escape the control characters of a text, so that it is safe to print on a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()
