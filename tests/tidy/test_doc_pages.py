"""Rules for the text of the documentation: line length, and phrases that go out of date."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COLUMNS_MAX = 120
PAGES = sorted(
    [
        *(path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    ]
)
OUT_OF_DATE = re.compile(r"not built yet|as in the seed", re.IGNORECASE)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """Line number and line, without fenced blocks and tables."""
    is_fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        elif not is_fenced and not line.lstrip().startswith("|"):
            yield number, line


def is_too_long(line: str) -> bool:
    """A single word, such as a URL, cannot be wrapped and may be longer."""
    return len(line) > COLUMNS_MAX and len(line.split()) > 1


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_prose_is_wrapped(path: Path) -> None:
    found = [n for n, line in prose_lines(path.read_text(encoding="utf-8")) if is_too_long(line)]

    assert not found, f"wrap these lines at {COLUMNS_MAX} columns: {found}"


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_a_page_describes_the_present(path: Path) -> None:
    found = OUT_OF_DATE.findall(re.sub(r"\s+", " ", path.read_text(encoding="utf-8")))

    assert not found, "describe what exists today; plans belong in an issue"


def test_tables_and_fenced_blocks_are_exempt_from_wrapping() -> None:
    long = "word " * 30
    text = f"{long}\n\n| {long} |\n\n```\n{long}\n```\n\n- {long}\n"

    assert [number for number, line in prose_lines(text) if is_too_long(line)] == [1, 9]
