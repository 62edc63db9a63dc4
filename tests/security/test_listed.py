"""The page on security names every control, and for each of them tests that say so."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.pages import rows

HERE = Path(__file__).parent
PAGE = "docs/operations/security.md"
CONTROLS = [f"S{n}" for n in (*range(1, 15), 17, *range(20, 24), 27, 28)]
ROWS = {row[0]: row for row in rows(PAGE, "## Controls") if re.fullmatch(r"S\d+", row[0])}


def written() -> dict[str, dict[str, str]]:
    """File -> test -> its docstring."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(HERE.glob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found[path.name] = {
            node.name: ast.get_docstring(node) or ""
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        }
    return found


TESTS = written()


def test_the_page_has_a_row_for_each_control() -> None:
    """S1 to S28: those that concern the server."""
    assert list(ROWS) == CONTROLS


@pytest.mark.parametrize("control", CONTROLS)
def test_a_control_names_tests_that_name_it(control: str) -> None:
    """S1 to S28: the proof of a row is a test that says so."""
    proof = ROWS[control][3]
    named = re.findall(r"\b(test_\w+\.py)|\b(test_\w+)", proof)

    assert named[0][0], "begin with the file"
    file, count = "", 0
    for path, name in named:
        if path:
            file = path
            continue
        count += 1
        assert re.search(rf"\b{control}\b", TESTS[file][name]), f"{file}: {name}"
    assert count


@pytest.mark.parametrize("file", sorted(set(TESTS) - {"test_listed.py"}))
def test_every_test_says_which_control_it_tries(file: str) -> None:
    """S1 to S28: in the first words of its docstring."""
    silent = [name for name, text in TESTS[file].items() if not re.match(r"S\d+\b", text)]

    assert silent == []
