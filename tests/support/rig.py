"""What the crash rigs share: their size, their seeds, and a directory on a real disk."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from penstock.cli.scratch import IN_MEMORY
from penstock.storage.mounts import kind_of_filesystem
from tests.support.seeds import IS_BRIEF, IS_FULL, new_seed, new_seeds

__all__ = ["IS_BRIEF", "IS_FULL", "ROOT", "Report", "new_seed", "new_seeds", "on_disk", "say"]

ROOT = Path(__file__).parents[2]

Report = Callable[[str], None]


def on_disk(tmp_path: Path, name: str) -> Path:
    """An empty directory on a disk: RAM keeps what was never synced and is 600 times too fast."""
    base = tmp_path
    if kind_of_filesystem(str(tmp_path)) in IN_MEMORY:
        base = ROOT / ".rig" / f"{os.getpid()}"
    path = base / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def say(line: str) -> None:
    """Past pytest's capture, and past xdist, which lets only stderr through."""
    sys.stderr.write(f"\n{line}\n")
    sys.stderr.flush()
