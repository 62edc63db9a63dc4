"""Gaps of a stream, kept."""

from __future__ import annotations

import json

from penstock.spark.gap_ledger import Ledger
from penstock.spark.gaps import GapRow
from penstock.testing import MemoryFilesystem


def test_a_gap_is_kept_once_however_often_it_is_told() -> None:
    fs = MemoryFilesystem()
    ledger = Ledger("/lake/gaps", fs)
    rows = [GapRow("t", 5, 4, 9, "cap"), GapRow("t", 5, 12, None, "recreated")]

    assert ledger.record(rows, 0) == 2
    assert ledger.record([*rows, GapRow("t", 5, 4, 10, "cap")], 1_000) == 1
    assert ledger.record(rows, 2_000) == 0

    lines = [json.loads(bytes(fs.map(path))) for path in sorted(fs.paths()) if "gap-" in path]
    assert sorted(line["noticed"] for line in lines) == [
        "1970-01-01T00:00:00.000Z",
        "1970-01-01T00:00:00.000Z",
        "1970-01-01T00:00:01.000Z",
    ]
    assert {(line["first"], line["last"]) for line in lines} == {(4, 9), (12, None), (10, 10)}


def test_of_a_gap_that_has_grown_only_what_came_to_it_is_told() -> None:
    fs = MemoryFilesystem()
    ledger = Ledger("/gaps", fs)

    def told(first: int, last: int | None, epoch: int = 5) -> list[tuple[int, int | None]]:
        before = {*fs.paths()}
        ledger.record([GapRow("t", epoch, first, last, "cap")], 0)
        new = [json.loads(bytes(fs.map(path))) for path in sorted({*fs.paths()} - before)]
        return sorted((one["first"], one["last"]) for one in new)

    assert told(10, 20) == [(10, 20)]
    assert told(12, 18) == []
    assert told(30, 40) == [(30, 40)]
    assert told(5, 50) == [(5, 9), (21, 29), (41, 50)]
    assert told(15, None) == [(51, None)]
    assert told(60, 70) == []
    assert told(10, 20, epoch=6) == [(10, 20)]


def test_a_crash_leaves_whole_files_alone() -> None:
    fs = MemoryFilesystem()
    Ledger("/lake/gaps", fs).record([GapRow("t", 5, 4, 9, "cap")], 0)

    left = fs.kill()

    (path,) = [path for path in left.paths() if path.endswith(".json")]
    assert json.loads(bytes(left.map(path)))["reason"] == "cap"
