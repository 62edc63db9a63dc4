"""`make test` tries the same thing in every run: chance comes from tests/support/seeds.py."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import seeds
from tests.support.rig import ROOT

# File -> why chance decides nothing there that a test looks at.
FREE = {
    "tests/support/seeds.py": "it is where seeds come from",
    "tests/support/sink.py": "a free port",
    "tests/server/support.py": "names of topics, which only must differ",
    "tests/server/sending.py": "names of senders",
    "tests/spark/conftest.py": "names of topics",
    "tests/unit/spark/test_server_location.py": "names of topics",
    "tests/faults/crowd.py": "the nonce of a WebSocket handshake",
    "tests/security/test_keys.py": "API keys",
}
DRAWS = {"os.urandom", "uuid.uuid4", "uuid.uuid1", "random.SystemRandom"}


def _draws(source: str) -> Iterator[str]:
    """Calls that draw a number from nowhere, as `name:line`."""
    if not any(word in source for word in ("andom", "uuid", "secrets")):
        return
    nodes = list(ast.walk(ast.parse(source)))
    imported = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name in ("Random", "random.Random"):
            is_draw = not (node.args or node.keywords)
        else:
            # A file that imports the module calls the module's own generator by this name.
            is_module = name.count(".") == 1 and name.startswith("random.") and "random" in imported
            is_draw = name in DRAWS or name.startswith("secrets.") or is_module
        if is_draw:
            yield f"{name}:{node.lineno}"


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ("import random\nrandom.randrange(3)", True),
        ("import random\nrandom.Random()", True),
        ("from random import Random\nRandom()", True),
        ("import os\nos.urandom(4)", True),
        ("import random\nrandom.Random(7).random()", False),
        ("from random import Random\nrandom = Random(7)\nrandom.random()", False),
    ],
)
def test_the_check_sees_what_draws(source: str, is_found: bool) -> None:
    assert bool(list(_draws(source))) == is_found


def test_no_test_draws_numbers_of_its_own() -> None:
    found = {
        str(path.relative_to(ROOT)): list(_draws(path.read_text("utf-8")))
        for path in (ROOT / "tests").rglob("*.py")
    }
    wrong = {name: calls for name, calls in found.items() if calls and name not in FREE}

    assert not wrong, "take a seed: tests.support.seeds.new_seed()"


def test_the_list_of_exceptions_has_no_dead_rows() -> None:
    assert [name for name in FREE if not (ROOT / name).exists()] == []


def test_the_short_size_has_fixed_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_SEED", raising=False)
    monkeypatch.setattr(seeds, "IS_FULL", False)

    assert seeds.new_seed() == seeds.new_seed() == seeds.RIGS
    assert seeds.new_seeds(2) == [seeds.RIGS, seeds.RIGS + 1]


def test_the_full_size_draws_new_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_SEED", raising=False)
    monkeypatch.setattr(seeds, "IS_FULL", True)

    assert seeds.new_seeds(3) != seeds.new_seeds(3)


def test_a_failed_test_says_how_it_is_repeated(tmp_path: Path) -> None:
    """With the seed it took."""
    (tmp_path / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text("utf-8"))
    (tmp_path / "test_it.py").write_text(
        "from tests.support import seeds\ndef test_fails():\n    assert not seeds.new_seed()\n"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull, str(tmp_path)],
        env=env | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert f"PENSTOCK_SEED={seeds.RIGS} .venv/bin/pytest 'test_it.py::test_fails'" in done.stdout


def test_the_summary_is_one_line_and_says_how_to_run_the_rest() -> None:
    from tests.support.requirements import summary

    reasons = [
        "Skipped: needs root and loop devices (run `sudo make test`)",
        "Skipped: needs root and loop devices (run `sudo make test`)",
        "Skipped: needs strace (run `sudo python3 scripts/setup_debian.py`)",
        "Skipped: only Linux tells",
    ]

    line = summary(reasons)

    assert line.startswith("not run on this machine: 3 tests: 2 that need root and loop devices")
    assert "sudo make test" in line
    assert "setup_debian.py" in line
    assert "\n" not in line
    assert summary(["Skipped: only Linux tells"]) == ""
