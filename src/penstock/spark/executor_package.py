"""Packs Penstock into one zip file for Spark executors."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Final

_MOMENT: Final = (1980, 1, 1, 0, 0, 0)  # fixed, so that equal packages are equal files
_ENDS: Final = {".py", ".pyi", ".typed"}


def pack(path: str | Path) -> Path:
    """Write the package's sources as a zip for `--py-files`, and return its path. The zip has no
    compiled code, which Python cannot import from a zip, and no dependencies: see docs/spark.md."""
    target = Path(path)
    root = Path(__file__).parents[1]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sorted(root.rglob("*")):
            if source.suffix in _ENDS and source.is_file():
                name = (Path(root.name) / source.relative_to(root)).as_posix()
                archive.writestr(zipfile.ZipInfo(name, _MOMENT), source.read_bytes())
    return target
