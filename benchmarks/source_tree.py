"""Source trees of Penstock that are compared: exported from git, built, and run from their folder.

A commit is exported with `git archive` and the working tree is copied, so that neither a benchmark
nor its interruption changes the repository.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.repository import ROOT
from penstock.errors import InvalidArgument

WORKING_TREE: Final = "working tree"
_COPIED: Final = ("setup.py", "src")


class SourceTree(msgspec.Struct, frozen=True):
    """A tree that can be run."""

    name: str  # the commit as it was given, or a folder
    commit: str  # with its subject
    folder: str
    kernel: str  # compiled or interpreted

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a process that imports `penstock` from this tree."""
        return {"PYTHONPATH": os.path.join(self.folder, "src")}


def prepare(name: str, root: str) -> SourceTree:
    """The tree of a commit, of the working tree, or a folder that holds a built tree."""
    if name == WORKING_TREE:
        folder = os.path.join(root, "working-tree")
        _copy_working_tree(folder)
        changed = _git("status", "--porcelain", "--", *_COPIED)
        commit = _commit("HEAD") + (", with changes" if changed else "")
        _build(folder)
    elif os.path.isdir(os.path.join(name, "src", "penstock")):
        folder, commit = os.path.abspath(name), "a folder, used as it is"
    else:
        commit = _commit(name)
        folder = os.path.join(root, commit.partition(" ")[0])
        _export(name, folder)
        _build(folder)
    return SourceTree(name, commit, folder, _kernel_form(folder))


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise InvalidArgument(f"git {' '.join(words)} failed: {done.stderr.strip()}")
    return done.stdout


def _commit(name: str) -> str:
    try:
        return _git("log", "-1", "--format=%h %s", name, "--").strip()
    except InvalidArgument as error:
        raise InvalidArgument(
            f"{name!r} is neither a commit of this repository nor a folder with src/penstock "
            f"({error})"
        ) from None


def _export(commit: str, folder: str) -> None:
    os.mkdir(folder)
    archive = folder + ".tar"
    _git("archive", f"--output={archive}", commit, *_COPIED)
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):  # not in Python 3.11.3 and earlier
            tar.extraction_filter = tarfile.data_filter
        tar.extractall(folder)
    os.unlink(archive)


def _copy_working_tree(folder: str) -> None:
    os.mkdir(folder)
    listed = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *_COPIED)
    for name in filter(None, listed.split("\0")):
        source, copy = ROOT / name, Path(folder, name)
        if source.is_file():  # not one that was removed and is still in the index
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)


def _build(folder: str) -> None:
    """Compile the kernel into the tree.

    pyproject.toml is left out of the copy: it asks for a newer setuptools than the environment may
    have, and the extension needs nothing that it says.
    """
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--build-lib", "src"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = "".join(done.stderr.strip().splitlines()[-1:])
        raise InvalidArgument(f"cannot build the kernel of {folder}: {last}")


def _kernel_form(folder: str) -> str:
    """Ask the tree itself, and make sure that it is the tree which answers."""
    code = (
        "import penstock; from penstock.cli.main import run;"
        "print(penstock.__file__); run(['--version'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.path.join(folder, "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = "".join(done.stderr.strip().splitlines()[-1:])
        raise InvalidArgument(f"the tree in {folder} cannot be imported: {last}")
    place, version = done.stdout.splitlines()
    if not os.path.realpath(place).startswith(os.path.realpath(folder) + os.sep):
        raise AssertionError(f"penstock was imported from {place}, not from {folder}")
    return "compiled" if "kernel compiled" in version else "interpreted"
