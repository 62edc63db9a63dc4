"""The examples run and tell the story that their pages tell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT, blocks
from tests.docs.test_sessions import environment

EXAMPLES = ROOT / "examples"


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name / "main.py"), *arguments]
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, check=True, timeout=600
    ).stdout


def test_every_example_has_a_page_and_a_program() -> None:
    for directory in EXAMPLES.iterdir():
        names = {path.name for path in directory.iterdir()}
        assert "README.md" in names
        assert names & {"main.py", "spark-pipeline.yml"}


def test_the_embedded_example_tells_its_story() -> None:
    (said,) = (block for block in blocks("examples/embedded/README.md") if block.language == "text")

    assert run("embedded") == said.text


def test_the_embedded_example_can_be_run_again_in_the_same_directory(tmp_path: Path) -> None:
    """The till repeats itself with the same keys, so the second day finds everything sold."""
    first = run("embedded", str(tmp_path))

    again = run("embedded", str(tmp_path))

    assert again.count("(already there)") == 3
    assert first.splitlines()[-2] == again.splitlines()[-2]


def test_the_example_of_features_tells_its_story() -> None:
    (said,) = (block for block in blocks("examples/features/README.md") if block.language == "text")

    assert run("features") == said.text


def test_the_example_of_features_can_be_run_again_in_the_same_directory(tmp_path: Path) -> None:
    """Its payments have the same ids, so the second run finds all of them."""
    run("features", str(tmp_path))

    again = run("features", str(tmp_path))

    assert again.count("(seen before)") == 9
