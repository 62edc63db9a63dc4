"""The sessions and programs on the pages run, and print what the pages say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from tests.docs.pages import blocks
from tests.support import rig

END = "\x1e"  # printed between two blocks of a page
PROGRAMS = [
    "README.md",
    "docs/quickstart.md",
    "docs/embedded.md",
    "docs/api/client.md",
    "docs/api/sender.md",
    "docs/compat.md",
    "docs/features/definition.md",
    "docs/operations/config.md",
    "docs/operations/metrics.md",
]
if rig.IS_FULL:  # a minute, for the first queries of a Spark
    PROGRAMS += ["docs/spark.md", "docs/features/spark.md"]
SESSIONS = ["README.md"]
ON_SPARK = re.compile(r"^penstock features (?:train|backfill|verify) ")
# What a page waits for short. On a busy machine such a wait may be over before anything has come;
# then the page is run again with longer ones.
WAITS = re.compile(r"\btimeout_s=(0\.\d+)")


def environment() -> dict[str, str]:
    """This one, with the package's command in front and no settings of ours in it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return kept | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def run(command: list[str], cwd: Path) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def program_of(name: str) -> tuple[str, list[str]]:
    """The Python of a page as one program, and what each block prints."""
    programs = [block for block in blocks(name) if block.language == "python"]
    script = f"\nprint(end={END!r})\n".join(block.text for block in programs)
    return script, [block.output or "" for block in programs]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_python_on_a_page_runs_from_top_to_bottom(name: str, tmp_path: Path) -> None:
    script, wanted = program_of(name)

    for factor in (1, 10, 100) if WAITS.search(script) else (1,):
        home = tmp_path / f"{factor}"
        home.mkdir()
        patient = WAITS.sub(lambda wait, by=factor: f"timeout_s={float(wait[1]) * by:g}", script)
        printed = run([sys.executable, "-c", patient], home).split(END)
        if printed == wanted:
            break

    assert wanted
    assert printed == wanted


def test_the_tests_on_the_page_about_testing_pass(tmp_path: Path) -> None:
    programs = [block.text for block in blocks("docs/testing.md") if block.language == "python"]
    for number, text in enumerate(programs):
        (tmp_path / f"test_{number}.py").write_text(text, encoding="utf-8")

    said = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."], tmp_path)

    assert f"{len(programs)} passed" in said


# Shells.


def commands_of(name: str) -> list[tuple[str, str]]:
    """(command, output) of every `$` line in the console blocks of a page."""
    text = "".join(block.text for block in blocks(name) if block.language == "console")
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def stable(text: str) -> str:
    """Without what differs between two runs or two machines: times, places, sizes, shards."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r'"ts":\d+', '"ts":TIME', text)
    text = re.sub(r"^/\S*(?=/penstock-data)", "DIR", text, flags=re.MULTILINE)
    text = re.sub(r" *\b\d[\d.]* (?:B|KiB|MiB)\b", " SIZE", text)
    text = re.sub(r"(durable end +\d+:)\d+", r"\1OFFSET", text)
    return re.sub(r"^(?:shard-\d\d|wal)$", "SHARD", text, flags=re.MULTILINE)


@pytest.mark.parametrize("name", SESSIONS)
def test_the_shell_session_on_a_page_prints_what_the_page_says(name: str, tmp_path: Path) -> None:
    session = commands_of(name)

    printed = [run(["sh", "-c", command], tmp_path) for command, _ in session]

    assert session
    assert [stable(text) for text in printed] == [stable(said) for _, said in session]


def test_the_session_of_the_guide_goes_on_where_its_program_ends(tmp_path: Path) -> None:
    name = "docs/features/guide.md"
    script, wanted = program_of(name)
    session = commands_of(name)
    assert any(ON_SPARK.search(command) for command, _ in session)
    if not rig.IS_FULL:  # a minute, for three starts of Spark
        session = list(takewhile(lambda one: not ON_SPARK.search(one[0]), session))

    printed = run([sys.executable, "-c", script], tmp_path).split(END)
    said = [run(["sh", "-c", command], tmp_path) for command, _ in session]

    assert printed == wanted
    assert session
    assert [stable(text) for text in said] == [stable(text) for _, text in session]
