"""The pages of the documentation, as the tests of this directory read them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block; `output` is the text block that follows it, if one does."""

    language: str
    text: str
    output: str | None


def pages() -> list[Path]:
    """Every page a reader can come to."""
    found = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    return sorted(found)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def everything() -> str:
    """README and docs as one text."""
    return "\n".join(path.read_text(encoding="utf-8") for path in pages())


def prose(text: str) -> str:
    """Without fenced blocks."""
    return _FENCE.sub("", text)


def blocks(name: str) -> list[Block]:
    found = list(_FENCE.finditer(page(name)))
    made = []
    for here, following in zip(found, [*found[1:], None], strict=True):
        output = None
        if following is not None and following[1] == "text":
            between = page(name)[here.end() : following.start()]
            output = following[2] if not between.strip() else None
        made.append(Block(here[1], here[2], output))
    return made


def rows(name: str, heading: str = "") -> list[list[str]]:
    """The cells of every table row of a page, or of one section; code marks are taken off."""
    text = page(name)
    if heading:
        start = text.index(f"\n{heading}\n") + len(heading)
        level = heading.split(" ")[0]
        following = re.search(rf"^#{{1,{len(level)}}} ", text[start:], re.MULTILINE)
        text = text[start : start + following.start()] if following else text[start:]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    found = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [[cell.replace("`", "") for cell in cells] for cells in found]
