"""A tree is run from its own folder, and a name that leads nowhere is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import source_tree
from benchmarks.repository import ROOT
from benchmarks.source_tree import WORKING_TREE, prepare
from penstock.errors import InvalidArgument


def test_a_folder_is_used_as_it_is(tmp_path: Path) -> None:
    tree = prepare(str(ROOT), str(tmp_path))

    assert tree.folder == str(ROOT)
    assert tree.environment == {"PYTHONPATH": str(ROOT / "src")}
    assert tree.kernel in ("compiled", "interpreted")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a source archive has no commits")
@pytest.mark.parametrize("name", ["HEAD", WORKING_TREE])
def test_a_copy_is_imported_from_its_own_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Compiling the kernel takes a minute; without it the copy runs interpreted.
    monkeypatch.setattr(source_tree, "_build", lambda folder: None)

    tree = prepare(name, str(tmp_path))

    code = "import penstock; print(penstock.__file__)"
    place = subprocess.check_output([sys.executable, "-c", code], env=tree.environment, text=True)
    assert Path(place.strip()).is_relative_to(tmp_path)
    assert tree.kernel == "interpreted"
    assert " " in tree.commit


def test_a_name_that_is_neither_commit_nor_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="'no-such-commit' is neither a commit"):
        prepare("no-such-commit", str(tmp_path))


def test_a_kernel_that_cannot_be_built_is_told(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("raise SystemExit('the compiler is on fire')\n")

    with pytest.raises(InvalidArgument, match="the compiler is on fire"):
        source_tree._build(str(tmp_path))
