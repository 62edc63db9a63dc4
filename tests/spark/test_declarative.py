"""The example of a declarative pipeline, run by Spark's own command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import penstock
from penstock.spark.sessions import prepare
from tests.support import rig

COMMAND = Path(sys.executable).with_name("spark-pipelines")
DEADLINE_S = 600.0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The example, with its own places in this test's directory."""
    path = tmp_path / "project"
    shutil.copytree(rig.ROOT / "examples" / "declarative", path)
    spec = path / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/tmp/shop/", f"{tmp_path}/"))
    return path


def run(project: Path) -> str:
    prepare("local[2]")
    warehouse = project.parent / "lake"
    command = [str(COMMAND), "run", "--conf", f"spark.sql.warehouse.dir={warehouse}"]
    command += ["--conf", "spark.sql.catalogImplementation=hive"]
    catalog = f"-Dderby.system.home={project.parent / 'catalog'}"
    command += ["--conf", f"spark.driver.extraJavaOptions={catalog}"]
    done = subprocess.run(
        command, cwd=project, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-4000:]
    return said


def rows(project: Path, table: str) -> list[dict[str, object]]:
    return pq.read_table(project.parent / "lake" / table).to_pylist()


def append(project: Path, *orders: object) -> None:
    with penstock.open(project.parent / "data") as log:
        log.append("orders", [penstock.Record(data=order) for order in orders])


def test_each_run_goes_on_where_the_last_one_ended(project: Path) -> None:
    first = [{"id": 1, "customer": "ann", "total": 40}, "no order", {"id": 2, "customer": "bob"}]
    append(project, *first)
    files = set(os.listdir(project))

    assert "Run is COMPLETED" in run(project)

    found = sorted(rows(project, "bronze"), key=lambda row: row["seq"])
    assert [row["seq"] for row in found] == [1, 2, 3]
    assert rows(project, "gaps") == []
    assert sorted(row["id"] for row in rows(project, "silver")) == [1, 2]

    append(project, {"id": 4, "customer": "ann", "total": 2.5})
    run(project)

    assert sorted(row["seq"] for row in rows(project, "bronze")) == [1, 2, 3, 4]
    assert sorted(row["seq"] for row in rows(project, "silver")) == [1, 3, 4]
    assert {row["customer"]: row["total"] for row in rows(project, "revenue")} == {
        "ann": 42.5,
        "bob": None,
    }
    assert os.listdir(project.parent / "checkpoints")
    assert set(os.listdir(project)) == files, "nothing is written to the current directory"
