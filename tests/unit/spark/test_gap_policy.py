"""Missing and damaged records under each `onGap`. Between plan and read: test_tasks.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.errors import CorruptFrame
from penstock.spark.gap_policy import GapPolicy
from penstock.spark.gaps import GapFound, GapRow
from penstock.spark.options import OnGap

MISSING = [GapRow("t", 5, 1, 6, "cap"), GapRow("t", 5, 9, 9, "ttl")]


def ledger_of(path: Path) -> list[tuple[int, int, str]]:
    lines = [json.loads(one.read_text()) for one in path.glob("*.json")]
    return sorted((line["first"], line["last"], line["reason"]) for line in lines)


def test_fail_names_the_gaps_and_skips_none(tmp_path: Path) -> None:
    policy = GapPolicy("fail", str(tmp_path / "gaps"))

    with pytest.raises(GapFound, match=r"/data: .*records 1 to 6 .*cap.* \(and 1 more gaps\)"):
        policy.skip_missing("/data", MISSING)

    assert policy.skipped == []
    assert not (tmp_path / "gaps").exists()


def test_report_logs_the_gaps_and_keeps_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policy = GapPolicy("report", str(tmp_path / "gaps"))

    policy.skip_missing("/data", MISSING)

    assert policy.skipped == MISSING
    assert caplog.text.count("are gone") == 2
    assert ledger_of(tmp_path / "gaps") == [(1, 6, "cap"), (9, 9, "ttl")]


def test_ignore_goes_on_in_silence(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    policy = GapPolicy("ignore", str(tmp_path / "gaps"))

    policy.skip_missing("/data", MISSING)

    assert policy.skipped == MISSING
    assert not caplog.text
    assert not (tmp_path / "gaps").exists()


@pytest.mark.parametrize("on_gap", ["fail", "report", "ignore"])
def test_no_gap_is_no_matter(on_gap: OnGap, caplog: pytest.LogCaptureFixture) -> None:
    policy = GapPolicy(on_gap, "")

    policy.check("/data", [])
    policy.skip_missing("/data", [])

    assert (policy.skipped, caplog.text) == ([], "")


@pytest.mark.parametrize("on_gap", ["fail", "report", "ignore"])
def test_damage_that_may_be_skipped_is_always_reported(
    on_gap: OnGap, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policy = GapPolicy(on_gap, str(tmp_path / "gaps"))

    policy.skip_damaged("t", 5, 3, 4, CorruptFrame("/data/x", reason="checksum differs"))

    assert [row.reason for row in policy.skipped] == ["corrupt"]
    assert "skipped records 3 to 4 of topic t" in caplog.text
    assert ledger_of(tmp_path / "gaps") == [(3, 4, "corrupt")]
