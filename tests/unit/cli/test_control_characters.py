"""Texts of others on a terminal: nothing in them acts on it."""

from __future__ import annotations

import pytest

from penstock.cli.control_characters import one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, with é", "plain, with é"),
        ("two\nlines", r"two\nlines"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\u202eback", r"\u202eback"),
    ],
)
def test_what_cannot_be_printed_is_escaped(text: str, shown: str) -> None:
    assert one_line(text) == shown
