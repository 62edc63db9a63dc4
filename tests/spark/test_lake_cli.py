"""`penstock pipeline`, as one types it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.cli import output
from penstock.cli.exit_codes import ExitCode
from penstock.cli.main import run
from penstock.lake import layout
from penstock.lake.runner import Runner
from penstock.storage.fs import OsFilesystem
from tests.docs.test_sessions import commands_of, stable
from tests.spark.conftest import Start, url_of
from tests.spark.lakes import PROJECT, Bed, interpreted
from tests.support import serving
from tests.support.serving import eventually
from tests.support.sink import free_port

DEADLINE_S = 600.0


@pytest.fixture
def home(spark: SparkSession, tmp_path: Path) -> Path:
    """A project as it is when one begins, and a log beside it."""
    assert run(["pipeline", "init", str(tmp_path / "shop")]) == ExitCode.OK
    with penstock.open(tmp_path / "shop" / "penstock-data") as log:
        orders = [{"id": n, "customer": f"c{n % 2}", "total": n / 2} for n in range(6)]
        log.append("orders", [*orders, {"id": "seven"}])
    return tmp_path / "shop"


def test_what_is_wrong_is_one_line_and_an_exit_code(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def says(*line: str) -> tuple[int, str]:
        capsys.readouterr()
        return run(["pipeline", *line]), capsys.readouterr().err

    assert says("init", str(home)) == (
        ExitCode.USAGE,
        f"penstock: {home}/pipeline.toml exists already: choose another folder, or edit "
        "this file\n",
    )
    code, text = says("run", str(home.parent))
    assert code == ExitCode.USAGE
    assert "`penstock pipeline init` writes one" in text
    (home / "revenue.sql").write_text("SELECT nothing FROM orders", encoding="utf-8")
    code, text = says("run", str(home))
    assert (code, text.count("\n")) == (ExitCode.STORAGE, 1)
    assert "Spark failed: [UNRESOLVED_COLUMN" in text
    project = Bed(None, home, "").project  # type: ignore[arg-type]
    with layout.locked(OsFilesystem(), project):
        code, text = says("run", str(home))
    assert (code, f"in use by process {os.getpid()}" in text) == (ExitCode.IN_USE, True)
    path = home / "pipeline.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("topics", "topic"), encoding="utf-8")
    code, text = says("status", str(home))
    assert (code, "unknown key source.topic: did you mean topics?" in text) == (2, True)


def test_a_continuous_run_goes_on_until_it_is_told_to_stop(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bed = Bed(spark, tmp_path, PROJECT)
    bed.append("a", 1)

    def meanwhile() -> None:
        eventually(lambda: bed.table().versions() == [1], "the first round", DEADLINE_S)
        bed.append("a", 2)
        eventually(lambda: bed.table().versions() == [1, 2], "the second round", DEADLINE_S)
        os.kill(os.getpid(), signal.SIGTERM)

    other = threading.Thread(target=meanwhile)
    other.start()
    line = ["pipeline", "run", str(tmp_path), "--continuous", "--interval", "0.2", "--json"]
    try:
        code = run(line)
    finally:
        other.join()

    rounds = [json.loads(one)["records"] for one in capsys.readouterr().out.splitlines()]
    assert (code, sum(rounds)) == (ExitCode.OK, 2)
    assert [row[2] for row in bed.records()] == [1, 2]


def test_a_continuous_run_waits_for_a_server_that_is_away(
    spark: SparkSession, tmp_path: Path, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    server = start(PENSTOCK_PORT=str(free_port()))  # where it is started again
    with penstock.connect(url_of(server), timeout_s=serving.DEADLINE_S) as client:
        client.append("a", [1])
    bed = Bed(spark, tmp_path / "lake", f'[source]\nurl = "{url_of(server)}"\ntopics = "a"\n')

    def meanwhile() -> None:
        eventually(lambda: bed.table().versions() == [1], "the first round", DEADLINE_S)
        server.stop()
        noted.wait(DEADLINE_S)
        server.start()
        with penstock.connect(url_of(server), timeout_s=serving.DEADLINE_S) as client:
            client.append("a", [2])
        eventually(lambda: bed.table().versions() == [1, 2], "a later round", DEADLINE_S)
        os.kill(os.getpid(), signal.SIGTERM)

    noted = threading.Event()
    notes: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "info", lambda text: (notes.append(text), noted.set()))
        other = threading.Thread(target=meanwhile)
        other.start()
        line = ["pipeline", "run", str(bed.root), "--continuous", "--interval", "0.2", "--json"]
        try:
            code = run(line)
        finally:
            other.join()

    assert code == ExitCode.OK
    assert [row[2] for row in bed.records()] == [1, 2]
    assert "the next run starts in" in notes[0]


def test_every_stage_tells_how_far_it_is(home: Path, spark: SparkSession) -> None:
    told: list[tuple[str, int, int]] = []

    with interpreted(spark):
        bed = Bed(spark, home, "")
        Runner(bed.project, spark).run(lambda *step: told.append(step))

    assert told == [
        ("bronze", 0, 7),
        ("bronze", 7, 7),
        ("deletes", 0, 0),
        ("silver orders", 0, 7),
        ("silver orders", 7, 7),
        ("gold revenue", 0, 1),
        ("gold revenue", 1, 1),
    ]


def test_settings_and_files_go_to_spark(
    home: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["pipeline", "run", str(home), "--json"]
    assert run([*line, "--conf", "nothing"]) == ExitCode.USAGE
    assert run([*line, "--py-files", f"{home}/pipeline.toml,{home}/none.zip"]) == ExitCode.USAGE
    assert f"--py-files: no such file {home}/none.zip" in capsys.readouterr().err

    code = run([*line, "--conf", "spark.sql.shuffle.partitions=3"])

    out = capsys.readouterr()
    assert (code, out.err, json.loads(out.out)["records"]) == (ExitCode.OK, "", 7)
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    spark.conf.set("spark.sql.shuffle.partitions", "2")


def test_a_pipeline_runs_over_spark_connect(home: Path) -> None:
    """In a process of its own: one that has a classic session cannot have another kind."""
    for verb in ("run", "verify"):
        line = [sys.executable, "-m", "penstock.cli.main", "pipeline", verb, str(home), "--json"]
        done = subprocess.run(
            [*line, "--remote", "local[2]"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        found = json.loads(done.stdout.splitlines()[-1])
        assert found["records"] == 7


def test_the_session_on_the_page_about_the_lake_prints_what_the_page_says(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    session = commands_of("docs/lake.md")
    printed = []
    with interpreted(spark):
        for command, _ in session:
            assert run(shlex.split(command)[1:]) == ExitCode.OK
            printed.append(capsys.readouterr().out)

        assert session
        assert [stable(text) for text in printed] == [stable(said) for _, said in session]

        assert run(["pipeline", "status", "shop", "--json"]) == ExitCode.OK
        status = json.loads(capsys.readouterr().out)
        assert {one["name"]: one["rows"] for one in status["tables"]} == {
            "bronze": {"deletes": 2, "records": 4},
            "orders": {"rows": 2},
            "revenue": {"rows": 2},
        }
        shop = Bed(spark, tmp_path / "shop", "")
        (file,) = shop.manifest("orders").files
        Path(shop.table("orders").path_of(file)).unlink()
        assert run(["pipeline", "verify", "shop", "--json"]) == ExitCode.DAMAGE
    found = json.loads(capsys.readouterr().out)["differences"]
    assert [(one["table"], one["what"]) for one in found][-1] == ("orders", "missing")
    assert {one["what"] for one in found} == {"removed", "missing"}
