"""Links between pages lead somewhere, and proofs that the docs name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, name_of, page, pages, prose

PACKAGE = ROOT / "src" / "penstock"
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(path: Path) -> set[str]:
    """What GitHub makes of a page's headings."""
    text = prose(path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", pages(), ids=name_of)
def test_a_link_leads_somewhere(path: Path) -> None:
    broken = []
    for target in _LINK.findall(prose(path.read_text(encoding="utf-8"))):
        if target.startswith(("https://", "http://", "mailto:")):
            continue
        file, _, anchor = target.partition("#")
        to = (path.parent / file).resolve() if file else path
        if not to.exists() or (anchor and anchor not in anchors(to)):
            broken.append(target)

    assert not broken


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=name_of)
def test_a_page_can_be_reached_from_the_index(path: Path) -> None:
    if path == DOCS / "index.md":
        return

    linked = {(DOCS / target).resolve() for target in _LINK.findall(page("docs/index.md"))}

    assert path in linked


@pytest.mark.parametrize("path", pages(), ids=name_of)
def test_a_file_of_the_repository_that_a_page_names_exists(path: Path) -> None:
    named = re.findall(
        r"`((?:tests|src|docs|scripts|examples)/[\w./-]+\.\w+)`", path.read_text(encoding="utf-8")
    )

    missing = sorted({name for name in named if not (ROOT / name).exists()})

    assert not missing


def test_every_promise_has_a_meaning_and_a_proof() -> None:
    text = page("docs/guarantees.md").split("## The four classes")[0]
    promises = re.split(r"^### \d\. ", text, flags=re.MULTILINE)[1:]

    assert len(promises) == 9
    for promise in promises:
        assert "\n> **" in promise
        assert "**Now.**" in promise
        assert "**Proof.**" in promise
        assert "tests/" in promise


@pytest.mark.parametrize("path", pages(), ids=name_of)
def test_a_module_that_a_page_names_exists(path: Path) -> None:
    """Modules are named below src/penstock, as in `engine/read.py`."""
    packages = "|".join(sorted(found.parent.name for found in PACKAGE.glob("*/__init__.py")))
    named = re.findall(rf"`((?:{packages})/[\w/]+\.py)`", path.read_text(encoding="utf-8"))

    missing = sorted({name for name in named if not (PACKAGE / name).exists()})

    assert not missing or path.name == "CHANGELOG.md"
