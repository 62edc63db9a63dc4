"""Without the packages of the extra `spark`, the error names the missing one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.exit_codes import ExitCode
from penstock.spark.requirements import SparkMissing, missing_requirement

WITHOUT = "import sys; sys.modules[{package!r}] = None; "
CLI = "sys.argv = ['penstock', *{args!r}]; from penstock.cli.main import main; main()"


def run(code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_a_missing_package_is_named_and_a_bug_stays_a_bug() -> None:
    found = missing_requirement(ModuleNotFoundError("no", name="pyarrow.compute"))
    assert isinstance(found, SparkMissing)
    assert str(found) == (
        'Spark needs the package pyarrow, which is not installed: pip install "penstock[spark]"'
    )
    ours = ModuleNotFoundError("no", name="penstock.spark.sorce")
    assert missing_requirement(ours) is ours


@pytest.mark.parametrize("package", ["pyspark", "pyarrow"])
def test_an_import_says_what_is_missing(tmp_path: Path, package: str) -> None:
    found = run(WITHOUT.format(package=package) + "import penstock.spark", tmp_path)

    assert found.returncode == 1
    last = found.stderr.splitlines()[-1]
    assert last.startswith(
        f"penstock.spark.requirements.SparkMissing: Spark needs the package {package}"
    )


@pytest.mark.parametrize(
    "args",
    [
        ["pipeline", "run", "p"],
        ["pipeline", "verify", "p"],
        ["features", "backfill", "T"],
        ["features", "train", "T", "--labels", "a.csv", "--out", "b.csv"],
        ["features", "verify", "T"],
    ],
    ids=" ".join,
)
def test_a_verb_says_what_is_missing(tmp_path: Path, args: list[str]) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "pipeline.toml").write_text("")

    found = run(WITHOUT.format(package="pyspark") + CLI.format(args=args), tmp_path)

    assert found.returncode == ExitCode.USAGE, found.stderr
    assert 'pip install "penstock[spark]"' in found.stderr
    assert "Traceback" not in found.stderr


def test_features_on_spark_name_both_extras(tmp_path: Path) -> None:
    cli = CLI.format(args=["features", "verify", "T"])

    found = run(WITHOUT.format(package="numpy") + cli, tmp_path)

    assert found.returncode == ExitCode.USAGE, found.stderr
    assert 'the package numpy, which is not installed: pip install "penstock[' in found.stderr
    assert "Traceback" not in found.stderr
