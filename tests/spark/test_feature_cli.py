"""`penstock features backfill`, `train` and `verify`, as one types them."""

from __future__ import annotations

import csv
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import penstock
from penstock import features
from penstock.cli import features_spark
from penstock.cli.exit_codes import ExitCode
from penstock.cli.main import run
from penstock.features.store import FeatureStore
from penstock.lake import sessions
from tests.spark.conftest import Start, url_of
from tests.spark.lakes import Bed, interpreted

LAKE = """
[source]
path = "{path}"
topics = ["rides"]
[silver.fares]
topics = ["rides"]
columns = {{ fare = "double" }}
"""
NOON = 1_750_000_000_000
MINUTE_MS = 60_000


@features.event(time="at", lateness="1m", topic="rides")
class Ride:
    rider: str
    fare: float
    at: int


@features.table(key="rider")
def Riders(rides: Ride) -> Any:
    return rides.agg(
        rides=features.count(), spend=features.sum("fare"), last=features.last_n("fare", n=2)
    )


def rides(count: int, start: int = 0) -> list[dict[str, Any]]:
    """Of riders 00 to 02 in turn, a minute apart."""
    return [
        {"rider": f"0{n % 3}", "fare": n + 0.5, "at": NOON + n * MINUTE_MS}
        for n in range(start, start + count)
    ]


@pytest.fixture(autouse=True)
def uncompiled(spark: SparkSession) -> Iterator[None]:
    with interpreted(spark):
        yield


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A data directory `data` with twelve rides."""
    with penstock.open(tmp_path / "data") as log:
        log.features.register(Riders)
        log.features.push("Ride", rides(12), sync="per_event")
    return tmp_path


class Typed:
    """Runs commands of `penstock features` in this process, which has a Spark already."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.where = ["-d", str(home / "data")]
        self._capsys = capsys

    def __call__(self, *words: object) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = run(["features", *map(str, words), *self.where])
        told = self._capsys.readouterr()
        return code, told.out, told.err

    def ok(self, *words: object) -> str:
        code, out, err = self(*words)
        assert code == ExitCode.OK, err
        return out


@pytest.fixture
def typed(home: Path, capsys: pytest.CaptureFixture[str]) -> Typed:
    return Typed(home, capsys)


def row_of(home: Path, rider: str = "00") -> dict[str, Any]:
    with penstock.open(home / "data") as log:
        return log.features.get("Riders", rider)


def forget(home: Path) -> None:
    """The topic keeps three records, and the table is built from these."""
    with penstock.open(home / "data") as log:
        log.create("rides", cap_records=3)
        log.core.features.store._host.rebuild("features", "Riders.1")
        assert log.features.get("Riders", "00")["rides"] < 4


def test_a_backfill_loads_the_whole_history_from_another_directory(
    home: Path, typed: Typed, tmp_path: Path
) -> None:
    wanted = row_of(home)
    (home / "data").rename(home / "old")
    shutil.copytree(home / "old", home / "data")
    forget(home)

    code, out, err = typed("backfill", "Riders", "--source", home / "old", "--tasks", 2)

    assert (code, row_of(home)) == (ExitCode.OK, wanted)
    assert out.startswith("loaded Riders: 3 keys, ")
    assert out.endswith(", as of seq 12\n")
    assert [line.removeprefix("penstock: ") for line in err.splitlines()] == [
        "starting Spark on local[*]",
        f"building Riders from the events in {home / 'old'}",
        "loading 3 keys",
    ]


def test_a_snapshot_is_built_kept_and_loaded_later(home: Path, typed: Typed) -> None:
    folder = home / "snapshot"
    wanted = row_of(home)

    built = typed.ok("backfill", "Riders", "--no-load", "--folder", folder)
    forget(home)
    with penstock.open(home / "data") as log:
        log.features.push("Ride", rides(1, start=12), sync="per_event")
    loaded = typed.ok("load", "Riders", folder)

    assert built.startswith("built Riders: 3 keys, ")
    assert built.endswith(f"to load it: penstock features load Riders {folder}\n")
    assert loaded == ("loaded Riders: 3 keys, as of seq 12, with the events up to 13 since then\n")
    assert row_of(home) == wanted | {"rides": 5, "spend": 32.5, "last": [9.5, 12.5]}


