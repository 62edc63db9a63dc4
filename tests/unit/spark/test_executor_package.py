"""The package as one file."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

from penstock.spark.executor_package import pack


def test_the_packed_package_runs_from_its_zip(tmp_path: Path) -> None:
    """Where Penstock is not installed: libraries are found, and we are not among them."""
    packed = pack(tmp_path / "penstock.zip")
    said = (
        "import penstock.spark.sink, penstock.codec.kernel as k, penstock;"
        "print(penstock.__file__, k.COMPILED, k.pack_records([b'1'], b'', b''))"
    )
    env = {"PYTHONPATH": f"{packed}:{sysconfig.get_path('purelib')}"}

    found = subprocess.run(
        [sys.executable, "-S", "-c", said], env=env, capture_output=True, text=True, check=False
    )

    assert found.returncode == 0, found.stderr
    assert found.stdout.split()[:2] == [f"{packed}/penstock/__init__.py", "False"]


def test_the_same_package_is_the_same_file(tmp_path: Path) -> None:
    one, other = pack(tmp_path / "a.zip"), pack(tmp_path / "b.zip")

    assert one.read_bytes() == other.read_bytes()
