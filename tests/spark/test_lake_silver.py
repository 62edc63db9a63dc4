"""Silver has the declared types, quarantine the rest with the reason, columns change by rules."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

import penstock
from penstock.cli.exit_codes import ExitCode
from penstock.cli.main import run
from penstock.errors import InvalidArgument
from penstock.lake import dataframes
from penstock.lake.decoding import decoded
from penstock.lake.evolution import Column
from penstock.lake.runner import Runner
from tests.spark.conftest import Start, url_of
from tests.spark.lakes import ORDERS, PROJECT, Bed
from tests.support import serving

COLUMNS = [
    Column("id", "int", "id", True),
    Column("ok", "boolean", "ok"),
    Column("share", "double", "share"),
    Column("price", "decimal(6,2)", "price"),
    Column("name", "string", "name"),
    Column("at", "timestamp", "placed.at"),
    Column("on", "date", "on"),
    Column("rest", "json", "rest"),
]
NOW = datetime.datetime(2026, 11, 16, 12, tzinfo=datetime.UTC)
GOOD = {
    '{"id":1,"ok":true,"share":1,"price":12.5,"name":"ä"}': {"id": 1, "share": 1.0, "name": "ä"},
    '{"id":2,"share":0.25,"rest":{"a":[1,null]},"unknown":9}': {"rest": '{"a":[1,null]}'},
    '{"id":3,"on":"2026-11-16","name":null,"rest":null}': {"on": NOW.date(), "name": None},
    '{"id":4,"placed.at":"2026-11-16T12:00:00Z","rest":7}': {"rest": "7"},
    '{"id":-2147483648}': {"id": -2147483648},
}
BAD = {
    "{nope": "undecodable JSON",
    "": "undecodable JSON",
    "[1]": "not a JSON object but array<bigint>",
    '"text"': "not a JSON object but string",
    "{}": "missing required id",
    '{"id":null}': "missing required id",
    '{"id":"1"}': "wrong type: id is string, not int",
    '{"id":1.5}': "wrong type: id is decimal(2,1), not int",
    '{"id":2147483648}': "out of range: id does not fit int",
    '{"id":1,"ok":1}': "wrong type: ok is bigint, not boolean",
    '{"id":1,"share":"0.5"}': "wrong type: share is string, not double",
    '{"id":1,"name":5}': "wrong type: name is bigint, not string",
    '{"id":1,"placed.at":1700000000}': "wrong type: placed.at is bigint, not timestamp",
    '{"id":1,"placed.at":"soon"}': "out of range: placed.at does not fit timestamp",
    '{"id":1,"on":"2026-13-01"}': "out of range: on does not fit date",
    '{"name":1,"ok":2}': (
        "missing required id; wrong type: ok is bigint, not boolean; "
        "wrong type: name is bigint, not string"
    ),
}


def test_a_record_fits_or_is_told_why_not(spark: SparkSession) -> None:
    texts = [*GOOD, *BAD]
    rows = [("a", 1, n, NOW, None, None, None, t, NOW.date()) for n, t in enumerate(texts)]

    found = decoded(spark.createDataFrame(rows, dataframes.RECORDS), COLUMNS)

    good: dict[str, Row] = {texts[row["seq"]]: row for row in found.good.collect()}
    bad: dict[str, str] = {row["data"]: row["reason"] for row in found.bad.collect()}
    assert set(good) == set(GOOD)
    for text, values in GOOD.items():
        assert {name: good[text][name] for name in values} == values
    assert bad == BAD


def test_what_does_not_fit_is_in_quarantine_with_its_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    bed = Bed(spark, tmp_path, PROJECT + ORDERS)
    bed.append("orders", {"id": 1, "total": 2, "name": "a"}, {"id": "x"}, 7, {"total": 1})

    report = bed.run()

    assert (report.rows, report.quarantined) == (1, 3)
    assert bed.silver("seq", "id", "total", "name") == [(1, 1, 2.0, "a")]
    bad = sorted((row["seq"], row["reason"]) for row in bed.part("orders", "quarantine"))
    assert bad == [
        (2, "wrong type: id is string, not long"),
        (3, "not a JSON object but bigint"),
        (4, "missing required id"),
    ]


def test_a_delete_in_the_log_takes_rows_from_silver_and_leaves_other_files_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    keep = ORDERS.replace("silver.orders", "silver.kept").replace(
        "[silver.kept.columns]", 'deletes = "ignore"\n[silver.kept.columns]'
    )
    bed = Bed(spark, tmp_path, PROJECT + ORDERS + keep)
    bed.append("orders", {"id": 1}, {"id": 2})
    bed.run()
    bed.append("orders", {"id": 3}, {"id": 4}, tag="x")
    bed.append("orders", {"id": 5}, {"id": "bad"}, tag="y")
    bed.run()
    files = {file.path for file in bed.manifest("orders").files}
    with bed.log() as log:
        log.delete("orders", tag="x")

    report = bed.run()

    assert report.deleted == 2
    assert bed.silver("id") == [(1,), (2,), (5,)]
    assert bed.silver("id", name="kept") == [(1,), (2,), (3,), (4,), (5,)]
    assert len(bed.records()) == 6
    kept = files & {file.path for file in bed.manifest("orders").files}
    assert len(kept) == 2  # of the first run, and the quarantine
    with bed.log() as log:
        log.delete("orders", tag="y")
    bed.append("orders", {"id": 7})
    assert bed.run().deleted == 2
    assert bed.silver("id") == [(1,), (2,), (7,)]
    assert bed.part("orders", "quarantine") == []
    assert bed.run().commits == 0


def silver_rows(bed: Bed, *columns: str) -> list[tuple[Any, ...]]:
    """As gold sees them: with the columns of now."""
    tables, _ = Runner(bed.project, bed.spark).tables()
    return sorted(map(tuple, tables["orders"].select(*columns).collect()))


def test_a_project_adds_columns_and_widens_them_and_old_files_follow(
    spark: SparkSession, tmp_path: Path
) -> None:
    narrow = PROJECT + '[silver.orders]\ntopics = "orders"\ncolumns = { id = "int" }\n'
    bed = Bed(spark, tmp_path, narrow)
    bed.append("orders", {"id": 1, "n": "one"}, {"id": 5_000_000_000})
    bed.run()
    bed.write(narrow.replace('id = "int"', 'id = "long", n = "string"'))
    bed.append("orders", {"id": 6_000_000_000, "n": "big"})

    report = bed.run()

    assert (report.rows, report.quarantined) == (1, 0)
    assert silver_rows(bed, "id", "n") == [(1, None), (6_000_000_000, "big")]
    bed.write(narrow.replace('id = "int"', 'id = "string"'))
    with pytest.raises(InvalidArgument, match=r"silver\.orders\.columns\.id is long"):
        bed.run()


def test_records_bring_columns_and_widen_them_where_the_project_allows(
    spark: SparkSession, tmp_path: Path
) -> None:
    text = '[silver.orders]\ntopics = "orders"\nevolve = true\ncolumns = { id = "int" }\n'
    bed = Bed(spark, tmp_path, PROJECT + text)
    bed.append("orders", {"id": 1})
    bed.run()
    bed.append("orders", {"id": 5_000_000_000, "to": "x"}, {"id": "no", "seq": 4})
    bed.run()
    bed.append("orders", {"id": 0.5, "on": True, "to": 7})

    report = bed.run()

    kinds = {column.name: column.kind for column in bed.manifest("orders").columns}
    assert kinds == {"id": "double", "to": "string", "on": "boolean"}
    assert silver_rows(bed, "seq", "id", "to", "on") == [
        (1, 1.0, None, None),
        (2, 5e9, "x", None),
    ]
    assert report.quarantined == 1
    reasons = sorted((row["seq"], row["reason"]) for row in bed.part("orders", "quarantine"))
    assert reasons == [
        (3, "wrong type: id is string, not long"),
        (4, "wrong type: to is bigint, not string"),
    ]


def damage(root: Path, text: bytes) -> None:
    """One byte of a sealed record is not what was written."""
    (path,) = [p for p in (root / "topics").rglob("seg-*.data") if text in p.read_bytes()]
    data = bytearray(path.read_bytes())
    data[data.index(text)] ^= 1
    path.write_bytes(data)


def test_a_record_that_cannot_be_read_any_more_was_not_deleted(
    spark: SparkSession, tmp_path: Path
) -> None:
    bed = Bed(spark, tmp_path, PROJECT + ORDERS)
    with bed.log() as log:
        log.append("orders", [{"id": n} for n in range(9)])
        log.append("orders", [{"id": 9}], tag="x")
        log.checkpoint(everything=True)
    bed.run()
    damage(tmp_path / "log", b'"id":4')
    with bed.log() as log:
        log.delete("orders", tag="x")

    report = bed.run(skip_corrupt=True)

    assert report.deleted == 1
    assert bed.silver("id") == [(n,) for n in range(9)]
    assert [row["seq"] for row in bed.part("bronze", "deletes")] == [10]
    assert bed.run(skip_corrupt=True).commits == 0


def test_a_record_that_a_server_lost_was_not_deleted(
    spark: SparkSession, tmp_path: Path, start: Start
) -> None:
    server = start()
    source = f'[source]\nurl = "{url_of(server)}"\ntopics = ["orders"]\n'
    bed = Bed(spark, tmp_path / "lake", source + ORDERS)
    with penstock.connect(url_of(server), timeout_s=serving.DEADLINE_S) as client:
        client.append("orders", [{"id": n} for n in range(9)])
        client.append("orders", [{"id": 9}], tag="x")
    bed.run()
    server.stop()
    data = server.data_dir
    assert run(["compact", "-d", str(data)]) == ExitCode.OK
    damage(data, b'"id":4')
    assert run(["repair", str(data), "--yes"]) == ExitCode.OK
    server.start()
    bed.write(f'[source]\nurl = "{url_of(server)}"\ntopics = ["orders"]\n' + ORDERS)
    with penstock.connect(url_of(server), timeout_s=serving.DEADLINE_S) as client:
        client.delete("orders", tag="x")

    report = bed.run()

    assert report.deleted == 1
    assert bed.silver("id") == [(n,) for n in range(9)]


STRANGE = ["http.status", "a`b", "a b", "a,b", "a=b", "a: b", "x`: y", "a<b>", "ä", "(;{}", "`"]


def test_a_field_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    text = '[silver.orders]\ntopics = "orders"\nevolve = true\n[silver.orders.columns]\n'
    bed = Bed(spark, tmp_path, PROJECT + text + 'id = "int"\n"my.name" = "string"\n')
    (tmp_path / "all.sql").write_text("SELECT * FROM orders", encoding="utf-8")
    bed.write((tmp_path / "pipeline.toml").read_text() + '[gold.all]\nsql = "all.sql"\n')
    strange = {name: n for n, name in enumerate(STRANGE)}
    bed.append("orders", {"id": 1, "my.name": "a"} | strange, {"id": 2})
    bed.append("orders", {"id": 3} | strange, tag="x")
    bed.run()
    with bed.log() as log:
        log.delete("orders", tag="x")
    bed.append("orders", {"id": 4, "one.more": 1})

    report = bed.run()

    assert (report.deleted, report.quarantined) == (1, 0)
    names = [column.name for column in bed.manifest("orders").columns]
    assert set(names) == {"id", "my.name", "one.more", *STRANGE}
    rows = {row["id"]: row for row in bed.part("all", "rows")}
    assert {name: rows[1][name] for name in STRANGE} == strange
    assert (rows[1]["my.name"], rows[4]["one.more"]) == ("a", 1)
    assert bed.verify().differences == []