def test_a_snapshot_that_cannot_be_loaded_stays(
    home: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(store: FeatureStore, table: str, folder: str) -> None:
        raise penstock.InvalidArgument(f"{folder} is not seen here")

    with monkeypatch.context() as patch:
        patch.setattr(FeatureStore, "load", refuse)
        code, out, err = typed("backfill", "Riders", "--json")
    *_, kept, refused = err.splitlines()
    folder = json.loads(refused)["error"]["message"].removesuffix(" is not seen here")

    assert (code, out) == (ExitCode.USAGE, "")
    assert f"the snapshot stays in {folder}; " in kept
    assert typed.ok("load", "Riders", folder).startswith("loaded Riders: 3 keys")


def test_a_backfill_reads_the_records_of_a_lake_and_of_parquet_files(
    home: Path, typed: Typed, spark: SparkSession
) -> None:
    with penstock.open(home / "data") as log:
        log.append("rides", [{"rider": "00"}], tag="wrong")
        log.sync()
    bed = Bed(spark, home / "bed", LAKE.format(path=home / "data"))
    code, _, err = typed("backfill", "Riders", "--source", bed.root)
    assert (code, "penstock pipeline run" in err) == (ExitCode.USAGE, True)
    bed.run()
    with penstock.open(home / "data") as log:
        log.delete("rides", tag="wrong")
    bed.run()
    wanted = row_of(home)
    records = spark.read.format("penstock").options(path=str(home / "data"), topic="rides").load()
    records.write.parquet(f"file://{home}/records.parquet")
    forget(home)

    for source in (bed.root, home / "records.parquet"):
        found = json.loads(typed.ok("backfill", "Riders", "--source", source, "--json"))

        assert (found["keys"], found["events"], found["offset"]["seq"]) == (3, 12, 12)
        assert (found["loaded"]["keys"], found["folder"]) == (3, None)
        assert row_of(home) == wanted
    (home / "data").rename(home / "old")
    with penstock.open(home / "data") as log:
        log.features.register(Riders)
    code, _, err = typed("backfill", "Riders", "--source", bed.root)
    assert (code, " is of topic 'rides' of log " in err) == (ExitCode.USAGE, True)


def test_a_backfill_goes_on_in_the_log_where_older_records_end(
    home: Path, typed: Typed, spark: SparkSession
) -> None:
    wanted = row_of(home)
    records = spark.read.format("penstock").options(path=str(home / "data"), topic="rides").load()
    records.write.parquet(f"file://{home}/records.parquet")
    forget(home)
    with penstock.open(home / "data") as log:
        log.features.push("Ride", rides(1, start=12), sync="per_event")

    found = json.loads(
        typed.ok(
            *("backfill", "Riders", "--json"),
            *("--source", home / "records.parquet", "--source", home / "data"),
        )
    )

    assert (found["keys"], found["events"], found["offset"]["seq"]) == (3, 13, 13)
    assert row_of(home) == wanted | {"rides": 5, "spend": 32.5, "last": [9.5, 12.5]}


def test_labels_get_the_features_of_their_time(home: Path, typed: Typed) -> None:
    labels = home / "labels.csv"
    labels.write_text(
        f'note,rider,ts\n"a, b",01,{NOON + MINUTE_MS}\nc,00,{NOON + 4 * MINUTE_MS}\nd,7,{NOON}\n'
    )
    out = home / "train.csv"

    code, said, err = typed("train", "Riders", "--labels", labels, "--out", out)

    assert (code, said) == (ExitCode.OK, f"wrote 3 rows with 3 features to {out}\n")
    assert "1 row without features: no events of the key by then" in err
    with out.open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["note", "rider", "ts", "rides", "spend", "last"],
            ["c", "00", str(NOON + 4 * MINUTE_MS), "2", "4.0", "[0.5,3.5]"],
            ["a, b", "01", str(NOON + MINUTE_MS), "1", "1.5", "[1.5]"],
            ["d", "7", str(NOON), "", "", ""],
        ]
    assert sorted(path.name for path in home.iterdir()) == ["data", "labels.csv", "train.csv"]


def test_labels_may_be_json_and_training_sets_parquet(home: Path, typed: Typed) -> None:
    labels = home / "labels.jsonl"
    moments = ("2025-06-15T15:08:50.000Z", "2025-06-15T15:06:40Z")
    labels.write_text("\n".join(json.dumps({"rider": "02", "when": when}) for when in moments))
    out = home / "train.parquet"
    words = ("train", "Riders", "--labels", labels, "--ts", "when", "-f", "rides", "--json")

    told = json.loads(typed.ok(*words, "--out", out, "--clock", "event"))

    assert told == {
        "table": "Riders",
        "path": str(out),
        "rows": 2,
        "rows_without_features": 1,
        "columns": ["rider", "when", "rides"],
    }
    assert [row["rides"] for row in pq.ParquetFile(out).read().to_pylist()] == [None, 1]
    code, _, err = typed(*words, "--out", out)
    assert (code, "exists already: choose another name" in err) == (ExitCode.USAGE, True)
    assert json.loads(typed.ok(*words, "--out", out, "--overwrite", "--clock", "log"))["rows"] == 2


