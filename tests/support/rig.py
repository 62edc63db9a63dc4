"""What the crash rigs share: their size, their seeds, and a directory on a real disk."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.seeds import IS_FULL, new_seed, new_seeds

__all__ = ["IN_CI", "IS_FULL", "ROOT", "Report", "new_seed", "new_seeds", "on_disk", "say"]

ROOT = Path(__file__).parents[2]
IN_CI = bool(os.environ.get("CI"))

Report = Callable[[str], None]


def kind_of_filesystem(path: Path) -> str:
    """The type of the file system `path` lies on, as the kernel calls it; empty if unknown."""
    real = os.path.realpath(path)
    best, kind = "", ""
    try:
        with open("/proc/mounts", encoding="utf-8") as mounts:
            for line in mounts:
                _, place, name, *_ = line.split(" ")
                inside = real == place or real.startswith(place.rstrip("/") + "/")
                if inside and len(place) >= len(best):
                    best, kind = place, name
    except OSError:
        return ""
    return kind


def on_disk(tmp_path: Path, name: str) -> Path:
    """An empty directory on a disk: RAM keeps what was never synced and is 600 times too fast."""
    base = tmp_path
    if kind_of_filesystem(tmp_path) in ("tmpfs", "ramfs"):
        base = ROOT / ".rig" / f"{os.getpid()}"
    path = base / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def say(line: str) -> None:
    """Past pytest's capture, and past xdist, which lets only stderr through."""
    sys.stderr.write(f"\n{line}\n")
    sys.stderr.flush()
