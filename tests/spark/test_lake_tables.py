"""Gold, small files, steps, and a log behind a server."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from tests.spark.conftest import Start, url_of
from tests.spark.lakes import ORDERS, PROJECT, Bed
from tests.support import serving

GOLD = '[gold.sums]\nsql = "sums.sql"\n[gold.doubled]\npython = "gold.py:doubled"\n'
SQL = "SELECT name, count(*) AS n, sum(total) AS total FROM orders GROUP BY name;\n"
PYTHON = """
def doubled(spark, tables):
    return tables["sums"].selectExpr("name", "total * 2 AS total")
"""


def test_gold_is_made_anew_when_what_it_is_made_of_has_changed(
    spark: SparkSession, tmp_path: Path
) -> None:
    bed = Bed(spark, tmp_path, PROJECT + ORDERS + GOLD)
    (tmp_path / "sums.sql").write_text(SQL, encoding="utf-8")
    (tmp_path / "gold.py").write_text(PYTHON, encoding="utf-8")
    bed.append("orders", {"id": 1, "total": 2, "name": "a"}, {"id": 2, "total": 3, "name": "a"})
    bed.run()
    assert bed.part("sums", "rows") == [{"name": "a", "n": 2, "total": 5.0}]
    assert bed.part("doubled", "rows") == [{"name": "a", "total": 10.0}]

    assert bed.run().commits == 0
    (tmp_path / "sums.sql").write_text(SQL.replace("GROUP", "WHERE id > 1 GROUP"), encoding="utf-8")
    assert bed.run().commits == 2

    assert bed.part("doubled", "rows") == [{"name": "a", "total": 6.0}]


def test_compaction_leaves_every_row_and_fewer_files(spark: SparkSession, tmp_path: Path) -> None:
    rules = "[lake]\nkeep_versions = 1\n[compaction]\nfiles_min = 2\n"
    bed = Bed(spark, tmp_path, PROJECT + ORDERS + rules.replace("2", "1000"))
    for number in range(2):
        bed.append("orders", {"id": number, "total": 1}, {"id": "bad"}, tag=f"t{number}")
        bed.run()
    before = bed.everything()
    bed.write(PROJECT + ORDERS + rules)

    report = bed.run()

    assert report.compacted == 3
    assert bed.everything() == before
    assert [file.part for file in bed.manifest().files] == ["records"]
    assert sorted(path.name for path in (tmp_path / "lake").rglob("*.parquet")) == sorted(
        file.path.rpartition("/")[2]
        for name in ("bronze", "orders")
        for file in bed.manifest(name).files
    )
    with bed.log() as log:
        log.delete("orders", tag="t1")
    assert bed.run().deleted == 2
    assert bed.silver("id") == [(0,)]


def test_small_steps_come_to_the_same_as_a_large_one(spark: SparkSession, tmp_path: Path) -> None:
    bed = Bed(spark, tmp_path, PROJECT + "[lake]\nbatch_records = 4\n")
    bed.append("a", *range(6))
    bed.append("b", *range(3))

    report = bed.run()

    assert (report.records, report.commits, report.lag) == (9, 3, 0)
    assert [row[:1] + row[2:3] for row in bed.records()] == [
        *(("a", seq) for seq in range(1, 7)),
        *(("b", seq) for seq in range(1, 4)),
    ]


@pytest.mark.parametrize("has_path", [False, True])
def test_a_server_is_read_as_a_directory_is(
    spark: SparkSession, tmp_path: Path, start: Start, has_path: bool
) -> None:
    server = start()
    source = f'[source]\nurl = "{url_of(server)}"\ntopics = ["lake.orders"]\n'
    if has_path:  # sealed records come from its files
        source += f'path = "{server.data_dir}"\n'
    client = penstock.connect(url_of(server), timeout_s=serving.DEADLINE_S)
    bed = Bed(spark, tmp_path / "lake", source + ORDERS.replace('["orders"]', '"lake.*"'))
    client.create("lake.orders", cap_records=3)
    client.append("lake.orders", [{"id": n} for n in range(5)], tag="x")
    bed.run()
    assert [row[2:4] for row in bed.gaps()] == [(1, 2)]
    client.append("lake.orders", [{"id": 9}])
    client.delete("lake.orders", tag="x")

    report = bed.run()

    assert (report.records, report.lag) == (1, 0)
    assert bed.silver("seq", "id") == [(3, 2), (6, 9)]  # 3 was evicted, 4 and 5 were deleted
    assert bed.verify().differences == []
    client.close()


def test_gold_follows_a_silver_table_that_begins_anew(spark: SparkSession, tmp_path: Path) -> None:
    bed = Bed(spark, tmp_path, PROJECT + ORDERS + GOLD.partition("[gold.doubled]")[0])
    (tmp_path / "sums.sql").write_text("SELECT count(*) AS n FROM orders", encoding="utf-8")
    bed.append("orders", {"id": 1, "total": "2", "name": "a"}, {"id": 2, "total": 3, "name": "a"})
    bed.run()
    assert bed.part("sums", "rows") == [{"n": 1}]
    text = (tmp_path / "pipeline.toml").read_text().replace('total = "double"', 'total = "json"')
    bed.write(text)
    shutil.rmtree(tmp_path / "lake" / "silver" / "orders")

    bed.run()

    assert bed.part("sums", "rows") == [{"n": 2}]
    assert bed.run().commits == 0


def test_a_bronze_that_was_set_back_is_followed_by_the_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Removing a manifest goes back to the one before. Numbers are then used a second time."""
    bed = Bed(spark, tmp_path, PROJECT + ORDERS + GOLD.partition("[gold.doubled]")[0])
    (tmp_path / "sums.sql").write_text(SQL, encoding="utf-8")
    bed.append("orders", {"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"})
    bed.run()
    with bed.log() as log:
        log.delete("orders", before_seq=2)
    bed.run()
    manifests = sorted((tmp_path / "lake" / "bronze" / "_manifests").iterdir())
    assert bed.manifest().act == "deletes"
    manifests[-1].unlink()
    with bed.log() as log:
        log.delete("orders", before_seq=3)

    bed.run()

    assert bed.silver("id") == [(3,)]
    assert [row["name"] for row in bed.part("sums", "rows")] == ["c"]
    assert bed.verify().differences == []
    assert bed.run().commits == 0