def test_labels_that_do_not_fit_are_refused_and_nothing_is_written(
    home: Path, typed: Typed
) -> None:
    for text, message in (
        ("riders,ts\n00,1\n", "the labels have no column rider"),
        ("rider,at\n00,1\n", "the labels have no column ts"),
        ("rider,ts\n00,yesterday\n", "column ts of the labels is string"),
        ("rider,ts,rides\n00,1,2\n", "the labels have a column rides, and so has the table"),
        ("rider,ts\n00,\n01,5\n", "penstock: a label has no time: column ts is null"),
    ):
        (home / "labels.csv").write_text(text)

        out = home / "train.parquet"
        code, _, err = typed("train", "Riders", "--labels", home / "labels.csv", "--out", out)

        assert code == ExitCode.USAGE
        assert message in err.splitlines()[-1]
        assert sorted(path.name for path in home.iterdir()) == ["data", "labels.csv"]
    (home / "labels.csv").write_text("rider,ts\n00,1\n00,2,3,4\n")
    code, _, err = typed("train", "Riders", "--labels", home / "labels.csv", "--out", out)
    assert (code, "Malformed CSV record: 00,2,3,4" in err) == (ExitCode.STORAGE, True)


def test_an_equal_table_is_told_and_a_difference_has_an_exit_code(
    home: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    equal = typed.ok("verify", "Riders")
    assert equal.splitlines() == [
        "Riders: equal, 3 keys, as of seq 12",
        "feature  compared  different",
        "rides           3          -",
        "spend           3          -",
        "last            3          -",
    ]
    real = FeatureStore.scan

    def wrong(*words: Any, **more: Any) -> Any:
        page = real(*words, **more)
        for one in page.rows:
            if one.key == ["01"] and "last" in one.row:
                one.row["last"] = [f"{n} and some more words" for n in range(40)]
        return page

    monkeypatch.setattr(FeatureStore, "scan", wrong)
    code, out, _ = typed("verify", "Riders", "-f", "last", "-f", "rides")
    assert code == ExitCode.DAMAGE
    assert out.startswith("Riders: different, 3 keys, as of seq 12\n")
    assert "\nlast            3          1\nrides           3          -\n" in out
    assert '\n  last of "01": ["0 and some more words",' in out
    assert "[7.5,10.5] on Spark" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = typed("verify", "Riders", "--json")
    told = json.loads(out)
    assert (code, told["equal"], told["keys"]) == (ExitCode.DAMAGE, False, 3)
    assert [one["different"] for one in told["features"]] == [0, 0, 1]


def test_the_commands_work_on_a_server_that_goes_on_counting(
    typed: Typed, start: Start, home: Path
) -> None:
    url = url_of(start())
    typed.where = ["--url", url]
    with penstock.connect(url) as client:
        client.features.register(Riders, wait_s=60)
        client.features.push("Ride", rides(6))
        before = client.features.get("Riders", "00")

        assert typed.ok("backfill", "Riders").startswith("loaded Riders: 3 keys, ")
        client.features.push("Ride", rides(6, start=6))
        (home / "labels.csv").write_text(f"rider,ts\n00,{NOON + 11 * MINUTE_MS}\n")
        out = home / "train.csv"
        typed.ok("train", "Riders", "--labels", home / "labels.csv", "--out", out)
        assert typed.ok("verify", "Riders").startswith("Riders: equal, 3 keys, as of seq 12\n")

        assert before["rides"] == 2
        assert client.features.get("Riders", "00")["rides"] == 4
        assert out.read_text().splitlines()[1].split(",")[2] == "4"
    typed.where = ["-d", str(home / "data")]
    code, _, err = typed("backfill", "Riders", "--source", url)
    assert code == ExitCode.USAGE
    assert " is of topic 'rides' of log " in err


def test_the_tasks_of_spark_are_told_while_it_works(spark: SparkSession) -> None:
    told: list[tuple[int, int]] = []
    came = threading.Event()

    def step(done: int, total: int) -> None:
        told.append((done, total))
        came.set()

    with features_spark._counting(spark, step):
        while not came.is_set():  # the commands run one query; here are as many as it takes
            spark.range(200_000, numPartitions=8).selectExpr("sum(hash(id))").collect()

    assert all(0 <= done <= total for done, total in told)
    assert sessions.tasks_of(object()) is None  # type: ignore[arg-type]
