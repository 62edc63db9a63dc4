"""What a task reads, and what it tells of the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.engine.engine import Log
from penstock.errors import CorruptFrame
from penstock.spark import tasks
from penstock.spark.gaps import GAPS, GapFound
from penstock.spark.schema import RECORD
from penstock.spark.source import BatchReader, GapReader
from tests.unit.spark.support import filled, opened, options_of


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with opened(tmp_path / "data") as found:
        yield found


def damaged(log: Log, seq: int) -> Path:
    log.compact()
    (path,) = Path(log.core.parts.layout.root).glob("topics/*/*.data")
    content = bytearray(path.read_bytes())
    content[content.index(b'{"n":%d}' % (seq - 1)) + 3] ^= 1
    path.write_bytes(content)
    return path


def parts_of(log: Log, **given: object) -> list[tasks.TaskInput]:
    return [part.value for part in BatchReader(options_of(log, **given), RECORD).partitions()]


def read(parts: list[tasks.TaskInput]) -> list[int]:
    return [seq for part in parts for b in tasks.read(part) for seq in b["seq"].to_pylist()]


def test_damage_is_an_error_with_file_and_offset(log: Log) -> None:
    filled(log)
    path = damaged(log, 5)

    with pytest.raises(CorruptFrame, match=rf"{path} at byte \d+: checksum differs \(seq 5\)"):
        read(parts_of(log))


def test_skipped_damage_is_logged_and_kept(
    log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(log)
    damaged(log, 5)

    seen = read(parts_of(log, skipCorrupt="true", gapLedger=tmp_path / "gaps"))

    assert seen == [1, 2, 3, 4, 6, 7, 8, 9, 10]
    assert "skipped records 5 to 5 of topic t" in caplog.text
    (path,) = (tmp_path / "gaps").iterdir()
    assert json.loads(path.read_text())["reason"] == "corrupt"


def test_damage_can_be_listed(log: Log) -> None:
    filled(log)
    damaged(log, 5)
    reader = GapReader(options_of(log, rows="gaps", skipCorrupt="true"), GAPS)

    rows = [r for part in reader.partitions() for b in reader.read(part) for r in b.to_pylist()]

    assert [(row["first"], row["last"], row["reason"]) for row in rows] == [(5, 5, "corrupt")]


@pytest.mark.parametrize("on_gap", ["fail", "report", "ignore"])
def test_what_goes_between_plan_and_read_is_not_passed_over(
    log: Log, tmp_path: Path, on_gap: str
) -> None:
    filled(log)
    ledger = tmp_path / "gaps"
    parts = parts_of(log, onGap=on_gap, gapLedger=ledger)
    log.create("t", cap_records=4)
    log.sync()

    if on_gap == "fail":
        with pytest.raises(GapFound, match=r"records 1 to 6 of epoch \d+ are gone \(cap\)"):
            read(parts)
        return
    assert read(parts) == [7, 8, 9, 10]
    assert ledger.exists() == (on_gap == "report")


def test_a_topic_that_goes_between_plan_and_read_is_not_passed_over(log: Log) -> None:
    filled(log)
    parts = parts_of(log)
    log.drop("t")
    log.sync()

    with pytest.raises(GapFound, match="topic_deleted"):
        read(parts)
