"""The root folder of this repository, and the environment of processes that import benchmarks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


def with_benchmarks() -> dict[str, str]:
    """The environment of a child process that imports `benchmarks`, whatever its directory is."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
