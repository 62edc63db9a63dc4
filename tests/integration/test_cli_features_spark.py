"""What the commands of features on Spark refuse before Spark starts, and their help."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import features_verify
from tests.integration.test_cli_features import RIDES, refused, ride
from tests.integration.test_cli_main import Cli

COMMANDS = (
    *("apply", "list", "explain", "definition", "push", "get", "scan", "watch"),
    *("train", "backfill", "load", "verify"),
)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    (tmp_path / "rides.py").write_text(RIDES)
    made = Cli(tmp_path / "data")
    made.ok("features", "apply", tmp_path / "rides.py")
    made.ok("features", "push", "Ride", ride(1))
    return made


def test_a_history_that_is_none_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "pipeline.toml").write_text("[sauce]\n")
    for verb in ("backfill", "verify"):
        for source, message in (
            (
                tmp_path,
                "holds no history; expected a data directory, the URL of a server, a folder",
            ),
            (tmp_path / "gone.parquet", "--source: no such file or folder"),
            (tmp_path / "project", "unknown key sauce: did you mean source?"),
        ):
            assert message in refused(cli, verb, "Riders", "--source", source).err
    nowhere = ("-d", tmp_path / "nowhere")
    assert "nowhere" in refused(cli, "backfill", "Riders", *nowhere).err
    assert not (tmp_path / "nowhere").exists()


def test_a_table_that_does_not_exist_is_told_with_those_that_do(cli: Cli, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("rider,ts\nana,1\n")
    for words in (
        ("backfill", "Riderz"),
        ("verify", "Riderz"),
        ("load", "Riderz", tmp_path),
        ("train", "Riderz", "--labels", labels, "--out", tmp_path / "out.csv"),
    ):
        assert "did you mean 'Riders'?" in refused(cli, *words, code=7).err


def test_a_snapshot_needs_a_folder_of_its_own(cli: Cli, tmp_path: Path) -> None:
    words = ("backfill", "Riders")

    assert "--no-load needs --folder" in refused(cli, *words, "--no-load").err
    error = refused(cli, *words, "--folder", cli.data_dir).err
    assert "is neither empty nor a snapshot: choose a new folder" in error
    error = refused(cli, *words, "--folder", tmp_path / "rides.py").err
    assert "rides.py is not a folder" in error
    error = refused(cli, "load", "Riders", tmp_path).err
    assert "expected a folder of `penstock features backfill`" in error
    assert cli.ok("features", "get", "Riders", "ana", "-f", "spend", "--json").json == {
        "spend": 12.5
    }


def test_files_of_labels_and_training_sets_are_checked_first(cli: Cli, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("rider,ts\nana,1\n")
    made = tmp_path / "made.parquet"
    made.touch()
    folder = tmp_path / "folder.csv"
    folder.mkdir()

    def says(labels: object, out: object) -> str:
        return refused(cli, "train", "Riders", "--labels", labels, "--out", out).err

    assert "--labels: no such file" in says(tmp_path / "none.csv", "a.csv")
    assert "expected a name that ends in .csv, .parquet, .json" in says("labels.xlsx", "a.csv")
    assert "expected a name that ends in .csv or .parquet" in says(labels, "a.json")
    assert "exists already: choose another name, or pass --overwrite" in says(labels, made)
    assert "no such folder" in says(labels, tmp_path / "none" / "a.csv")
    assert "is a folder: choose another name" in says(labels, folder)
    words = ("train", "Riders", "--labels", labels, "--out", "a.csv", "--conf", "x")
    assert "invalid --conf 'x': expected KEY=VALUE" in refused(cli, *words).err


def test_a_directory_that_is_in_use_is_told_before_spark_starts(cli: Cli) -> None:
    with cli.held() as pid:
        for verb in ("backfill", "verify"):
            error = refused(cli, verb, "Riders", code=4).err
            assert f"in use by process {pid}" in error
            assert "starting Spark" not in error


@dataclass
class Comparison:
    """What Spark found, in a table with more keys than were compared."""

    table: str = "Riders"
    keys: int = 100
    first_seq: int = 7
    last_seq: int = 1200
    is_equal: bool = False
    is_whole: bool = False
    missing_online: int | None = 2
    missing_examples: list[list[Any]] = field(default_factory=lambda: [["ana", 1], ["bo", 2]])
    only_online: int = 1
    only_online_examples: list[list[Any]] = field(default_factory=lambda: [["cy", 3]])
    features: list[Any] = field(default_factory=list)


def test_keys_that_are_on_one_side_alone_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    features_verify._print(Comparison())  # type: ignore[arg-type]

    out = capsys.readouterr().out
    assert out.startswith("Riders: different, 100 keys, as of seq 7 to 1,200\n")
    assert '\n  2 keys on Spark alone, such as "ana", 1; "bo", 2\n' in out
    assert '\n  1 key online alone, such as "cy", 3\n' in out
    assert "\n  the table has more than 100 keys: the others were not compared" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_fits_a_terminal_and_breaks_lines_at_its_edge_alone(
    tmp_path: Path, command: str
) -> None:
    cli = Cli(tmp_path)
    cli.env["COLUMNS"] = "80"

    shown = cli.ok("features", command, "--help").out.splitlines()

    assert max(map(len, shown)) <= 80
    prose = [line.strip() for line in itertools.takewhile(lambda line: "╭" not in line, shown)]
    for line, following in itertools.pairwise(prose):
        if line and following:
            assert len(f"{line} {following.split()[0]}") > 78, (line, following)


def test_the_list_of_commands_has_a_line_for_each(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    cli.env["COLUMNS"] = "80"

    shown = cli.ok("features", "--help").out
    _, _, commands = shown.partition("Commands")

    assert len(commands.splitlines()) == 1 + len(COMMANDS) + 2  # with the frame
    assert [line.split()[1] for line in commands.splitlines()[1:-2]] == list(COMMANDS)
