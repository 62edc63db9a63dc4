"""How far one read searches, and that another can go on where it ended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.engine.engine import Log
from penstock.engine.scan_budget import ScanBudget, is_quick_scan
from tests.unit.engine.support import everything


@given(st.integers(1, limits.READ_RECORDS_MAX), st.floats(0.0, 1.0))
def test_a_search_looks_at_no_more_than_the_limit(wanted: int, share: float) -> None:
    budget = ScanBudget(wanted)
    looked_at = 0

    while not budget.is_spent:
        step = budget.next_step()
        assert step >= 1
        assert looked_at + step <= limits.READ_SCAN_MAX
        taken = max(1, round(step * share)) if step < 5000 else step
        budget.spend(taken)
        looked_at += taken

    assert looked_at == limits.READ_SCAN_MAX


def test_a_short_search_is_quick() -> None:
    assert is_quick_scan(20_000)
    assert not is_quick_scan(20_001)


def test_a_walk_past_filters_is_bounded_and_can_be_continued(
    memory_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "READ_SCAN_MAX", 5000)
    for _ in range(3):
        memory_log.append("t", [0] * 4096, node="me")
    memory_log.append("t", ["end"])

    first = memory_log.read("t", node="me")

    assert (first.records, first.caught_up) == ([], False)
    assert first.next_seq >= 5000
    assert everything(memory_log, node="me") == ["end"]


def test_a_walk_past_other_tags_is_bounded_and_can_be_continued(
    memory_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "READ_SCAN_MAX", 6000)
    memory_log.append("t", ["start"], tag="a")
    for _ in range(3):
        memory_log.append("t", [0] * 4096, tag="b")
    memory_log.append("t", ["end"], tag="a")

    first = memory_log.read("t", tag="a")
    second = memory_log.read("t", first.next_seq, tag="a")

    assert ([record.data for record in first.records], first.next_seq) == (["start"], 6000)
    assert (second.records, second.next_seq, second.caught_up) == ([], 12_000, False)
    assert everything(memory_log, tag="a") == ["start", "end"]
