"""Penstock as one file that Spark sends to its executors."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Final

_MOMENT: Final = (1980, 1, 1, 0, 0, 0)  # the same package is the same file
_ENDS: Final = {".py", ".pyi", ".typed"}


def pack(path: str | Path) -> Path:
    """Write the package's sources as a zip for `--py-files`, and return its path. Compiled code
    cannot be run out of a zip, and what Penstock depends on is not in it: see docs/spark.md."""
    target = Path(path)
    root = Path(__file__).parents[1]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sorted(root.rglob("*")):
            if source.suffix in _ENDS and source.is_file():
                name = (Path(root.name) / source.relative_to(root)).as_posix()
                archive.writestr(zipfile.ZipInfo(name, _MOMENT), source.read_bytes())
    return target
